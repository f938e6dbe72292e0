// Gradients of batch norm: dx = scale · (g - mean(g) - x̂ · mean(g · x̂)), where g is the gradient of the norm, before
// the absorbed function, and x̂ = (x - mean) / sqrt(var + eps). The gradients of weight and bias are the sums of g · x̂
// and of g.
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include <algorithm>
#include <cmath>

#include "ops/catalog.h"
#include "ops/loops/columns.h"
#include "ops/norm/batch_norm.h"

namespace xrun::ops {
namespace {

// Inputs: x, dy, weight, bias, mean, var.
Result<OpShape> infer_grad(std::span<const TensorType> inputs, const Attrs&) {
  const TensorType weight = weight_type(inputs[2].dims);
  return OpShape{{with_dims(inputs[0], inputs[0].dims), weight, weight}};
}

// Inputs: x, dy, weight, bias, mean, var, slope.
Result<OpShape> infer_prelu_grad(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_ASSIGN(OpShape shape, infer_grad(inputs, attrs));
  shape.outputs.push_back(weight_type(inputs[6].dims));
  return shape;
}

OpCost grad_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) {
  return pointwise_cost(inputs, outputs, 14 + 2 * function_operations(attrs));  // a function and its derivative
}

// Computes the gradient of the norm `v` from the gradient `g` of the absorbed function's result. For a relu it is 0
// where the forward pass clipped.
template <Behind kBehind, class L>
XRUN_INLINE L before(const NormColumns& p, L v, L g, int64_t c, int64_t n) {
  if constexpr (kBehind == Behind::kNothing) {
    return g;
  } else {
    return choose<_CMP_GT_OQ>(v, L{}, g, kBehind == Behind::kRelu ? L{} : g * load_upto<L>(p.slope + c, n));
  }
}

// Computes the norm again instead of keeping it, with exactly the operations of the forward pass, so that its sign is
// the same. Returns 0 if no function needs the norm.
template <Behind kBehind, class L, typename T>
XRUN_INLINE L norm_of(const NormColumns& p, const T* x, int64_t c, int64_t n) {
  if constexpr (kBehind == Behind::kNothing) {
    return L{};
  } else {
    return normalize<L>(p, x, c, n);
  }
}

template <class L, typename T>
XRUN_INLINE L standardize(const NormColumns& p, const T* x, int64_t c, int64_t n) {
  return standardized(load_upto<L>(x + c, n), load_upto<L>(p.mean + c, n), load_upto<L>(p.rstd + c, n));
}

// Sums g and g · x̂ over rows. For a prelu it also sums the gradient of the slopes and adds this sum to the gradient of
// the preceding row blocks.
template <typename T, Behind kBehind>
struct GradSumsBody {
  static constexpr bool kSlopes = kBehind == Behind::kSlopes;
  template <class L>
  XRUN_INLINE static void run(const NormColumns* p, const T* x, const T* dy, int64_t rows, int64_t columns, Range some,
                              float* sum, float* dot, float* dslope) {
    reduce_columns<L, kSlopes ? 3 : 2>(
        rows, some.begin, some.end,
        [&](int64_t r, int64_t c, int64_t n, L * acc) __attribute__((always_inline)) {
          const T* const at = x + r * columns;
          const L behind = load_upto<L>(dy + r * columns + c, n);
          const L v = norm_of<kBehind, L>(*p, at, c, n);
          const L g = before<kBehind>(*p, v, behind, c, n);
          acc[0] += g;
          acc[1] += g * standardize<L>(*p, at, c, n);
          if constexpr (kSlopes) {
            acc[2] += choose<_CMP_GT_OQ>(v, L{}, L{}, behind * v);
          }
        },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            sum[c + i] = static_cast<float>(totals[0][i]);
            dot[c + i] = static_cast<float>(totals[1][i]);
            if constexpr (kSlopes) {
              dslope[c + i] += static_cast<float>(totals[2][i]);
            }
          }
        });
  }
};

// Computes the sums of GradSumsBody for a g that NormFunction has stored, and adds them to `sum` and `dot` in f64. The
// rows are one block of `reduce_columns`, so terms are added in the order of GradSumsBody.
template <typename T>
struct FunctionSumsBody {
  template <class L>
  XRUN_INLINE static void run(const NormColumns* p, const T* x, const T* g, int64_t rows, int64_t columns, Range some,
                              double* sum, double* dot) {
    reduce_columns<L, 2>(
        rows, some.begin, some.end,
        [&](int64_t r, int64_t c, int64_t n, L * acc) __attribute__((always_inline)) {
          const L here = load_upto<L>(g + r * columns + c, n);
          acc[0] += here;
          acc[1] += here * standardize<L>(*p, x + r * columns, c, n);
        },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            sum[c + i] += totals[0][i];
            dot[c + i] += totals[1][i];
          }
        });
  }
};

// Computes dx = scale · (g - sum / m - x̂ · dot / m), where m is the number of rows.
template <typename T, Behind kBehind>
struct GradBody {
  template <class L>
  XRUN_INLINE static void run(const NormColumns* p, const T* x, const T* dy, int64_t rows, int64_t columns,
                              const float* mean_sum, const float* mean_dot, T* dx) {
    for (int64_t r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
      for (int64_t c = 0; c < columns; c += kLanes) {
        const int64_t n = columns - c;
        const L g = before<kBehind>(*p, norm_of<kBehind, L>(*p, x, c, n), load_upto<L>(dy + c, n), c, n);
        const L xhat = standardize<L>(*p, x, c, n);
        store_upto(dx + c,
                   column_norm_dx(g, load_upto<L>(mean_sum + c, n), xhat, load_upto<L>(mean_dot + c, n),
                                  load_upto<L>(p->scale + c, n)),
                   n);
      }
    }
  }
};

template <typename T>
class BatchNormGrad final : public BatchNormBase {
 public:
  explicit BatchNormGrad(const KernelSpec& spec) : BatchNormBase(spec) {}

  // The scratch has factors and sums of the channels; with a function of `then` it also has sums in f64.
  Bytes scratch_bytes() const override {
    const int64_t floats = function_ ? 8 * stride() : 4 * stride();
    return floats * static_cast<Bytes>(sizeof(float)) + function_bytes();
  }

  Status run(const KernelCall& call) const override {
    const T* const x = call.inputs[0].as<T>();
    const T* const dy = call.inputs[1].as<T>();
    auto* const scale = reinterpret_cast<float*>(call.scratch);
    float* const rstd = scale + stride();
    auto* const sum = reinterpret_cast<float*>(call.parts == 1 ? call.scratch : call.shared) + 2 * stride();
    float* const dot = sum + stride();
    const bool prelu = behind_ == Behind::kSlopes;
    const NormColumns columns{.mean = call.inputs[4].as<float>(),
                              .scale = scale,
                              .bias = call.inputs[3].as<float>(),
                              .rstd = rstd,
                              .slope = prelu ? call.inputs[6].as<float>() : nullptr};
    if (call.phase != kRows) {
      const Range some = part_of(call, channels_, kLanes);
      fill_factors(call.inputs[2].as<float>(), call.inputs[5].as<float>(), some, scale, rstd);
      if (function_) {
        sum_function(call, columns, some, sum, dot);
      } else {
        with_behind([&](auto behind) {
          run_for<GradSumsBody<T, behind()>>(isa_, &columns, x, dy, rows_, channels_, some, sum, dot,
                                             prelu ? call.outputs[3].as<float>() : nullptr);
        });
      }
      add_sums(some, sum, dot, call.outputs[1].as<float>(), call.outputs[2].as<float>());
    }
    if (call.phase == kRows) {
      fill_factors(call.inputs[2].as<float>(), call.inputs[5].as<float>(), {0, channels_}, scale, rstd);
    }
    if (call.phase != kColumns) {
      const Range some = part_of(call, rows_);
      const int64_t first = some.begin * channels_;
      if (function_) {
        run_for<GradBody<T, Behind::kNothing>>(
            isa_, &columns, x + first, static_cast<const T*>(call.outputs[0].as<T>()) + first, some.size(), channels_,
            static_cast<const float*>(sum), static_cast<const float*>(dot), call.outputs[0].as<T>() + first);
        return {};
      }
      with_behind([&](auto behind) {
        run_for<GradBody<T, behind()>>(isa_, &columns, x + first, dy + first, some.size(), channels_,
                                       static_cast<const float*>(sum), static_cast<const float*>(dot),
                                       call.outputs[0].as<T>() + first);
      });
    }
    return {};
  }

 private:
  const std::byte* row(const TensorView& view, int64_t r) const {
    return view.data + r * channels_ * static_cast<int64_t>(sizeof(T));
  }

  // For a function of `then`, computes g and its sums. g is kept in dx until the second phase; it is rounded as if the
  // function were a node of its own.
  void sum_function(const KernelCall& call, const NormColumns& columns, Range some, float* sum, float* dot) const {
    auto* const sums = reinterpret_cast<double*>(call.scratch + 4 * stride() * static_cast<Bytes>(sizeof(float)));
    double* const dots = sums + stride();
    auto* const own = reinterpret_cast<std::byte*>(dots + stride());
    std::fill(sums + some.begin, sums + some.end, 0.0);
    std::fill(dots + some.begin, dots + some.end, 0.0);
    for (int64_t r = 0; r < rows_; r += kSumBlock) {
      const int64_t n = std::min(kSumBlock, rows_ - r);
      T* const g = call.outputs[0].as<T>() + r * channels_;
      function_->run_gradient(columns, row(call.inputs[0], r), row(call.inputs[1], r), n, some,
                              reinterpret_cast<std::byte*>(g + some.begin), own);
      run_for<FunctionSumsBody<T>>(isa_, &columns, call.inputs[0].as<T>() + r * channels_, static_cast<const T*>(g), n,
                                   channels_, some, sums, dots);
    }
    for (int64_t c = some.begin; c < some.end; ++c) {
      sum[c] = static_cast<float>(sums[c]);
      dot[c] = static_cast<float>(dots[c]);
    }
  }

  // Adds the sums to the gradients of weight and bias, then divides them by the number of rows.
  void add_sums(Range some, float* sum, float* dot, float* dweight, float* dbias) const {
    const float inverse = 1.0F / static_cast<float>(rows_);
    for (int64_t c = some.begin; c < some.end; ++c) {
      dweight[c] += dot[c];
      dbias[c] += sum[c];
      sum[c] *= inverse;
      dot[c] *= inverse;
    }
  }
};

}  // namespace

constinit const Op kBatchNormGrad{
    .def = {.name = "bn.grad",
            .signature = "(x: [N, C, ...], dy: [N, C, ...], weight: [C], bias: [C], mean: [G, C], var: [G, C])",
            .group = "norm",
            .doc = "gradients of batch norm: of its input, and of weight and bias summed over the samples",
            .rows = RowProperty::kReduces,
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_grad,
            .cost = grad_cost,
            .shard = "_c.,_c.,c,c,_c,_c->_c.,c,c"},
    .cpu = make_norm<BatchNormGrad, NormFunction::Way::kGradient>};

constinit const Op kBatchNormPreluGrad{
    .def = {.name = "bn.prelu.grad",
            .signature = "(x: [N, C, ...], dy: [N, C, ...], weight: [C], bias: [C], mean: [G, C], var: [G, C], "
                         "slope: [C])",
            .group = "norm",
            .doc = "gradients of batch norm and the prelu after it: also of the slopes, summed over the samples",
            .rows = RowProperty::kReduces,
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_prelu_grad,
            .cost = grad_cost,
            .shard = "_c.,_c.,c,c,_c,_c,c->_c.,c,c,c"},
    .cpu = make_norm<BatchNormGrad, NormFunction::Way::kGradient, true>};

}  // namespace xrun::ops
