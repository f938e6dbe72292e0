#include "lang/text/foreign_names.h"

#include <algorithm>
#include <cctype>

namespace xrun::lang {
namespace {

struct ForeignName {
  NameKind kind;
  std::string_view word;  // in the form of `plain`
  std::string_view ours;  // our text; with a bracket or a space it is an example that is only shown
};

constexpr ForeignName kNames[] = {
    {NameKind::kMetric, "top5", "accuracy(logits, label, k=5)"},
    {NameKind::kMetric, "topkaccuracy", "accuracy(logits, label, k=5)"},
    {NameKind::kMetric, "f1",
     "accuracy(logits, label); `xrun eval --per-class` prints recall and precision of each class"},
    {NameKind::kMetric, "f1score",
     "accuracy(logits, label); `xrun eval --per-class` prints recall and precision of each class"},
    {NameKind::kMetric, "precision",
     "accuracy(logits, label); `xrun eval --per-class` prints recall and precision of each class"},
    {NameKind::kMetric, "auc", "accuracy(logits, label); `xrun predict --scores` writes what other measures need"},
    {NameKind::kMetric, "auroc", "accuracy(logits, label); `xrun predict --scores` writes what other measures need"},
    {NameKind::kMetric, "confusionmatrix",
     "accuracy(logits, label); `xrun eval --confusion FILE` writes the pairs of classes"},
    {NameKind::kMetric, "focal", "softmax_ce(logits, label), with class_weights = inverse_frequency for rare classes"},
    {NameKind::kMetric, "triplet", "arcface(head, label), which separates classes without pairs of samples"},
    {NameKind::kMetric, "tripletmargin", "arcface(head, label), which separates classes without pairs of samples"},
    {NameKind::kMetric, "contrastive", "arcface(head, label), which separates classes without pairs of samples"},
    {NameKind::kMetric, "partialfc", "a margin loss, and active_classes = sample(10%) as a setting of `train`"},
    {NameKind::kCurve, "polyscheduler", "poly(0.1 .. 0)"},
    {NameKind::kCurve, "polynomiallr", "poly(0.1 .. 0)"},
    {NameKind::kCurve, "linearlr", "poly(0.1 .. 0)"},
    {NameKind::kCurve, "cosinelrscheduler", "cosine(0.1 .. 0)"},
    {NameKind::kCurve, "cosineannealingwarmrestarts", "cosine(0.1 .. 0)"},
    {NameKind::kCurve, "exponentiallr", "steps(0.1, at=[5 epochs, 8 epochs])"},
    {NameKind::kCurve, "exponentialdecay", "steps(0.1, at=[5 epochs, 8 epochs])"},
    {NameKind::kCurve, "reducelronplateau", "steps(0.1, at=[5 epochs, 8 epochs]); a rate does not follow a metric"},
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
    {NameKind::kFunction, "onehot",
     "the class number itself, which losses and `embed` take: softmax_ce(logits, label)"},
    {NameKind::kFunction, "stack", "concat(a, b, axis=1), after reshape([N, 1, 64]) where a dimension is to be new"},
    {NameKind::kFunction, "expanddims", "reshape([N, 1, 64]) with a dimension of 1 more"},
    {NameKind::kFunction, "cuda", "nothing: devices are chosen on the command line, --devices cuda"},
    {NameKind::kFunction, "argmax", "accuracy(logits, label) as a metric, or `xrun predict` for the classes"},
    {NameKind::kFunction, "sequential", "the layers one after the other: x -> linear(64) -> relu"},
    {NameKind::kFunction, "permute", "transpose(1, 2), which exchanges two dimensions"},
    {NameKind::kFunction, "squeeze", "reshape([N, 64]) with the dimensions that are left"},
    {NameKind::kFunction, "unsqueeze", "reshape([N, 1, 64]) with a dimension of 1 more"},
    {NameKind::kFunction, "logsoftmax", "softmax_ce as the loss, which contains it: x -> linear(10)"},
    {NameKind::kFunction, "size", "the dimension's name, such as D of a parameter x: [N, D], or the number"},
    {NameKind::kFunction, "parameter", "only the initial value: param w: [64] = ones"},
    {NameKind::kOptimizer, "momentum", "sgd(momentum=0.9)"},
    {NameKind::kOptimizer, "nesterov", "sgd(momentum=0.9, nesterov=true)"},
    {NameKind::kOptimizer, "gradientdescent", "sgd"},
    {NameKind::kArgument, "lr", "lr = 0.1 as a setting of `train`, next to `optimizer`"},
    {NameKind::kArgument, "learningrate", "lr = 0.1 as a setting of `train`, next to `optimizer`"},
    {NameKind::kArgument, "betas", "beta1=0.9, beta2=0.999"},
    {NameKind::kArgument, "ignoreindex",
     "label = column(6) -> ignore(-1) -> as_index(12), a stage of the label in `data`"},
    {NameKind::kArgument, "padding", "pad"},
    {NameKind::kArgument, "degrees", "rotate"},
    {NameKind::kArgument, "angle", "rotate"},
    {NameKind::kArgument, "translate", "shift"},
    {NameKind::kArgument, "std", "sigma"},
    {NameKind::kReader, "imagefolder", "folder"},
    {NameKind::kReader, "readcsv", "csv"},
    {NameKind::kReader, "table", "csv"},
    {NameKind::kReader, "mnist", "idx"},
    {NameKind::kStage, "totensor", "scale(1 / 255)"},
    {NameKind::kStage, "rescale", "scale"},
    {NameKind::kStage, "randomhorizontalflip", "random_flip"},
    {NameKind::kStage, "horizontalflip", "random_flip"},
    {NameKind::kStage, "randomrotation", "affine(10), in degrees, or random_affine(rotate=0.17), in radians"},
    {NameKind::kStage, "gaussianblur", "blur(5, sigma=[0.1, 2])"},
    {NameKind::kStage, "onehot", "as_index"},
    {NameKind::kStage, "onehotencode", "as_index"},
    {NameKind::kStage, "labelencoder", "as_index"},
    {NameKind::kStage, "verticalflip", "affine(10, scale=[0.9, 1.1]); pictures are mirrored by random_flip alone"},
    {NameKind::kStage, "randomerasing", "random_erasing(0.25)"},
    {NameKind::kStage, "cutout", "random_erasing(p=1, ratio=[1, 1])"},
    {NameKind::kStage, "randaugment", "rand_augment(ops=2, magnitude=9)"},
    {NameKind::kStage, "grayscale", "decode(28, channels=1)"},
    {NameKind::kStage, "float", "scale(1 / 255)"},
    {NameKind::kElement, "float", "f32"},
    {NameKind::kElement, "float32", "f32"},
    {NameKind::kElement, "fp32", "f32"},
    {NameKind::kElement, "single", "f32"},
    {NameKind::kElement, "tensor", "f32"},
    {NameKind::kElement, "floattensor", "f32"},
    {NameKind::kElement, "array", "f32"},
    {NameKind::kElement, "ndarray", "f32"},
    {NameKind::kElement, "double", "f64"},
    {NameKind::kElement, "float64", "f64"},
    {NameKind::kElement, "fp64", "f64"},
    {NameKind::kElement, "bfloat16", "bf16"},
    {NameKind::kElement, "half", "f16"},
    {NameKind::kElement, "float16", "f16"},
    {NameKind::kElement, "fp16", "f16"},
    {NameKind::kElement, "int", "i32"},
    {NameKind::kElement, "int32", "i32"},
    {NameKind::kElement, "int64", "i64"},
    {NameKind::kElement, "long", "i64"},
    {NameKind::kElement, "longtensor", "i64"},
    {NameKind::kElement, "int16", "i16"},
    {NameKind::kElement, "short", "i16"},
    {NameKind::kElement, "int8", "i8"},
    {NameKind::kElement, "uint8", "u8"},
    {NameKind::kElement, "byte", "u8"},
    {NameKind::kElement, "boolean", "bool"},
    {NameKind::kElement, "string", "str"},
};

// Removes differences of spelling: capital letters, `_` and the word `loss`.
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

// The rest of the first word in OpDef::aliases that begins with `word` and `sign`; nullopt if there is no such word.
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

constexpr ForeignNet kNets[] = {
    {"resnet18", "basic_resnet", "basic_resnet([2, 2, 2, 2])"},
    {"resnet34", "basic_resnet", "basic_resnet([3, 4, 6, 3])"},
    {"resnet50", "resnet", "resnet([3, 4, 6, 3])"},
    {"resnet101", "resnet", "resnet([3, 4, 23, 3])"},
    {"resnet152", "resnet", "resnet([3, 8, 36, 3])"},
    {"r18", "iresnet", "iresnet([2, 2, 2, 2])"},
    {"r34", "iresnet", "iresnet([3, 4, 6, 3])"},
    {"r50", "iresnet", "iresnet([3, 4, 14, 3])"},
    {"r100", "iresnet", "iresnet([3, 13, 30, 3])"},
    {"iresnet18", "iresnet", "iresnet([2, 2, 2, 2])"},
    {"iresnet34", "iresnet", "iresnet([3, 4, 6, 3])"},
    {"iresnet50", "iresnet", "iresnet([3, 4, 14, 3])"},
    {"iresnet100", "iresnet", "iresnet([3, 13, 30, 3])"},
    {"vitb16", "vit", "vit(width=768, depth=12, heads=12, patch=16)"},
    {"vitbasepatch16224", "vit", "vit(width=768, depth=12, heads=12, patch=16)"},
    {"visiontransformer", "vit", "vit(width=768, depth=12, heads=12, patch=16)"},
    {"vits16", "vit", "vit(width=384, depth=12, heads=6, patch=16)"},
    {"efficientnetb0", "efficientnet_b0", "efficientnet_b0"},
    {"mobilefacenet", "mobilefacenet", "mobilefacenet(512)"},
    {"bert", "text_encoder", "text_encoder(...)"},
    {"transformerencoder", "text_encoder", "text_encoder(...)"},
};

}  // namespace

std::string plain_name(std::string_view word) { return plain(word); }

std::string_view foreign_name(NameKind kind, std::string_view word) {
  const std::string text = plain(word);
  const auto found =
      std::ranges::find_if(kNames, [&](const ForeignName& name) { return name.kind == kind && name.word == text; });
  return found == std::end(kNames) ? std::string_view() : found->ours;
}

Fix our_name(NameKind kind, std::string_view word, const std::vector<std::string>& known, Span at, Help otherwise) {
  // The name may be ours in another spelling: `SGD`, `ReLU`.
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

const ForeignNet* foreign_net(std::string_view word) {
  const auto* net = std::ranges::find(kNets, word, &ForeignNet::word);
  return net == std::end(kNets) ? nullptr : net;
}

}  // namespace xrun::lang
