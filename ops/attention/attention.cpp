// Self-attention over T positions with h heads of d = D / h numbers: [q k v] = x Wqkvᵀ + bqkv; for each head o =
// softmax(q kᵀ / sqrt(d) + b) v; y = o Wprojᵀ + bproj. x and y are [N, T, D]; Wqkv is [3D, D], Wproj is [D, D]. The
// bias b is -infinity for keys that a query must not see: those after it (causal), and those outside of its window
// (ops/attention/attention_windows.h). With `relative`, b also contains a trained number for each head and each offset
// of a key from the query. Sources: Vaswani et al., "Attention Is All You Need", NeurIPS 2017; Liu et al., "Swin
// Transformer", ICCV 2021.
// Tests: tests/ops/conformance_test.cpp

#include "graph/passes/autodiff.h"
#include "ops/attention/attention_kernel.h"
#include "ops/attention/attention_windows.h"
#include "ops/catalog.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

// Outputs: y, and [q k v] and o, which the gradient needs.
Result<OpShape> infer_attention(Types in, const Attrs& attrs) {
  XRUN_TRY(expect_activation("attention", in[0]));
  if (in[0].rank() != 3) {
    return rank_error("attention", "a sequence [N, T, D]", in[0], kMakeSequence);
  }
  const int64_t t = in[0].dims[1];
  const int64_t d = in[0].dims[2];
  const int64_t heads = attrs.integer("heads");
  XRUN_TRY(expect_range("attention", "heads", heads, 1, d));
  if (d % heads != 0) {
    return shape_error("`attention` cannot split " + to_text(in[0]) + " into " + std::to_string(heads) + " heads",
                       "let `heads` divide the last dimension");
  }
  OpShape shape{{with_dims(in[0], in[0].dims), with_dims(in[0], {kBatch, t, 3 * d}), with_dims(in[0], in[0].dims)},
                {param("qkv.weight", {3 * d, d}, he_normal(d)), param("proj.weight", {d, d}, he_normal(d)),
                 param("proj.bias", {d})}};
  if (attrs.flag("qkv_bias")) {
    shape.params.insert(shape.params.begin() + 1, param("qkv.bias", {3 * d}));
  }
  XRUN_ASSIGN(const Windows windows, Windows::of(t, attrs));
  if (attrs.flag("relative", false)) {
    shape.params.push_back(param("relative", {heads, 2 * windows.rows - 1, 2 * windows.columns - 1}, kSmall));
  }
  return shape;
}

// Inputs: [q k v], the gradient of o, and, with `relative`, the table of trained biases.
Result<OpShape> infer_grad(Types in, const Attrs&) { return OpShape{{with_dims(in[0], in[0].dims)}}; }
Result<OpShape> infer_relative_grad(Types in, const Attrs&) {
  return OpShape{{with_dims(in[0], in[0].dims), weight_type(in[2].dims)}};
}

double keys_of(int64_t t, const Attrs& attrs) { return static_cast<double>(Windows::of(t, attrs).value().tokens()); }

OpCost attention_cost(Types in, Types out, const Attrs& attrs) {
  const auto t = static_cast<double>(in[0].dims[1]);
  const auto d = static_cast<double>(in[0].dims[2]);
  return {.flops = 8 * t * d * d + 4 * t * keys_of(in[0].dims[1], attrs) * d, .bytes = traffic(in, out)};
}

OpCost grad_cost(Types in, Types out, const Attrs& attrs) {
  const auto t = static_cast<double>(in[1].dims[1]);
  const auto d = static_cast<double>(in[1].dims[2]);
  return {.flops = 10 * t * keys_of(in[1].dims[1], attrs) * d, .bytes = traffic(in, out)};
}

Status grad_attention(GradBuilder& builder) {
  const Attrs attrs = builder.node().attrs;  // a copy, because emit moves nodes in memory
  const ValueId dy = builder.output_grad(0);
  const int proj = attrs.flag("qkv_bias") ? 3 : 2;
  XRUN_TRY(builder.set_grad_by(proj, "linear.dw", {builder.output(2), dy}));
  XRUN_TRY(builder.set_grad_by(proj + 1, "bias.grad", {dy}));
  XRUN_ASSIGN(const std::vector<ValueId> d_o, builder.emit("linear.dx", {dy, builder.input(proj)}));
  const bool relative = attrs.flag("relative", false);
  std::vector<ValueId> inputs{builder.output(1), d_o[0]};
  if (relative) {
    inputs.push_back(builder.input(proj + 2));
  }
  Attrs of_scores;
  for (const auto& [name, value] : attrs.all()) {
    if (name != "qkv_bias") {
      of_scores.set(name, value);
    }
  }
  XRUN_ASSIGN(const std::vector<ValueId> dqkv, builder.emit(relative ? "attention.relative" : "attention.grad",
                                                            std::move(inputs), std::move(of_scores)));
  if (relative && builder.wanted(proj + 2)) {
    builder.set_grad(proj + 2, dqkv[1]);
  }
  XRUN_TRY(builder.set_grad_by(1, "linear.dw", {builder.input(0), dqkv[0]}));
  if (proj == 3) {
    XRUN_TRY(builder.set_grad_by(2, "bias.grad", {dqkv[0]}));
  }
  return builder.set_grad_by(0, "linear.dx", {dqkv[0], builder.input(1)});
}

// The operator can be split only by samples. Queries, keys and values are stored one after the other, head by head, so
// a range of features is not a smaller attention.
std::string shard_attention(Types in, Types, const Attrs&) {
  std::string inputs = "n.";
  for (size_t i = 1; i < in.size(); ++i) {
    inputs += ",.";
  }
  return inputs + "->n.,n.,n.";
}

}  // namespace

constinit const Op kAttention{
    .def = {.name = "attention",
            .signature = "(x: [N, T, D], heads: int, qkv_bias: bool = true, causal: bool = none, window: int = none, "
                         "shift: int = none, height: int = none, relative: bool = none)",
            .group = "attention",
            .doc = "self-attention over T positions, which may be a grid of `height` rows in windows of `window` x "
                   "`window`, moved by `shift`; `relative` adds a trained bias for places of keys relative to queries",
            .example = "attention(12)",
            .aliases = "multi_head_attention multihead_attention mha self_attention embed_dim= num_heads=heads "
                       "is_causal=causal window_size=window shift_size=shift",
            .precision = PrecisionRule::kNarrow,
            .infer = infer_attention,
            .cost = attention_cost,
            .grad = grad_attention,
            .shard_of = shard_attention},
    .cpu = make_attention};

constinit const Op kAttentionGrad{.def = {.name = "attention.grad",
                                          .signature = "(qkv: [N, T, E], do: [N, T, D])",
                                          .group = "attention",
                                          .doc = "gradient of queries, keys and values",
                                          .precision = PrecisionRule::kNarrow,
                                          .infer = infer_grad,
                                          .cost = grad_cost,
                                          .shard = "n.,n.->n."},
                                  .cpu = make_attention_grad};

constinit const Op kAttentionRelative{
    .def = {.name = "attention.relative",
            .signature = "(qkv: [N, T, E], do: [N, T, D], relative: [H, R, C])",
            .group = "attention",
            .doc = "gradient of queries, keys and values, and of the bias of relative places",
            .rows = RowProperty::kReduces,
            .precision = PrecisionRule::kNarrow,
            .infer = infer_relative_grad,
            .cost = grad_cost,
            .shard = "n.,n.,.->n.,."},
    .cpu = make_attention_grad};

}  // namespace xrun::ops
