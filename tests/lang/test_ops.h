// A small registry of operators with the signatures of the real ones, so that the language is tested without ops/.
#pragma once

#include "graph/op_def.h"

namespace xrun::test_ops {

using Types = std::span<const TensorType>;

inline Error shape_error(std::string message, std::string help) {
  return {.kind = ErrorKind::kContent,
          .code = "XG0301",
          .message = std::move(message),
          .help = std::move(help),
          .span = {}};
}

inline OpShape one(TensorType type, std::vector<ParamDecl> params = {}) {
  type.sharded = false;
  OpShape shape;
  shape.outputs.push_back(std::move(type));
  shape.params = std::move(params);
  return shape;
}

inline ParamDecl param(std::string name, std::vector<int64_t> dims, bool trained = true) {
  return {.name = std::move(name), .type = {.dims = std::move(dims)}, .init = {}, .trained = trained};
}

inline Result<OpShape> same(Types in, const Attrs&) { return one(in[0]); }

inline Result<OpShape> conv(Types in, const Attrs& attrs) {
  TensorType out = in[0];
  const int64_t k = attrs.integer("k");
  for (const size_t i : {2, 3}) {
    const int64_t reach = out.dims[i] + 2 * attrs.integer("pad") - k;
    if (reach < 0) {
      return shape_error("a kernel of " + std::to_string(k) + " does not fit " + to_text(in[0]),
                         "make `k` smaller or `pad` larger");
    }
    out.dims[i] = reach / attrs.integer("stride") + 1;
  }
  const int64_t width = attrs.has("width") ? attrs.integer("width") : out.dims[1];
  out.dims[1] = width;
  OpShape shape = one(out);
  if (attrs.has("width")) {
    shape.params.push_back(param("weight", {width, in[0].dims[1], k, k}));
    if (attrs.flag("bias")) {
      shape.params.push_back(param("bias", {width}));
    }
  }
  return shape;
}

inline Result<OpShape> bn(Types in, const Attrs&) {
  const int64_t c = in[0].dims[1];
  OpShape shape = one(in[0], {param("weight", {c}), param("bias", {c}), param("running_mean", {c}, false),
                              param("running_var", {c}, false)});
  shape.outputs.push_back({.dims = {kPerBlock, c}});
  shape.outputs.push_back({.dims = {kPerBlock, c}});
  return shape;
}

inline Result<OpShape> linear(Types in, const Attrs& attrs) {
  TensorType out = in[0];
  out.dims.back() = attrs.integer("out");
  OpShape shape = one(out, {param("weight", {out.dims.back(), in[0].dims.back()})});
  if (attrs.flag("bias")) {
    shape.params.push_back(param("bias", {out.dims.back()}));
  }
  return shape;
}

inline Result<OpShape> flatten(Types in, const Attrs&) { return one({.dims = {kBatch, in[0].row_elements()}}); }
inline Result<OpShape> pool_all(Types in, const Attrs&) { return one({.dims = {kBatch, in[0].dims[1]}}); }
inline Result<OpShape> per_row(Types, const Attrs&) { return one({.dims = {kBatch}}); }

inline Result<OpShape> concat(Types in, const Attrs& attrs) {
  TensorType out = in[0];
  const auto axis = static_cast<size_t>(attrs.integer("axis"));
  for (size_t i = 1; i < in.size(); ++i) {
    out.dims[axis] += in[i].dims[axis];
  }
  return one(out);
}

inline Result<OpShape> classifier(Types in, const Attrs& attrs) {
  const int64_t classes = attrs.integer("classes");
  OpShape shape = one({.dims = {kBatch, classes}}, {param("weight", {classes, in[0].dims[1]})});
  shape.outputs[0].sharded = true;
  return shape;
}
inline HeadForm cosine_form(const Attrs&) { return {.cosine = true}; }
inline HeadForm plain_form(const Attrs&) { return {}; }
inline Result<MarginForm> margin_form(const Attrs& attrs) {
  return MarginForm{.scale = attrs.real("scale"), .filter = attrs.real("filter", 1)};
}

inline Result<MarginForm> angular_form(const Attrs&) { return MarginForm{.m2 = 0.5}; }

inline constexpr auto kLater = Availability::kNotYet;

inline constexpr OpDef kOps[] = {
    {.name = "conv",
     .signature = "(x: [N, C, H, W], width: int, k: int = 1, stride: int = 1, pad: int = k // 2, bias: bool = false)",
     .aliases = "conv2d",
     .infer = conv},
    {.name = "max_pool",
     .signature = "(x: [N, C, H, W], k: int, stride: int = 1, pad: int = (k - 1) // 2)",
     .infer = conv},
    {.name = "bn",
     .signature = "(x: [N, C, ...], momentum: float = 0.1, eps: float = 1e-5)",
     .rows = RowProperty::kRowCoupled,
     .infer = bn},
    {.name = "relu", .signature = "(x: [N, ...])", .infer = same},
    {.name = "softmax", .signature = "(x: [N, ...], axis: int = -1)", .infer = same},
    {.name = "neg", .signature = "(x: [N, ...])", .infer = same},
    {.name = "max", .signature = "(x: [N, ...], axis: int)", .infer = same},
    {.name = "power", .signature = "(x: [N, ...], exponent: float)", .infer = same},
    {.name = "scale_shift", .signature = "(x: [N, ...], scale: float = 1, shift: float = 0)", .infer = same},
    {.name = "add", .signature = "(a: [N, ...], b: [N, ...])", .infer = same},
    {.name = "sub", .signature = "(a: [N, ...], b: [N, ...])", .infer = same},
    {.name = "mul", .signature = "(a: [N, ...], b: [N, ...])", .infer = same},
    {.name = "div", .signature = "(a: [N, ...], b: [N, ...])", .infer = same},
    {.name = "linear",
     .signature = "(x: [N, ..., D], out: int, bias: bool = true)",
     .aliases = "dense",
     .infer = linear},
    {.name = "flatten", .signature = "(x: [N, ...], from: int = 1)", .infer = flatten},
    {.name = "global_avg_pool", .signature = "(x: [N, C, H, W])", .infer = pool_all},
    {.name = "dropout", .signature = "(x: [N, ...], p: float)", .random = true, .infer = same},
    {.name = "concat", .signature = "(x: [N, ...], axis: int)", .variadic = true, .infer = concat},
    {.name = "reshape", .signature = "(x: [N, ...], shape: dims)", .infer = same},
    {.name = "attention", .signature = "(x: [N, T, D], heads: int)", .availability = kLater, .infer = same},
    {.name = "classifier",
     .signature = "(x: [N, D], classes: int, bias: bool = true)",
     .infer = classifier,
     .head = plain_form},
    {.name = "cosine_classifier", .signature = "(x: [N, D], classes: int)", .infer = classifier, .head = cosine_form},
    {.name = "softmax_ce",
     .signature = "(logits: sharded[N, C], label: index(C)[N], scale: float = 1, smoothing: float = 0, "
                  "filter: float = none)",
     .group = "losses",
     .aliases = "cross_entropy categorical_cross_entropy nll",
     .infer = per_row,
     .margin = margin_form},
    {.name = "arcface",
     .signature = "(logits: cosines[N, C], label: index(C)[N], margin = 0.5, scale = 64, easy = false, "
                  "margin_grad = capped)",
     .group = "losses",
     .infer = per_row,
     .margin = angular_form},
    {.name = "cosface",
     .signature = "(logits: cosines[N, C], label: index(C)[N], margin: float = 0.4, scale: float = 64)",
     .group = "losses",
     .infer = per_row},
    {.name = "accuracy",
     .signature = "(logits: sharded[N, C], label: index(C)[N], k: int = 1, source: source = none)",
     .aliases = "acc",
     .infer = per_row,
     .metric_k = [](const Attrs&) { return int64_t{1}; }},
    {.name = "topk",
     .signature = "(logits: sharded[N, C], k: int)",
     .infer = per_row,
     .metric_k = [](const Attrs& attrs) { return attrs.integer("k"); }},
};

inline OpRegistry registry() {
  std::vector<const OpDef*> ops;
  for (const OpDef& op : kOps) {
    ops.push_back(&op);
  }
  return OpRegistry(std::move(ops));
}

}  // namespace xrun::test_ops
