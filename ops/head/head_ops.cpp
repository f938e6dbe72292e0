// Classifier heads, losses and metrics. The result of a head is sharded[N, classes]; the planner turns a head with its
// loss and metrics into a head pass, which ops/head/head.h runs. If the logits are dense, [N, C], softmax_ce, accuracy
// and topk are ordinary row-wise operators with their own kernels (ops/losses/dense_loss.h).
#include <array>
#include <string>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/head/margin_arguments.h"
#include "ops/losses/dense_loss.h"
#include "ops/shape.h"

namespace xrun::ops {

namespace {

using Types = std::span<const TensorType>;

TensorType per_row(DType dtype) { return {.dtype = dtype, .dims = {kBatch}}; }

// ---- heads ----

Result<OpShape> infer_head(std::string_view op, Types inputs, const Attrs& attrs, bool bias, Init init) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation(op, x));
  if (x.rank() != 2) {
    return rank_error(op, "features [N, D]", x, x.rank() == 4 ? kMakeFeatures : kOnePosition);
  }
  const int64_t classes = attrs.integer("classes");
  XRUN_TRY(expect_range(op, "classes", classes, 2, INT32_MAX));
  init.fan_in = x.dims[1];
  OpShape shape{{{.dtype = DType::kF32, .dims = {kBatch, classes}, .sharded = true}},
                {param("weight", {classes, x.dims[1]}, init)}};
  if (bias) {
    shape.params.push_back(param("bias", {classes}));
  }
  return shape;
}

Result<OpShape> infer_classifier(Types inputs, const Attrs& attrs) {
  return infer_head("classifier", inputs, attrs, attrs.flag("bias", true), {.kind = Init::kHeNormal});
}

Result<OpShape> infer_cosine(Types inputs, const Attrs& attrs) {
  return infer_head("cosine_classifier", inputs, attrs, false, {.kind = Init::kNormal, .value = 0.05});
}

// The cost of one product with the class weights, which is the cost of an evaluation. Training multiplies it by the
// number of products (docs/internals/algorithms.md, "Head sweeps").
OpCost head_cost(Types inputs, Types outputs, const Attrs&) {
  const double classes = static_cast<double>(outputs[0].dims[1]);
  const double dim = static_cast<double>(inputs[0].dims[1]);
  return {.flops = 2 * classes * dim, .bytes = inputs[0].bytes(1, 1)};
}

// ---- losses and metrics ----

Status expect_label(std::string_view op, const TensorType& logits, const TensorType& label) {
  if (logits.rank() < 2 || logits.rank() > 3 || !logits.has_batch()) {
    return rank_error(op, "logits [N, C] or [N, T, C]", logits,
                      "give it a head, or what a `linear` makes of features [N, D]");
  }
  if (logits.rank() == 2 && (label.rank() != 1 || !label.has_batch())) {
    return rank_error(op, "one class number a sample, index(C)[N]", label,
                      "bind one column or one label of the data: label = column(64) -> as_index(10)");
  }
  if (const std::vector<int64_t> positions(logits.dims.begin(), logits.dims.end() - 1); label.dims != positions) {
    return shape_error("`" + std::string(op) + "` gets logits " + to_text(logits) + " and labels " + to_text(label),
                       "give it a class number for each position: index(C)[N, T] with logits [N, T, C]");
  }
  if (label.dtype != DType::kI32) {
    return dtype_error(op, label, "labels are class numbers: `label: index(C)[N]`");
  }
  if (label.classes > 0 && label.classes != logits.dims.back()) {
    return shape_error("`" + std::string(op) + "` gets labels of " + std::to_string(label.classes) +
                           " classes and logits of " + std::to_string(logits.dims.back()),
                       "give head and label the same number of classes");
  }
  return {};
}

Result<OpShape> loss_shape(std::string_view op, Types inputs, Result<MarginForm> form) {
  XRUN_TRY(expect_label(op, inputs[0], inputs[1]));
  if (!form.ok()) {
    return std::move(form).error();
  }
  return OpShape{{per_row(DType::kF32)}};
}

// Infers the shape of a loss with a margin or a filter. These act on cosines, which only a cosine head computes.
Result<OpShape> cosine_loss_shape(std::string_view op, Types inputs, Result<MarginForm> form,
                                  const std::string& otherwise = "use `softmax_ce`") {
  if (!inputs[0].sharded) {
    return argument_error("`" + std::string(op) + "` takes the cosines of a head, not " + to_text(inputs[0]),
                          "give it the result of `cosine_classifier`, or " + otherwise);
  }
  return loss_shape(op, inputs, std::move(form));
}

Result<OpShape> infer_ce(Types inputs, const Attrs& attrs) {
  const auto form = ce_margin(attrs);
  return form.ok() && form->of_cosines() ? cosine_loss_shape("softmax_ce", inputs, form, "leave `filter` out")
                                         : loss_shape("softmax_ce", inputs, form);
}

OpCost row_cost(Types inputs, Types outputs, const Attrs&) {
  // For a head, the cost is part of the pass that computes the logits.
  constexpr Flops kLogit = 20;  // flops for one logit, mainly for its exponential
  return inputs[0].sharded ? OpCost{}
                           : OpCost{.flops = kLogit * static_cast<double>(inputs[0].row_elements()),
                                    .bytes = traffic(inputs, outputs)};
}

Status grad_ce(GradBuilder& builder) {
  return builder.set_grad_by(0, "softmax_ce.dx", {builder.input(0), builder.input(1), builder.output_grad(0)},
                             builder.node().attrs);
}

// Inputs: logits, label, d(objective)/d(loss of the row).
Result<OpShape> infer_ce_dx(Types inputs, const Attrs&) { return OpShape{{with_dims(inputs[0], inputs[0].dims)}}; }

constexpr int64_t kMostBest = 1024;

Status expect_k(std::string_view op, const TensorType& logits, int64_t k) {
  return expect_range(op, "k", k, 1, std::min<int64_t>(logits.dims.back(), kMostBest));
}

Result<OpShape> infer_accuracy(Types inputs, const Attrs& attrs) {
  XRUN_TRY(expect_label("accuracy", inputs[0], inputs[1]));
  XRUN_TRY(expect_k("accuracy", inputs[0], attrs.integer("k", 1)));
  return OpShape{{per_row(DType::kF32)}};
}

Result<OpShape> infer_topk(Types inputs, const Attrs& attrs) {
  if (inputs[0].rank() != 2) {
    return rank_error("topk", "logits [N, C]", inputs[0],
                      "give it a head, or what a `linear` makes of features [N, D]");
  }
  const int64_t k = attrs.integer("k");
  XRUN_TRY(expect_k("topk", inputs[0], k));
  return OpShape{{{.dtype = DType::kI32, .dims = {kBatch, k}, .classes = inputs[0].dims[1]},
                  {.dtype = DType::kF32, .dims = {kBatch, k}}}};
}

Result<OpShape> infer_gather(Types inputs, const Attrs&) {
  const TensorType& logits = inputs[0];
  if (!logits.sharded) {
    return rank_error("gather", "the logits of a head, sharded[N, C]", logits,
                      "leave it out: dense logits are in one place");
  }
  if (logits.dims[1] > kMostBest) {
    return argument_error("`gather` takes heads of at most " + std::to_string(kMostBest) + " classes, not " +
                              std::to_string(logits.dims[1]),
                          "take the best classes: topk(id, 10)");
  }
  return OpShape{{{.dtype = DType::kF32, .dims = logits.dims}}};
}

int64_t k_of(const Attrs& attrs) { return attrs.integer("k", 1); }

// ---- the operators ----

constinit const Op kClassifier{
    .def = {.name = "classifier",
            .signature = "(x: [N, D], classes: int, bias: bool = true)",
            .group = "heads",
            .doc = "class weights, sharded over devices: logits x·Wᵀ + b",
            .example = "classifier(feature, 1000)",
            .precision = PrecisionRule::kNarrow,
            .infer = infer_classifier,
            .cost = head_cost,
            .head = [](const Attrs& attrs) { return HeadForm{.cosine = false, .bias = attrs.flag("bias", true)}; }}};

constinit const Op kCosineClassifier{
    .def = {.name = "cosine_classifier",
            .signature = "(x: [N, D], classes: int)",
            .group = "heads",
            .doc = "class weights, sharded over devices: logits are the cosines of x and each class weight",
            .example = "cosine_classifier(feature, 20_902)",
            .precision = PrecisionRule::kNarrow,
            .infer = infer_cosine,
            .cost = head_cost,
            .head = [](const Attrs&) { return HeadForm{.cosine = true, .bias = false}; }}};

constinit const Op kSoftmaxCe{
    .def = {.name = "softmax_ce",
            .signature = "(logits: sharded[N, ..., C], label: index(C)[N, ...], scale: float = 1, "
                         "smoothing: float = 0, filter: float = none)",
            .group = "losses",
            .doc = "cross entropy of softmax(scale · logits), one value a sample: the mean over its positions",
            .example = "softmax_ce(logits, label)",
            .aliases = "cross_entropy categorical_cross_entropy sparse_categorical_cross_entropy softmax_cross_entropy "
                       "softmax_cross_entropy_with_logits ce nll label_smoothing=smoothing",
            .precision = PrecisionRule::kWide,
            .contains = "softmax",
            .infer = infer_ce,
            .cost = row_cost,
            .grad = grad_ce,
            .shard = "n.,n.->n",
            .margin = ce_margin},
    .cpu = make_dense_ce};

constinit const Op kSoftmaxCeDx{.def = {.name = "softmax_ce.dx",
                                        .signature = "(logits: [N, ..., C], label: index(C)[N, ...], dloss: [N])",
                                        .group = "losses",
                                        .doc = "gradient of the cross entropy by dense logits",
                                        .precision = PrecisionRule::kWide,
                                        .infer = infer_ce_dx,
                                        .cost = row_cost,
                                        .shard = "n.,n.,n->n."},
                                .cpu = make_dense_ce_dx};

constinit const Op kArcface{
    .def = {.name = "arcface",
            .signature = "(logits: cosines[N, C], label: index(C)[N], margin: float = 0.5, scale: float = 64, "
                         "easy: bool = false, margin_grad = capped, filter: float = none)",
            .group = "losses",
            .doc = "softmax with an angular margin on the target's cosine (Deng et al., CVPR 2019)",
            .example = "arcface(id, label, margin=0.5, scale=64)",
            .aliases = "additive_angular_margin m=margin s=scale",
            .precision = PrecisionRule::kWide,
            .infer = [](Types inputs,
                        const Attrs& attrs) { return cosine_loss_shape("arcface", inputs, arcface_margin(attrs)); },
            .cost = row_cost,
            .margin = arcface_margin}};

constinit const Op kCosface{
    .def = {.name = "cosface",
            .signature = "(logits: cosines[N, C], label: index(C)[N], margin: float = 0.4, scale: float = 64, "
                         "filter: float = none)",
            .group = "losses",
            .doc = "softmax with a margin subtracted from the target's cosine (Wang et al., CVPR 2018)",
            .example = "cosface(id, label, margin=0.1, scale=24)",
            .aliases = "am_softmax additive_margin m=margin s=scale",
            .precision = PrecisionRule::kWide,
            .infer = [](Types inputs,
                        const Attrs& attrs) { return cosine_loss_shape("cosface", inputs, cosface_margin(attrs)); },
            .cost = row_cost,
            .margin = cosface_margin}};

constinit const Op kCombinedMargin{
    .def = {.name = "combined_margin",
            .signature = "(logits: cosines[N, C], label: index(C)[N], m1: float, m2: float, m3: float, scale: float, "
                         "filter: float = none)",
            .group = "losses",
            .doc = "softmax with cos(m1·angle + m2) - m3 in place of the target's cosine",
            .example = "combined_margin(id, label, 1, 0.3, 0.2, 64)",
            .precision = PrecisionRule::kWide,
            .infer =
                [](Types inputs, const Attrs& attrs) {
                  return cosine_loss_shape("combined_margin", inputs, combined_margin(attrs));
                },
            .cost = row_cost,
            .margin = combined_margin}};

constinit const Op kMarginSoftmax{
    .def = {.name = "margin_softmax",
            .signature = "(logits: cosines[N, C], label: index(C)[N], f: pointwise, scale: float = 64, "
                         "filter: float = none)",
            .group = "losses",
            .doc = "softmax with a `pointwise` function of the target's cosine in its place",
            .example = "margin_softmax(id, label, arc_margin(m=0.3), 64)",
            .aliases = "s=scale",
            .precision = PrecisionRule::kWide,
            .infer = [](Types inputs,
                        const Attrs& attrs) { return cosine_loss_shape("margin_softmax", inputs, own_margin(attrs)); },
            .cost = row_cost,
            .margin = own_margin}};

constinit const Op kAccuracy{
    .def = {.name = "accuracy",
            .signature = "(logits: sharded[N, ..., C], label: index(C)[N, ...], k: int = 1, source: source = none)",
            .group = "metrics",
            .doc = "1 if the label is among the k largest logits, else 0; ties go to the lower class; the mean over "
                   "several positions",
            .example = "accuracy(logits, label)",
            .aliases = "acc top1 categorical_accuracy sparse_categorical_accuracy",
            .precision = PrecisionRule::kWide,
            .infer = infer_accuracy,
            .cost = row_cost,
            .shard = "n.,n.->n",
            .metric_k = k_of},
    .cpu = make_dense_accuracy};

constinit const Op kTopk{.def = {.name = "topk",
                                 .signature = "(logits: sharded[N, C], k: int)",
                                 .group = "metrics",
                                 .doc = "the k classes with the largest logits, best first; an output, not a metric",
                                 .example = "topk(logits, 5)",
                                 .precision = PrecisionRule::kWide,
                                 .infer = infer_topk,
                                 .cost = row_cost,
                                 .shard = "n_->n_,n_",
                                 .metric_k = k_of},
                         .cpu = make_dense_topk};

// gather: the logits of all classes of a head in the order of the classes. It is computed like `topk` (attribute
// `by_class`).
constinit const Op kGather{
    .def = {.name = "gather",
            .signature = "(logits: sharded[N, C])",
            .group = "metrics",
            .doc = "the logits of a head of at most 1024 classes in one place; an output, not a metric",
            .example = "gather(id)",
            .precision = PrecisionRule::kWide,
            .infer = infer_gather,
            .cost = row_cost,
            .parts = [](Types inputs, const Attrs&) {
              return std::vector<PartCall>{{"topk", Attrs{{"k", inputs[0].dims[1]}, {"by_class", true}}}};
            }}};

constexpr std::array<const Op*, 11> kHeadOps{
    &kClassifier,     &kCosineClassifier, &kSoftmaxCe, &kSoftmaxCeDx, &kArcface, &kCosface,
    &kCombinedMargin, &kMarginSoftmax,    &kAccuracy,  &kTopk,        &kGather};

}  // namespace

std::span<const Op* const> head_ops() { return kHeadOps; }

}  // namespace xrun::ops
