#include "lang/foreign_names.h"

#include <algorithm>
#include <cctype>

namespace xrun::lang {
namespace {

struct ForeignName {
  NameKind kind;
  std::string_view word;  // in small letters, without `_` and without `loss` at its end
  std::string_view ours;  // replaces the word; with a bracket it is an example that is only shown
};

constexpr ForeignName kNames[] = {
    {NameKind::kLoss, "crossentropy", "softmax_ce"},
    {NameKind::kLoss, "categoricalcrossentropy", "softmax_ce"},
    {NameKind::kLoss, "sparsecategoricalcrossentropy", "softmax_ce"},
    {NameKind::kLoss, "softmaxcrossentropy", "softmax_ce"},
    {NameKind::kLoss, "softmaxcrossentropywithlogits", "softmax_ce"},
    {NameKind::kLoss, "softmax", "softmax_ce"},
    {NameKind::kLoss, "ce", "softmax_ce"},
    {NameKind::kLoss, "nll", "softmax_ce"},
    {NameKind::kLoss, "log", "softmax_ce"},
    {NameKind::kLoss, "binarycrossentropy", "bce"},
    {NameKind::kLoss, "binarycrossentropywithlogits", "bce"},
    {NameKind::kLoss, "bcewithlogits", "bce"},
    {NameKind::kLoss, "sigmoidcrossentropy", "bce"},
    {NameKind::kLoss, "meansquarederror", "mse"},
    {NameKind::kLoss, "squarederror", "mse"},
    {NameKind::kLoss, "l2", "mse"},
    {NameKind::kLoss, "additiveangularmargin", "arcface"},
    {NameKind::kLoss, "amsoftmax", "cosface"},
    {NameKind::kLoss, "additivemargin", "cosface"},
    {NameKind::kMetric, "acc", "accuracy"},
    {NameKind::kMetric, "top1", "accuracy"},
    {NameKind::kMetric, "categoricalaccuracy", "accuracy"},
    {NameKind::kMetric, "sparsecategoricalaccuracy", "accuracy"},
    {NameKind::kMetric, "top5", "accuracy(logits, label, k=5)"},
    {NameKind::kMetric, "topk", "accuracy(logits, label, k=5)"},
    {NameKind::kMetric, "topkaccuracy", "accuracy(logits, label, k=5)"},
    {NameKind::kCurve, "cosinedecay", "cosine"},
    {NameKind::kCurve, "cosineannealing", "cosine"},
    {NameKind::kCurve, "cosineannealinglr", "cosine"},
    {NameKind::kCurve, "linear", "poly"},
    {NameKind::kCurve, "lineardecay", "poly"},
    {NameKind::kCurve, "polynomial", "poly"},
    {NameKind::kCurve, "polynomialdecay", "poly"},
    {NameKind::kCurve, "linearwarmup", "warmup"},
    {NameKind::kCurve, "step", "steps(0.1, at=[5 epochs, 8 epochs])"},
    {NameKind::kCurve, "steplr", "steps(0.1, at=[5 epochs, 8 epochs])"},
    {NameKind::kCurve, "multistep", "steps(0.1, at=[5 epochs, 8 epochs])"},
    {NameKind::kCurve, "multisteplr", "steps(0.1, at=[5 epochs, 8 epochs])"},
    {NameKind::kCurve, "piecewise", "steps(0.1, at=[5 epochs, 8 epochs])"},
    {NameKind::kCurve, "exponential", "steps(0.1, at=[5 epochs, 8 epochs])"},
    {NameKind::kCurve, "onecycle", "[warmup(0 .. 0.1, 2 epochs), cosine(0.1 .. 0)]"},
    {NameKind::kCurve, "onecyclelr", "[warmup(0 .. 0.1, 2 epochs), cosine(0.1 .. 0)]"},
    {NameKind::kOptimizer, "momentum", "sgd(momentum=0.9)"},
    {NameKind::kOptimizer, "nesterov", "sgd(momentum=0.9, nesterov=true)"},
    {NameKind::kOptimizer, "gradientdescent", "sgd"},
    {NameKind::kLayer, "dense", "linear"},
    {NameKind::kLayer, "fc", "linear"},
    {NameKind::kLayer, "fullyconnected", "linear"},
    {NameKind::kLayer, "conv2d", "conv"},
    {NameKind::kLayer, "convolution", "conv"},
    {NameKind::kLayer, "depthwiseconv", "dwconv"},
    {NameKind::kLayer, "depthwiseconv2d", "dwconv"},
    {NameKind::kLayer, "batchnorm", "bn"},
    {NameKind::kLayer, "batchnorm2d", "bn"},
    {NameKind::kLayer, "batchnormalization", "bn"},
    {NameKind::kLayer, "layernormalization", "layer_norm"},
    {NameKind::kLayer, "maxpool2d", "max_pool"},
    {NameKind::kLayer, "maxpooling2d", "max_pool"},
    {NameKind::kLayer, "avgpool2d", "avg_pool"},
    {NameKind::kLayer, "averagepooling2d", "avg_pool"},
    {NameKind::kLayer, "globalaveragepooling", "global_avg_pool"},
    {NameKind::kLayer, "globalaveragepooling2d", "global_avg_pool"},
    {NameKind::kLayer, "adaptiveavgpool2d", "global_avg_pool"},
    {NameKind::kLayer, "gap", "global_avg_pool"},
    {NameKind::kLayer, "multiheadattention", "attention"},
    {NameKind::kLayer, "mha", "attention"},
    {NameKind::kLayer, "embedding", "embed"},
    {NameKind::kLayer, "cat", "concat"},
    {NameKind::kLayer, "concatenate", "concat"},
};

// Spellings differ in capitals, in `_` and in the word `loss`.
std::string plain(std::string_view word) {
  std::string text;
  for (const char c : word) {
    if (c != '_') {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  constexpr std::string_view kSuffix = "loss";
  if (text.size() > kSuffix.size() && text.ends_with(kSuffix)) {
    text.resize(text.size() - kSuffix.size());
  }
  return text;
}

const ForeignName* find(NameKind kind, std::string_view word) {
  const std::string text = plain(word);
  const auto found =
      std::ranges::find_if(kNames, [&](const ForeignName& name) { return name.kind == kind && name.word == text; });
  return found == std::end(kNames) ? nullptr : &*found;
}

}  // namespace

bool is_foreign(NameKind kind, std::string_view word) { return find(kind, word) != nullptr; }

Fix our_name(NameKind kind, std::string_view word, const std::vector<std::string>& known, Span at, Help otherwise) {
  // `SGD`, `ReLU`: our own name in another spelling.
  for (const std::string& name : known) {
    if (plain(name) == plain(word)) {
      return replacement({"it is called `{}` here", name}, at, name);
    }
  }
  if (const ForeignName* foreign = find(kind, word)) {
    const std::string ours(foreign->ours);
    return ours.find_first_of("([") == std::string::npos ? replacement({"it is called `{}` here", ours}, at, ours)
                                                         : Fix{"write " + ours};
  }
  return did_you_mean(word, known, at, std::move(otherwise));
}

}  // namespace xrun::lang
