// Batch norm over a row block (ghost batch norm): y = weight · (x - mean) / sqrt(var + eps) + bias, per channel, with
// mean and (biased) variance over the samples and positions of one row block; relu(y) where it was absorbed. x [N, C,
// H, W] or [N, C]. Outside training the running statistics take the place of the block's. Source: Ioffe, Szegedy,
// "Batch Normalization", ICML 2015; running statistics: docs/determinism.md, "Batch norm".
#include <cmath>
#include <vector>

#include "graph/autodiff.h"
#include "ops/catalog.h"
#include "ops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_bn(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("bn", x));
  if (x.rank() != 2 && x.rank() != 4) {
    return rank_error("bn", "an image [N, C, H, W] or features [N, C]", x, "`layer_norm` takes sequences [N, T, D]");
  }
  const double eps = attrs.real("eps");
  const double momentum = attrs.real("momentum");
  if (!(eps > 0) || !(momentum > 0) || momentum > 1) {
    return argument_error("`bn` has momentum = " + to_text(momentum) + " and eps = " + to_text(eps),
                          "momentum lies in 0 .. 1 and eps is above 0");
  }
  const std::vector<int64_t> channel{x.dims[1]};
  const TensorType statistic = weight_type({kPerBlock, x.dims[1]});
  OpShape shape{{with_dims(x, x.dims), statistic, statistic},
                {param("weight", channel, kOnes), param("bias", channel), param("running_mean", channel),
                 param("running_var", channel, kOnes)}};
  shape.params[2].trained = shape.params[3].trained = false;
  return shape;
}

// inputs: x, dy, weight, bias, mean, var.
Result<OpShape> infer_grad(std::span<const TensorType> inputs, const Attrs&) {
  const TensorType weight = weight_type(inputs[2].dims);
  return OpShape{{with_dims(inputs[0], inputs[0].dims), weight, weight}};
}

OpCost bn_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return pointwise_cost(inputs, outputs, 7);
}

OpCost grad_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return pointwise_cost(inputs, outputs, 14);
}

Status grad_bn(GradBuilder& builder) {
  const Attrs& attrs = builder.node().attrs;
  const Attrs passed{{"eps", attrs.real("eps")}, {"relu", attrs.flag("relu", false)}};
  return builder.set_grads_by("bn.grad",
                              {builder.input(0), builder.output_grad(0), builder.input(1), builder.input(2),
                               builder.output(1), builder.output(2)},
                              passed);
}

// Mean and variance of some columns of x [rows, columns]. Sums are of x - x[0, c], so that a large mean costs no
// digits.
template <typename T>
struct StatisticsBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, int64_t rows, int64_t columns, Range some, float* mean, float* var) {
    reduce_columns<L, 2>(
        rows, some.begin, some.end,
        [&](int64_t r, int64_t c, int64_t n, L * acc) __attribute__((always_inline)) {
          const L d = load_upto<L>(x + r * columns + c, n) - load_upto<L>(x + c, n);
          acc[0] += d;
          acc[1] += d * d;
        },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            const double m = totals[0][i] / static_cast<double>(rows);
            const double v = totals[1][i] / static_cast<double>(rows) - m * m;
            mean[c + i] = static_cast<float>(static_cast<double>(to_float(x[c + i])) + m);
            var[c + i] = static_cast<float>(v > 0 ? v : 0);
          }
        });
  }
};

// Per channel: y = (x - mean) · scale + bias.
struct Columns {
  const float* mean = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const float* rstd = nullptr;
};

template <class L, typename T>
XRUN_INLINE L normalize(const Columns& p, const T* x, int64_t c, int64_t n) {
  return (load_upto<L>(x + c, n) - load_upto<L>(p.mean + c, n)) * load_upto<L>(p.scale + c, n) +
         load_upto<L>(p.bias + c, n);
}

template <typename T>
struct NormalizeBody {
  template <class L>
  XRUN_INLINE static void run(const Columns* p, bool relu, const T* x, int64_t rows, int64_t columns, T* y) {
    for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
      for (int64_t c = 0; c < columns; c += kLanes) {
        const int64_t n = columns - c;
        const L v = normalize<L>(*p, x, c, n);
        store_upto(y + c, relu ? rectify(v) : v, n);
      }
    }
  }
};

// The gradient before the absorbed relu: zero where the forward pass cut y. Computes y by the same operations in the
// same order as the forward pass, so that its sign is the same and y itself need not be kept.
template <class L, typename T>
XRUN_INLINE L masked(const Columns& p, bool relu, const T* x, const T* dy, int64_t c, int64_t n) {
  const L g = load_upto<L>(dy + c, n);
  return relu ? if_less(L{}, normalize<L>(p, x, c, n), g, L{}) : g;
}

template <typename T>
struct GradSumsBody {
  template <class L>
  XRUN_INLINE static void run(const Columns* p, bool relu, const T* x, const T* dy, int64_t rows, int64_t columns,
                              Range some, float* sum, float* dot) {
    reduce_columns<L, 2>(
        rows, some.begin, some.end,
        [&](int64_t r, int64_t c, int64_t n, L * acc) __attribute__((always_inline)) {
          const L g = masked<L>(*p, relu, x + r * columns, dy + r * columns, c, n);
          acc[0] += g;
          acc[1] += g * ((load_upto<L>(x + r * columns + c, n) - load_upto<L>(p->mean + c, n)) *
                         load_upto<L>(p->rstd + c, n));
        },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            sum[c + i] = static_cast<float>(totals[0][i]);
            dot[c + i] = static_cast<float>(totals[1][i]);
          }
        });
  }
};

// dx = scale · (dy - sum / m - x̂ · dot / m), m = rows.
template <typename T>
struct GradBody {
  template <class L>
  XRUN_INLINE static void run(const Columns* p, bool relu, const T* x, const T* dy, int64_t rows, int64_t columns,
                              const float* mean_sum, const float* mean_dot, T* dx) {
    for (int64_t r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
      for (int64_t c = 0; c < columns; c += kLanes) {
        const int64_t n = columns - c;
        const L g = masked<L>(*p, relu, x, dy, c, n);
        const L xhat = (load_upto<L>(x + c, n) - load_upto<L>(p->mean + c, n)) * load_upto<L>(p->rstd + c, n);
        store_upto(
            dx + c,
            (g - load_upto<L>(mean_sum + c, n) - xhat * load_upto<L>(mean_dot + c, n)) * load_upto<L>(p->scale + c, n),
            n);
      }
    }
  }
};

// Shapes, and the two per-channel factors in scratch that both directions need. A part computes sums for some of the
// channels, then results for some of the rows.
class BatchNormBase : public Kernel {
 public:
  int64_t parts() const override { return rows_; }
  int phases() const override { return 2; }

 protected:
  enum Phase { kColumns, kRows };

  explicit BatchNormBase(const KernelSpec& spec)
      : isa_(spec.isa),
        channels_(spec.inputs[0].dims[1]),
        rows_(block_elements(spec.inputs[0], spec.rows) / channels_),
        eps_(static_cast<float>(spec.attrs.real("eps"))),
        relu_(spec.attrs.flag("relu", false)) {}

  int64_t stride() const { return align_up(channels_, kLanes); }

  void fill_factors(const float* weight, const float* var, Range some, float* scale, float* rstd) const {
    for (int64_t c = some.begin; c < some.end; ++c) {
      rstd[c] = 1.0F / std::sqrt(var[c] + eps_);
      scale[c] = weight[c] * rstd[c];
    }
  }

  Isa isa_;
  int64_t channels_;
  int64_t rows_;
  float eps_;
  bool relu_;
};

template <typename T>
class BatchNorm final : public BatchNormBase {
 public:
  explicit BatchNorm(const KernelSpec& spec)
      : BatchNormBase(spec), training_(spec.training), momentum_(spec.attrs.real("momentum")) {}

  Bytes scratch_bytes() const override { return 2 * stride() * static_cast<Bytes>(sizeof(float)); }

  Status run(const KernelCall& call) const override {
    const T* const x = call.inputs[0].as<T>();
    const float* mean = call.inputs[3].as<float>();
    const float* var = call.inputs[4].as<float>();
    if (training_) {
      mean = call.outputs[1].as<float>();
      var = call.outputs[2].as<float>();
    }
    if (call.phase != kRows && training_) {
      run_for<StatisticsBody<T>>(isa_, x, rows_, channels_, part_of(call, channels_, kLanes),
                                 call.outputs[1].as<float>(), call.outputs[2].as<float>());
    }
    if (call.phase != kColumns) {
      auto* const scale = reinterpret_cast<float*>(call.scratch);
      float* const rstd = scale + stride();
      fill_factors(call.inputs[1].as<float>(), var, {0, channels_}, scale, rstd);
      const Columns columns{.mean = mean, .scale = scale, .bias = call.inputs[2].as<float>(), .rstd = rstd};
      const Range some = part_of(call, rows_);
      run_for<NormalizeBody<T>>(isa_, &columns, relu_, x + some.begin * channels_, some.size(), channels_,
                                call.outputs[0].as<T>() + some.begin * channels_);
    }
    return {};
  }

  Status fold_states(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                     int64_t blocks) const override {
    const float* const means = outputs[1].as<float>();
    const float* const vars = outputs[2].as<float>();
    auto* const running_mean = inputs[3].as<float>();
    auto* const running_var = inputs[4].as<float>();
    const auto n = static_cast<double>(blocks);
    for (int64_t c = 0; c < channels_; ++c) {
      double mean = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        mean += static_cast<double>(means[b * channels_ + c]);
      }
      mean /= n;
      double var = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        const double away = static_cast<double>(means[b * channels_ + c]) - mean;
        var += static_cast<double>(vars[b * channels_ + c]) + away * away;
      }
      var /= n;
      running_mean[c] = blend(running_mean[c], mean);
      running_var[c] = blend(running_var[c], var);
    }
    return {};
  }

 private:
  float blend(float old, double now) const {
    return static_cast<float>((1 - momentum_) * static_cast<double>(old) + momentum_ * now);
  }

  bool training_;
  double momentum_;
};

template <typename T>
class BatchNormGrad final : public BatchNormBase {
 public:
  explicit BatchNormGrad(const KernelSpec& spec) : BatchNormBase(spec) {}

  Bytes scratch_bytes() const override { return 4 * stride() * static_cast<Bytes>(sizeof(float)); }

  Status run(const KernelCall& call) const override {
    const T* const x = call.inputs[0].as<T>();
    const T* const dy = call.inputs[1].as<T>();
    auto* const scale = reinterpret_cast<float*>(call.scratch);
    float* const rstd = scale + stride();
    auto* const sum = reinterpret_cast<float*>(call.parts == 1 ? call.scratch : call.shared) + 2 * stride();
    float* const dot = sum + stride();
    const Columns columns{
        .mean = call.inputs[4].as<float>(), .scale = scale, .bias = call.inputs[3].as<float>(), .rstd = rstd};
    if (call.phase != kRows) {
      const Range some = part_of(call, channels_, kLanes);
      fill_factors(call.inputs[2].as<float>(), call.inputs[5].as<float>(), some, scale, rstd);
      run_for<GradSumsBody<T>>(isa_, &columns, relu_, x, dy, rows_, channels_, some, sum, dot);
      add_sums(some, sum, dot, call.outputs[1].as<float>(), call.outputs[2].as<float>());
    }
    if (call.phase == kRows) {
      fill_factors(call.inputs[2].as<float>(), call.inputs[5].as<float>(), {0, channels_}, scale, rstd);
    }
    if (call.phase != kColumns) {
      const Range some = part_of(call, rows_);
      const int64_t first = some.begin * channels_;
      run_for<GradBody<T>>(isa_, &columns, relu_, x + first, dy + first, some.size(), channels_,
                           static_cast<const float*>(sum), static_cast<const float*>(dot),
                           call.outputs[0].as<T>() + first);
    }
    return {};
  }

 private:
  // To the gradients of weight and bias; sums become means.
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

constinit const Op kBatchNorm{
    .def = {.name = "bn",
            .signature = "(x: [N, C, ...], momentum: float = 0.1, eps: float = 1e-5)",
            .group = "norm",
            .doc = "batch norm over groups of `train.norm_rows` samples; momentum is the weight of the new statistics",
            .example = "bn",
            .aliases = "batch_norm batch_norm1d batch_norm2d batch_normalization num_features= epsilon=eps",
            .visible_outputs = 1,
            .rows = RowProperty::kRowCoupled,
            .differs_in_eval = true,
            .folds_states = true,
            .absorbs = "relu",
            .infer = infer_bn,
            .cost = bn_cost,
            .begins_with_size =
                [](const TensorType& x, std::span<const int64_t> numbers) {
                  return !numbers.empty() && numbers[0] == x.dims[1] && numbers[0] > 1;
                },
            .grad = grad_bn,
            .shard = "_c.,c,c,c,c->_c.,_c,_c"},
    .cpu = make_by_dtype<BatchNorm>};

constinit const Op kBatchNormGrad{
    .def = {.name = "bn.grad",
            .signature = "(x: [N, C, ...], dy: [N, C, ...], weight: [C], bias: [C], mean: [G, C], var: [G, C])",
            .group = "norm",
            .doc = "gradients of batch norm: of its input, and of weight and bias summed over the samples",
            .rows = RowProperty::kReduces,
            .infer = infer_grad,
            .cost = grad_cost,
            .shard = "_c.,_c.,c,c,_c,_c->_c.,c,c"},
    .cpu = make_by_dtype<BatchNormGrad>};

}  // namespace xrun::ops
