#include "lang/foreign_names.h"

#include <algorithm>
#include <cctype>

namespace xrun::lang {
namespace {

struct ForeignName {
  NameKind kind;
  std::string_view word;  // as `plain` gives it
  std::string_view ours;  // replaces the word; with a bracket or a space it is an example that is only shown
};

constexpr ForeignName kNames[] = {
    {NameKind::kMetric, "top5", "accuracy(logits, label, k=5)"},
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
    {NameKind::kFunction, "hardswish", "hswish"},
    {NameKind::kFunction, "hardsigmoid", "hsigmoid"},
    {NameKind::kFunction, "newgelu", "gelu_tanh"},
    {NameKind::kFunction, "gelufast", "gelu_tanh"},
    {NameKind::kFunction, "identity", "x -> a for x -> Identity() -> a: a stage that changes nothing is left out"},
    {NameKind::kFunction, "sequential", "the layers one behind the other: x -> linear(64) -> relu"},
    {NameKind::kFunction, "permute", "transpose(1, 2), which exchanges two dimensions"},
    {NameKind::kFunction, "squeeze", "reshape([N, 64]) with the dimensions that are left"},
    {NameKind::kFunction, "unsqueeze", "reshape([N, 1, 64]) with a dimension of 1 more"},
    {NameKind::kFunction, "logsoftmax", "softmax_ce as the loss, which contains it: x -> linear(10)"},
    {NameKind::kFunction, "size", "the dimension's name, such as D of a parameter x: [N, D], or the number"},
    {NameKind::kFunction, "parameter", "the first value alone: param w: [64] = ones"},
    {NameKind::kOptimizer, "momentum", "sgd(momentum=0.9)"},
    {NameKind::kOptimizer, "nesterov", "sgd(momentum=0.9, nesterov=true)"},
    {NameKind::kOptimizer, "gradientdescent", "sgd"},
    {NameKind::kArgument, "lr", "lr = 0.1 as a setting of `train`, beside the optimizer"},
    {NameKind::kArgument, "learningrate", "lr = 0.1 as a setting of `train`, beside the optimizer"},
    {NameKind::kArgument, "betas", "beta1=0.9, beta2=0.999"},
    {NameKind::kArgument, "ignoreindex",
     "label = column(6) -> ignore(-1) -> as_index(12), a stage of the label in `data`"},
    {NameKind::kReader, "imagefolder", "folder"},
    {NameKind::kReader, "readcsv", "csv"},
    {NameKind::kReader, "table", "csv"},
    {NameKind::kReader, "mnist", "idx"},
    {NameKind::kSetting, "gradclipnorm", "clip = norm(1)"},
    {NameKind::kSetting, "clipgradnorm", "clip = norm(1)"},
    {NameKind::kSetting, "maxgradnorm", "clip = norm(1)"},
    {NameKind::kSetting, "accumulationsteps", "grad_accumulation"},
    {NameKind::kSetting, "gradientaccumulationsteps", "grad_accumulation"},
    {NameKind::kSetting, "device", "--devices on the command line (a file names no devices)"},
    {NameKind::kSetting, "numworkers", "--threads on the command line (a file names no threads)"},
    {NameKind::kSetting, "batchsize", "batch"},
    {NameKind::kSetting, "learningrate", "lr"},
    {NameKind::kSetting, "lrscheduler", "lr"},
    {NameKind::kSetting, "scheduler", "lr"},
    {NameKind::kSetting, "numepochs", "epochs"},
    {NameKind::kSetting, "maxepochs", "epochs"},
    {NameKind::kSetting, "maxsteps", "steps"},
    {NameKind::kSetting, "criterion", "loss"},
    {NameKind::kSetting, "randomseed", "seed"},
    {NameKind::kSetting, "dtype", "precision"},
    {NameKind::kSetting, "amp", "precision = mixed(bf16)"},
    {NameKind::kSetting, "momentum", "optimizer = sgd(momentum=0.9)"},
    {NameKind::kSetting, "weightdecay", "optimizer = sgd(momentum=0.9, weight_decay=5e-4)"},
    {NameKind::kSetting, "gradclip", "clip = norm(1)"},
    {NameKind::kSetting, "gradientclipping", "clip = norm(1)"},
    {NameKind::kChoice, "bf16", "mixed(bf16)"},
    {NameKind::kChoice, "bfloat16", "mixed(bf16)"},
    {NameKind::kChoice, "f16", "mixed(bf16)"},
    {NameKind::kChoice, "fp16", "mixed(bf16)"},
    {NameKind::kChoice, "float16", "mixed(bf16)"},
    {NameKind::kChoice, "half", "mixed(bf16)"},
    {NameKind::kChoice, "amp", "mixed(bf16)"},
    {NameKind::kChoice, "fp32", "f32"},
    {NameKind::kChoice, "float32", "f32"},
    {NameKind::kStage, "totensor", "scale(1 / 255)"},
    {NameKind::kStage, "rescale", "scale"},
    {NameKind::kStage, "randomhorizontalflip", "random_flip"},
    {NameKind::kStage, "horizontalflip", "random_flip"},
    {NameKind::kStage, "randomrotation", "random_affine(rotate=0.1)"},
    {NameKind::kStage, "gaussianblur", "random_blur"},
    {NameKind::kStage, "onehot", "as_index"},
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

// What stands behind `word` and `sign` among the words of OpDef::aliases; nothing if none begins so.
std::optional<std::string_view> listed_as(std::string_view aliases, std::string_view word, std::string_view sign) {
  const std::string text = plain(word);
  for (size_t at = 0; at < aliases.size();) {
    const size_t end = std::min(aliases.find(' ', at), aliases.size());
    const std::string_view one = aliases.substr(at, end - at);
    const size_t cut = std::min(one.find_first_of("=("), one.size());
    if (plain(one.substr(0, cut)) == text && one.substr(cut, sign.size()) == sign) {
      return one.substr(std::min(cut + sign.size(), one.size()));
    }
    at = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::string_view foreign_name(NameKind kind, std::string_view word) {
  const std::string text = plain(word);
  const auto found =
      std::ranges::find_if(kNames, [&](const ForeignName& name) { return name.kind == kind && name.word == text; });
  return found == std::end(kNames) ? std::string_view() : found->ours;
}

Fix our_name(NameKind kind, std::string_view word, const std::vector<std::string>& known, Span at, Help otherwise) {
  // `SGD`, `ReLU`: our own name in another spelling.
  for (const std::string& name : known) {
    if (plain(name) == plain(word)) {
      return replacement({"`{}` is `{}` here", word, name}, at, name, true);
    }
  }
  if (const std::string ours(foreign_name(kind, word)); !ours.empty()) {
    return ours.find_first_of("([ ") == std::string::npos
               ? replacement({"`{}` is `{}` here", word, ours}, at, ours, true)
               : Fix{"write " + ours};
  }
  return did_you_mean(word, known, at, std::move(otherwise));
}

const OpDef* foreign_op(const OpRegistry& ops, std::string_view word) {
  const auto called_so = [&](const OpDef* op) {
    return op->is_word() && (plain(op->name) == plain(word) || listed_as(op->aliases, word, "(") ||
                             listed_as(op->aliases, word, "") == std::string_view());
  };
  const auto found = std::ranges::find_if(ops.all(), called_so);
  return found == ops.all().end() ? nullptr : *found;
}

std::optional<std::string_view> our_argument(const OpDef& op, std::string_view word) {
  return listed_as(op.aliases, word, "=");
}

std::string_view implied_argument(const OpDef& op, std::string_view word) {
  std::string_view text = listed_as(op.aliases, word, "(").value_or("");
  text.remove_suffix(text.empty() ? 0 : 1);
  return text;
}

bool is_spelling_of(std::string_view word, std::string_view name) { return plain(word) == plain(name); }

}  // namespace xrun::lang
