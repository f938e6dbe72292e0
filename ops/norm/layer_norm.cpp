// Norms over the last dimension of features or of a sequence, x [N, ..., D]:
//   layer_norm  y = weight · (x - mean) / sqrt(var + eps) + bias     Ba, Kiros, Hinton, "Layer Normalization", 2016
//   rms_norm    y = weight · x / sqrt(mean of squares + eps)         Zhang, Sennrich, "Root Mean Square Layer
//                                                                    Normalization", NeurIPS 2019
// Tests: tests/ops/conformance_test.cpp
#include <cmath>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/columns.h"
#include "ops/make_kernel.h"
#include "ops/norm/norm_formulas.h"
#include "ops/shape.h"
#include "ops/simd/lane_sums.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_norm(std::string_view op, const TensorType& x, const Attrs& attrs, bool bias) {
  XRUN_TRY(expect_activation(op, x));
  if (x.rank() < 2) {
    return rank_error(op, "features [N, D] or a sequence [N, T, D]", x, kOneNumber);
  }
  if (!(attrs.real("eps") > 0)) {
    return argument_error("`" + std::string(op) + "` has eps = " + to_text(attrs.real("eps")), "write an eps above 0");
  }
  OpShape shape{{with_dims(x, x.dims)}, {param("weight", {x.dims.back()}, kOnes)}};
  if (bias) {
    shape.params.push_back(param("bias", {x.dims.back()}));
  }
  return shape;
}

Result<OpShape> infer_layer_norm(std::span<const TensorType> inputs, const Attrs& attrs) {
  return infer_norm("layer_norm", inputs[0], attrs, true);
}

Result<OpShape> infer_rms_norm(std::span<const TensorType> inputs, const Attrs& attrs) {
  return infer_norm("rms_norm", inputs[0], attrs, false);
}

// Inputs: x, dy, weight. Outputs: dx, dweight, and for layer_norm dbias.
Result<OpShape> infer_layer_grad(std::span<const TensorType> inputs, const Attrs&) {
  const TensorType weight = weight_type(inputs[2].dims);
  return OpShape{{with_dims(inputs[0], inputs[0].dims), weight, weight}};
}

Result<OpShape> infer_rms_grad(std::span<const TensorType> inputs, const Attrs&) {
  return OpShape{{with_dims(inputs[0], inputs[0].dims), weight_type(inputs[2].dims)}};
}

// Whether the first number is the size of a row and not eps, which is far smaller.
bool begins_with_row(const TensorType& x, std::span<const int64_t> numbers) {
  return !numbers.empty() && numbers[0] == x.dims.back() && numbers[0] > 1;
}

OpCost norm_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return pointwise_cost(inputs, outputs, 8);
}

Status grad_with(GradBuilder& builder, std::string_view op) {
  return builder.set_grads_by(op, {builder.input(0), builder.output_grad(0), builder.input(1)}, builder.node().attrs);
}

Status grad_layer_norm(GradBuilder& builder) { return grad_with(builder, "layer_norm.grad"); }
Status grad_rms_norm(GradBuilder& builder) { return grad_with(builder, "rms_norm.grad"); }

// Sets v to x - mean (to x without kCentre), padded with zeros. Returns 1 / sqrt(mean of squares + eps).
template <class L, bool kCentre, typename T>
XRUN_INLINE float centre(const T* x, int64_t d, float eps, float* v, float* mean) {
  for (int64_t i = 0; i < d; i += kLanes) {
    store(v + i, load_upto<L>(x + i, d - i));
  }
  *mean = 0;
  if (kCentre) {
    *mean = sum_of<L>(v, d) / static_cast<float>(d);
    for (int64_t i = 0; i < d; i += kLanes) {
      store(v + i, load<L>(v + i) - *mean);
    }
    pad_run(v, d, 0);
  }
  return 1.0F / std::sqrt(dot_of<L>(v, v, d) / static_cast<float>(d) + eps);
}

template <typename T, bool kCentre>
struct ForwardBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const float* weight, const float* bias, float eps, T* y, int64_t rows,
                              int64_t d, float* v) {
    for (int64_t r = 0; r < rows; ++r, x += d, y += d) {
      float mean;
      const float rstd = centre<L, kCentre>(x, d, eps, v, &mean);
      for (int64_t i = 0; i < d; i += kLanes) {
        L out = load<L>(v + i) * rstd * load_upto<L>(weight + i, d - i);
        if (kCentre) {
          out += load_upto<L>(bias + i, d - i);
        }
        store_upto(y + i, out, d - i);
      }
    }
  }
};

// Computes dx = rstd · (g - mean(g) - x̂ · mean(g · x̂)), with g = weight · dy and x̂ = (x - mean) · rstd. For rms_norm
// the term mean(g) is missing.
template <typename T, bool kCentre>
struct GradBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const T* dy, const float* weight, float eps, T* dx, int64_t rows, int64_t d,
                              float* v, float* g, float* means, float* rstds) {
    for (int64_t r = 0; r < rows; ++r, x += d, dy += d, dx += d) {
      const float rstd = centre<L, kCentre>(x, d, eps, v, means + r);
      rstds[r] = rstd;
      for (int64_t i = 0; i < d; i += kLanes) {
        store(v + i, load<L>(v + i) * rstd);
        store(g + i, load_upto<L>(dy + i, d - i) * load_upto<L>(weight + i, d - i));
      }
      const float mean_g = kCentre ? sum_of<L>(g, d) / static_cast<float>(d) : 0.0F;
      const float mean_gx = dot_of<L>(g, v, d) / static_cast<float>(d);
      for (int64_t i = 0; i < d; i += kLanes) {
        store_upto(dx + i, row_norm_dx(load<L>(g + i), load<L>(v + i), mean_g, mean_gx, rstd), d - i);
      }
    }
  }
};

template <typename T>
struct WeightGradBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const T* dy, const float* means, const float* rstds, int64_t rows, int64_t d,
                              float* dweight, float* dbias) {
    reduce_columns<L, 2>(
        rows, 0, d,
        [&](int64_t r, int64_t c, int64_t n, L * acc) __attribute__((always_inline)) {
          const L g = load_upto<L>(dy + r * d + c, n);
          acc[0] += g * standardized(load_upto<L>(x + r * d + c, n), means[r], rstds[r]);
          acc[1] += g;
        },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            dweight[c + i] += static_cast<float>(totals[0][i]);
            if (dbias != nullptr) {
              dbias[c + i] += static_cast<float>(totals[1][i]);
            }
          }
        });
  }
};

class NormBase : public Kernel {
 public:
  explicit NormBase(const KernelSpec& spec)
      : isa_(spec.isa),
        d_(spec.inputs[0].dims.back()),
        rows_(block_elements(spec.inputs[0], spec.rows) / d_),
        eps_(static_cast<float>(spec.attrs.real("eps"))) {}

 protected:
  Isa isa_;
  int64_t d_;
  int64_t rows_;
  float eps_;
};

template <typename T, bool kCentre>
class Norm final : public NormBase {
 public:
  using NormBase::NormBase;
  Bytes scratch_bytes() const override { return align_up(d_, kLanes) * static_cast<Bytes>(sizeof(float)); }
  Status run(const KernelCall& call) const override {
    const float* const bias = kCentre ? call.inputs[2].as<float>() : nullptr;
    run_for<ForwardBody<T, kCentre>>(isa_, call.inputs[0].as<const T>(), call.inputs[1].as<const float>(), bias, eps_,
                                     call.outputs[0].as<T>(), rows_, d_, reinterpret_cast<float*>(call.scratch));
    return {};
  }
};

template <typename T, bool kCentre>
class NormGrad final : public NormBase {
 public:
  using NormBase::NormBase;
  Bytes scratch_bytes() const override {
    return 2 * (align_up(d_, kLanes) + align_up(rows_, kLanes)) * static_cast<Bytes>(sizeof(float));
  }
  Status run(const KernelCall& call) const override {
    const T* const x = call.inputs[0].as<T>();
    const T* const dy = call.inputs[1].as<T>();
    auto* const v = reinterpret_cast<float*>(call.scratch);
    float* const g = v + align_up(d_, kLanes);
    float* const means = g + align_up(d_, kLanes);
    float* const rstds = means + align_up(rows_, kLanes);
    run_for<GradBody<T, kCentre>>(isa_, x, dy, call.inputs[2].as<const float>(), eps_, call.outputs[0].as<T>(), rows_,
                                  d_, v, g, means, rstds);
    float* const dbias = kCentre ? call.outputs[2].as<float>() : nullptr;
    run_for<WeightGradBody<T>>(isa_, x, dy, static_cast<const float*>(means), static_cast<const float*>(rstds), rows_,
                               d_, call.outputs[1].as<float>(), dbias);
    return {};
  }
};

template <typename T>
using LayerNorm = Norm<T, true>;
template <typename T>
using LayerNormGrad = NormGrad<T, true>;
template <typename T>
using RmsNorm = Norm<T, false>;
template <typename T>
using RmsNormGrad = NormGrad<T, false>;

}  // namespace

constinit const Op kLayerNorm{.def = {.name = "layer_norm",
                                      .signature = "(x: [N, ..., D], eps: float = 1e-6)",
                                      .group = "norm",
                                      .doc = "zero mean and unit variance of each position",
                                      .example = "layer_norm",
                                      .aliases = "layer_normalization normalized_shape= epsilon=eps",
                                      .layout = LayoutRule::kRowMajor,
                                      .infer = infer_layer_norm,
                                      .cost = norm_cost,
                                      .begins_with_size = begins_with_row,
                                      .grad = grad_layer_norm,
                                      .shard = "n*_,_,_->n*_"},
                              .cpu = make_by_dtype<LayerNorm>};

constinit const Op kLayerNormGrad{.def = {.name = "layer_norm.grad",
                                          .signature = "(x: [N, ..., D], dy: [N, ..., D], weight: [D])",
                                          .group = "norm",
                                          .doc = "gradients of layer_norm: of its input, weight and bias",
                                          .rows = RowProperty::kReduces,
                                          .layout = LayoutRule::kRowMajor,
                                          .infer = infer_layer_grad,
                                          .cost = norm_cost,
                                          .shard = "n*_,n*_,_->n*_,_,_"},
                                  .cpu = make_by_dtype<LayerNormGrad>};

constinit const Op kRmsNorm{.def = {.name = "rms_norm",
                                    .signature = "(x: [N, ..., D], eps: float = 1e-6)",
                                    .group = "norm",
                                    .doc = "unit mean square of each position",
                                    .example = "rms_norm",
                                    .aliases = "rms_normalization normalized_shape= epsilon=eps",
                                    .layout = LayoutRule::kRowMajor,
                                    .infer = infer_rms_norm,
                                    .cost = norm_cost,
                                    .begins_with_size = begins_with_row,
                                    .grad = grad_rms_norm,
                                    .shard = "n*_,_->n*_"},
                            .cpu = make_by_dtype<RmsNorm>};

constinit const Op kRmsNormGrad{.def = {.name = "rms_norm.grad",
                                        .signature = "(x: [N, ..., D], dy: [N, ..., D], weight: [D])",
                                        .group = "norm",
                                        .doc = "gradients of rms_norm: of its input and weight",
                                        .rows = RowProperty::kReduces,
                                        .layout = LayoutRule::kRowMajor,
                                        .infer = infer_rms_grad,
                                        .cost = norm_cost,
                                        .shard = "n*_,n*_,_->n*_,_"},
                                .cpu = make_by_dtype<RmsNormGrad>};

}  // namespace xrun::ops
