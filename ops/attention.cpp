// Self-attention over T positions with h heads of d = D / h numbers: [q k v] = x Wqkvᵀ + bqkv, per head
// o = softmax(q kᵀ / sqrt(d)) v, y = o Wprojᵀ + bproj. x, y [N, T, D]; Wqkv [3D, D]; Wproj [D, D].
// Scores [h, T, T] exist for one sample at a time, in f32; the backward pass computes them again from q and k.
// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "graph/autodiff.h"
#include "ops/catalog.h"
#include "ops/convert.h"
#include "ops/dnn.h"
#include "ops/lane_math.h"
#include "ops/lane_sums.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

// outputs: y, and for the gradient [q k v] and o.
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
                       "`heads` divides the last dimension");
  }
  OpShape shape{{with_dims(in[0], in[0].dims), with_dims(in[0], {kBatch, t, 3 * d}), with_dims(in[0], in[0].dims)},
                {param("qkv.weight", {3 * d, d}, he_normal(d)), param("proj.weight", {d, d}, he_normal(d)),
                 param("proj.bias", {d})}};
  if (attrs.flag("qkv_bias")) {
    shape.params.insert(shape.params.begin() + 1, param("qkv.bias", {3 * d}));
  }
  return shape;
}

// inputs: [q k v], do.
Result<OpShape> infer_grad(Types in, const Attrs&) { return OpShape{{with_dims(in[0], in[0].dims)}}; }

OpCost attention_cost(Types in, Types out, const Attrs&) {
  const auto t = static_cast<double>(in[0].dims[1]);
  const auto d = static_cast<double>(in[0].dims[2]);
  return {.flops = 8 * t * d * d + 4 * t * t * d, .bytes = traffic(in, out)};
}

OpCost grad_cost(Types in, Types out, const Attrs&) {
  const auto t = static_cast<double>(in[1].dims[1]);
  const auto d = static_cast<double>(in[1].dims[2]);
  return {.flops = 10 * t * t * d, .bytes = traffic(in, out)};
}

Status grad_attention(GradBuilder& builder) {
  const Attrs attrs = builder.node().attrs;  // a copy: emit moves nodes
  const ValueId dy = builder.output_grad(0);
  const int proj = attrs.flag("qkv_bias") ? 3 : 2;
  XRUN_TRY(builder.set_grad_by(proj, "linear.dw", {builder.output(2), dy}));
  XRUN_TRY(builder.set_grad_by(proj + 1, "bias.grad", {dy}));
  XRUN_ASSIGN(const std::vector<ValueId> d_o, builder.emit("linear.dx", {dy, builder.input(proj)}));
  XRUN_ASSIGN(const std::vector<ValueId> dqkv,
              builder.emit("attention.grad", {builder.output(1), d_o[0]}, Attrs{{"heads", attrs.integer("heads")}}));
  XRUN_TRY(builder.set_grad_by(1, "linear.dw", {builder.input(0), dqkv[0]}));
  if (proj == 3) {
    XRUN_TRY(builder.set_grad_by(2, "bias.grad", {dqkv[0]}));
  }
  return builder.set_grad_by(0, "linear.dx", {dqkv[0], builder.input(1)});
}

// Only samples can be split: queries, keys and values lie one after the other, head by head, so a run of features is
// not a part of the operator.
std::string shard_attention(Types in, Types, const Attrs&) {
  std::string inputs = "n.";
  for (size_t i = 1; i < in.size(); ++i) {
    inputs += ",.";
  }
  return inputs + "->n.,n.,n.";
}

// Softmax of each row of scaled scores; rows are `stride` apart, and elements beyond n become 0.
struct SoftmaxBody {
  XRUN_INLINE static void run(float* scores, int64_t rows, int64_t n, int64_t stride, float scale) {
    for (int64_t r = 0; r < rows; ++r, scores += stride) {
      pad_run(scores, n, -INFINITY);
      F16 top = load(scores);
      for (int64_t i = kLanes; i < n; i += kLanes) {
        top = max(top, load(scores + i));
      }
      float most = top[0];
      for (int i = 1; i < kLanes; ++i) {
        most = top[i] > most ? top[i] : most;
      }
      for (int64_t i = 0; i < n; i += kLanes) {
        store(scores + i, exp_lanes((load(scores + i) - most) * scale));
      }
      const F16 inverse = 1.0F / broadcast(sum_of(scores, n));
      for (int64_t i = 0; i < n; i += kLanes) {
        store(scores + i, load(scores + i) * inverse);
      }
    }
  }
};

// dS = scale · P (dP - <P, dP>), row by row, over dP.
struct SoftmaxGradBody {
  XRUN_INLINE static void run(const float* p, float* dp, int64_t rows, int64_t n, int64_t stride, float scale) {
    for (int64_t r = 0; r < rows; ++r, p += stride, dp += stride) {
      pad_run(dp, n, 0);
      const float along = dot_of(p, dp, n);
      for (int64_t i = 0; i < n; i += kLanes) {
        store(dp + i, load(p + i) * (load(dp + i) - along) * scale);
      }
    }
  }
};

// Sizes of one sample, and the strides of its operands in memory; rows of scores are padded to whole lanes.
struct Sample {
  Sample(const TensorType& qkv, int64_t heads)
      : t(qkv.dims[1]), dim(qkv.dims[2] / 3), h(heads), d(dim / heads), padded(align_up(t, kLanes)) {}
  int64_t t, dim, h, d, padded;

  std::array<int64_t, 3> packed() const { return {d, 3 * dim, 1}; }  // q, k or v inside [q k v]
  std::array<int64_t, 3> packed_transposed() const { return {d, 1, 3 * dim}; }
  std::array<int64_t, 3> features() const { return {d, dim, 1}; }  // o
  std::array<int64_t, 3> scores() const { return {t * padded, padded, 1}; }
  std::array<int64_t, 3> scores_transposed() const { return {t * padded, 1, padded}; }
  int64_t score_elements() const { return h * t * padded; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(d)); }

  Result<dnn::Primitive> product_to_scores(bool from_features) const {
    return dnn::matmul({h, t, d, t, from_features ? features() : packed(), packed_transposed(), scores()});
  }
};

Status multiply(const dnn::Primitive& product, const float* a, const float* b, float* c, std::byte* scratch) {
  const std::array<void*, 3> arguments{const_cast<float*>(a), const_cast<float*>(b), c};
  return product.run(arguments, scratch);
}

class Attention final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    auto kernel = std::unique_ptr<Attention>(new Attention(spec));
    const Sample& s = kernel->sample_;
    KernelSpec part = spec;
    part.attrs = {};
    part.inputs.assign(spec.inputs.begin(), spec.inputs.begin() + kernel->proj_);
    part.outputs = {spec.outputs[1]};
    XRUN_ASSIGN(kernel->qkv_linear_, kLinear.cpu(part));
    part.inputs.assign(spec.inputs.begin() + kernel->proj_, spec.inputs.end());
    part.inputs.insert(part.inputs.begin(), spec.outputs[2]);
    part.outputs = {spec.outputs[0]};
    XRUN_ASSIGN(kernel->proj_linear_, kLinear.cpu(part));
    XRUN_ASSIGN(kernel->scores_, s.product_to_scores(false));
    XRUN_ASSIGN(kernel->mix_, dnn::matmul({s.h, s.t, s.t, s.d, s.scores(), s.packed(), s.features()}));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status run(const KernelCall& call) const override {
    XRUN_TRY(
        qkv_linear_->run(part_of(call, call.inputs.first(static_cast<size_t>(proj_)), call.outputs.subspan(1, 1))));
    const Bytes width = size_of(dtype_);
    for (int64_t r = 0; r < rows_; ++r) {
      XRUN_TRY(run_sample(call.outputs[1].data + r * 3 * sample_.t * sample_.dim * width,
                          call.outputs[2].data + r * sample_.t * sample_.dim * width, call.scratch));
    }
    std::array<TensorView, 3> proj{call.outputs[2], call.inputs[static_cast<size_t>(proj_)],
                                   call.inputs[static_cast<size_t>(proj_) + 1]};
    return proj_linear_->run(part_of(call, proj, call.outputs.first(1)));
  }

  Bytes scratch_bytes() const override {
    return std::max({qkv_linear_->scratch_bytes(), proj_linear_->scratch_bytes(), wide_offset() + wide_bytes()});
  }

  Bytes prepared_bytes(int input) const override {
    return input == 1 ? qkv_linear_->prepared_bytes(1) : input == proj_ ? proj_linear_->prepared_bytes(1) : 0;
  }

  Status prepare(int input, const TensorView& plain, std::byte* prepared, std::byte* scratch) const override {
    return (input == 1 ? qkv_linear_ : proj_linear_)->prepare(1, plain, prepared, scratch);
  }

 private:
  explicit Attention(const KernelSpec& spec)
      : isa_(spec.isa),
        dtype_(spec.inputs[0].dtype),
        rows_(spec.rows),
        proj_(static_cast<int>(spec.inputs.size()) - 2),
        sample_(spec.outputs[1], spec.attrs.integer("heads")) {}

  static KernelCall part_of(const KernelCall& call, std::span<const TensorView> inputs,
                            std::span<const TensorView> outputs) {
    KernelCall part = call;
    part.inputs = inputs;
    part.outputs = outputs;
    return part;
  }

  // scratch: scores | products' own | [q k v] and o widened
  Bytes own_offset() const { return align_up(sample_.score_elements() * static_cast<Bytes>(sizeof(float))); }
  Bytes wide_offset() const { return own_offset() + align_up(std::max(scores_.scratch_bytes(), mix_.scratch_bytes())); }
  Bytes wide_bytes() const {
    return dtype_ == DType::kF32 ? 0
                                 : 4 * align_up(sample_.t * sample_.dim, kLanes) * static_cast<Bytes>(sizeof(float));
  }

  Status run_sample(std::byte* qkv_data, std::byte* o_data, std::byte* scratch) const {
    auto* const scores = reinterpret_cast<float*>(scratch);
    std::byte* const own = scratch + own_offset();
    auto* qkv = reinterpret_cast<float*>(qkv_data);
    auto* o = reinterpret_cast<float*>(o_data);
    const int64_t n = sample_.t * sample_.dim;
    if (dtype_ != DType::kF32) {
      qkv = reinterpret_cast<float*>(scratch + wide_offset());
      o = qkv + 3 * align_up(n, kLanes);
      widen(isa_, reinterpret_cast<const Bf16*>(qkv_data), qkv, 3 * n);
    }
    XRUN_TRY(multiply(scores_, qkv, qkv + sample_.dim, scores, own));
    run_for<SoftmaxBody>(isa_, scores, sample_.h * sample_.t, sample_.t, sample_.padded, sample_.scale());
    XRUN_TRY(multiply(mix_, scores, qkv + 2 * sample_.dim, o, own));
    if (dtype_ != DType::kF32) {
      narrow(isa_, o, reinterpret_cast<Bf16*>(o_data), n);
    }
    return {};
  }

  Isa isa_;
  DType dtype_;
  int64_t rows_;
  int proj_;  // input of the projection's weight
  Sample sample_;
  std::unique_ptr<Kernel> qkv_linear_;
  std::unique_ptr<Kernel> proj_linear_;
  dnn::Primitive scores_;
  dnn::Primitive mix_;
};

class AttentionGrad final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    auto kernel = std::unique_ptr<AttentionGrad>(new AttentionGrad(spec));
    const Sample& s = kernel->sample_;
    XRUN_ASSIGN(kernel->scores_, s.product_to_scores(false));
    XRUN_ASSIGN(kernel->dp_, s.product_to_scores(true));
    XRUN_ASSIGN(kernel->dv_, dnn::matmul({s.h, s.t, s.t, s.d, s.scores_transposed(), s.features(), s.packed()}));
    XRUN_ASSIGN(kernel->dq_, dnn::matmul({s.h, s.t, s.t, s.d, s.scores(), s.packed(), s.packed()}));
    XRUN_ASSIGN(kernel->dk_, dnn::matmul({s.h, s.t, s.t, s.d, s.scores_transposed(), s.packed(), s.packed()}));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Bytes scratch_bytes() const override {
    const Bytes wide = dtype_ == DType::kF32 ? 0 : 7 * align_up(sample_.t * sample_.dim, kLanes);
    return wide_offset() + wide * static_cast<Bytes>(sizeof(float));
  }

  Status run(const KernelCall& call) const override {
    const Bytes one = sample_.t * sample_.dim * size_of(dtype_);
    for (int64_t r = 0; r < rows_; ++r) {
      XRUN_TRY(run_sample(call.inputs[0].data + 3 * r * one, call.inputs[1].data + r * one,
                          call.outputs[0].data + 3 * r * one, call.scratch));
    }
    return {};
  }

 private:
  explicit AttentionGrad(const KernelSpec& spec)
      : isa_(spec.isa),
        dtype_(spec.inputs[0].dtype),
        rows_(spec.rows),
        sample_(spec.inputs[0], spec.attrs.integer("heads")) {}

  // scratch: P | dP | products' own | [q k v], do and d[q k v] widened
  Bytes score_bytes() const { return align_up(sample_.score_elements() * static_cast<Bytes>(sizeof(float))); }
  Bytes wide_offset() const {
    return 2 * score_bytes() + align_up(std::max({scores_.scratch_bytes(), dp_.scratch_bytes(), dv_.scratch_bytes(),
                                                  dq_.scratch_bytes(), dk_.scratch_bytes()}));
  }

  Status run_sample(std::byte* qkv_data, std::byte* do_data, std::byte* dqkv_data, std::byte* scratch) const {
    auto* const p = reinterpret_cast<float*>(scratch);
    auto* const dp = reinterpret_cast<float*>(scratch + score_bytes());
    std::byte* const own = scratch + 2 * score_bytes();
    auto* qkv = reinterpret_cast<float*>(qkv_data);
    auto* d_o = reinterpret_cast<float*>(do_data);
    auto* dqkv = reinterpret_cast<float*>(dqkv_data);
    const int64_t dim = sample_.dim;
    const int64_t n = sample_.t * dim;
    if (dtype_ != DType::kF32) {
      qkv = reinterpret_cast<float*>(scratch + wide_offset());
      d_o = qkv + 3 * align_up(n, kLanes);
      dqkv = d_o + align_up(n, kLanes);
      widen(isa_, reinterpret_cast<const Bf16*>(qkv_data), qkv, 3 * n);
      widen(isa_, reinterpret_cast<const Bf16*>(do_data), d_o, n);
    }
    const int64_t rows = sample_.h * sample_.t;
    XRUN_TRY(multiply(scores_, qkv, qkv + dim, p, own));
    run_for<SoftmaxBody>(isa_, p, rows, sample_.t, sample_.padded, sample_.scale());
    XRUN_TRY(multiply(dv_, p, d_o, dqkv + 2 * dim, own));
    XRUN_TRY(multiply(dp_, d_o, qkv + 2 * dim, dp, own));
    run_for<SoftmaxGradBody>(isa_, static_cast<const float*>(p), dp, rows, sample_.t, sample_.padded, sample_.scale());
    XRUN_TRY(multiply(dq_, dp, qkv + dim, dqkv, own));
    XRUN_TRY(multiply(dk_, dp, qkv, dqkv + dim, own));
    if (dtype_ != DType::kF32) {
      narrow(isa_, dqkv, reinterpret_cast<Bf16*>(dqkv_data), 3 * n);
    }
    return {};
  }

  Isa isa_;
  DType dtype_;
  int64_t rows_;
  Sample sample_;
  dnn::Primitive scores_;
  dnn::Primitive dp_;
  dnn::Primitive dv_;
  dnn::Primitive dq_;
  dnn::Primitive dk_;
};

}  // namespace

constinit const Op kAttention{
    .def = {.name = "attention",
            .signature = "(x: [N, T, D], heads: int, qkv_bias: bool = true)",
            .group = "attention",
            .doc = "self-attention over T positions",
            .example = "attention(12)",
            .aliases = "multi_head_attention multihead_attention mha self_attention embed_dim= num_heads=heads",
            .precision = PrecisionRule::kNarrow,
            .infer = infer_attention,
            .cost = attention_cost,
            .grad = grad_attention,
            .shard_of = shard_attention},
    .cpu = Attention::make};

constinit const Op kAttentionGrad{.def = {.name = "attention.grad",
                                          .signature = "(qkv: [N, T, E], do: [N, T, D])",
                                          .group = "attention",
                                          .doc = "gradient of queries, keys and values",
                                          .precision = PrecisionRule::kNarrow,
                                          .infer = infer_grad,
                                          .cost = grad_cost,
                                          .shard = "n.,n.->n."},
                                  .cpu = AttentionGrad::make};

}  // namespace xrun::ops
