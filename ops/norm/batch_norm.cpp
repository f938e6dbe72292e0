// Batch norm over a row block (ghost batch norm): y = weight · (x - mean) / sqrt(var + eps) + bias for each channel,
// with mean and (biased) variance over the samples and positions of one row block. The operator may absorb the function
// after it: relu, prelu with its own slopes, another scalar function, or the sum with another tensor. x is [N, C, H, W]
// or [N, C]. Outside training, running statistics replace those of the block. Source: Ioffe, Szegedy, "Batch
// Normalization", ICML 2015; running statistics: docs/internals/determinism.md, "Batch norm".
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include "ops/norm/batch_norm.h"

#include <cmath>
#include <vector>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/columns.h"

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
                          "write a momentum in 0 .. 1 and an eps above 0");
  }
  const std::vector<int64_t> channel{x.dims[1]};
  const TensorType statistic = weight_type({kPerBlock, x.dims[1]});
  OpShape shape{{with_dims(x, x.dims), statistic, statistic},
                {param("weight", channel, kOnes), param("bias", channel), param("running_mean", channel),
                 param("running_var", channel, kOnes)}};
  shape.params[2].trained = shape.params[3].trained = false;
  return shape;
}

OpCost bn_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) {
  return pointwise_cost(inputs, outputs, 7 + function_operations(attrs));
}

Status grad_bn(GradBuilder& builder) {
  const Attrs& attrs = builder.node().attrs;
  Attrs passed{{"eps", attrs.real("eps")}, {"relu", attrs.flag("relu", false)}};
  if (attrs.find("then") != nullptr) {
    passed.set("then", attrs.text("then"));
  }
  return builder.set_grads_by("bn.grad",
                              {builder.input(0), builder.output_grad(0), builder.input(1), builder.input(2),
                               builder.output(1), builder.output(2)},
                              passed);
}

// Sets the gradients of the listed inputs, in the order of `grads`; gradients that are not wanted are skipped.
void set_wanted(GradBuilder& builder, std::initializer_list<int> inputs, const std::vector<ValueId>& grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (const int input = inputs.begin()[i]; builder.wanted(input)) {
      builder.set_grad(input, grads[i]);
    }
  }
}

// A batch norm that absorbed the prelu after it. The slopes of the prelu are the last input.
Result<OpShape> infer_bn_prelu(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_ASSIGN(OpShape shape, infer_bn(inputs, attrs));
  shape.params.push_back(param("slope", {inputs[0].dims[1]}, {.value = 0.25}));
  return shape;
}

Status grad_bn_prelu(GradBuilder& builder) {
  const Attrs attrs{{"eps", builder.node().attrs.real("eps")}};
  XRUN_ASSIGN(const std::vector<ValueId> grads,
              builder.emit("bn.prelu.grad",
                           {builder.input(0), builder.output_grad(0), builder.input(1), builder.input(2),
                            builder.output(1), builder.output(2), builder.input(5)},
                           attrs));
  set_wanted(builder, {0, 1, 2, 5}, grads);
  return {};
}

// A batch norm that absorbed a sum. The tensor that is added is its second operand. With the attribute `relu` the
// result is relu(bn(x) + residual).
Result<OpShape> infer_bn_add(std::span<const TensorType> inputs, const Attrs& attrs) {
  if (inputs[1] != inputs[0]) {
    return shape_error("`bn.add` adds a tensor of another type: " + to_text(inputs[0]) + " and " + to_text(inputs[1]),
                       "make the file again: xrun writes this operator");
  }
  return infer_bn(inputs.first(1), attrs);
}

Status grad_bn_add(GradBuilder& builder) {
  ValueId dy = builder.output_grad(0);
  if (builder.node().attrs.flag("relu", false)) {
    XRUN_ASSIGN(const std::vector<ValueId> cut, builder.emit("relu.grad", {builder.output(0), dy}));
    dy = cut[0];
  }
  XRUN_ASSIGN(const std::vector<ValueId> grads, builder.emit("bn.grad",
                                                             {builder.input(0), dy, builder.input(2), builder.input(3),
                                                              builder.output(1), builder.output(2)},
                                                             Attrs{{"eps", builder.node().attrs.real("eps")}}));
  set_wanted(builder, {0, 2, 3}, grads);
  if (builder.wanted(1)) {
    builder.set_grad(1, dy);
  }
  return {};
}

// Computes mean and variance of some columns of x [rows, columns]. It sums x - x[0, c], so that a large mean loses no
// precision.
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

template <typename T, Behind kBehind>
struct NormalizeBody {
  template <class L>
  XRUN_INLINE static void run(const NormColumns* p, const T* x, int64_t rows, int64_t columns, T* y) {
    for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
      for (int64_t c = 0; c < columns; c += kLanes) {
        const int64_t n = columns - c;
        store_upto(y + c, follow<kBehind, T>(*p, normalize<L>(*p, x, c, n), c, n), n);
      }
    }
  }
};

// Computes the norm and adds the other tensor. The norm is first rounded to the element type, as if it had been stored.
template <typename T, bool kRelu>
struct NormalizeAddBody {
  template <class L>
  XRUN_INLINE static void run(const NormColumns* p, const T* x, const T* residual, int64_t rows, int64_t columns,
                              T* y) {
    for (int64_t r = 0; r < rows; ++r, x += columns, residual += columns, y += columns) {
      for (int64_t c = 0; c < columns; c += kLanes) {
        const int64_t n = columns - c;
        const L sum = rounded_to<T>(normalize<L>(*p, x, c, n)) + load_upto<L>(residual + c, n);
        store_upto(y + c, kRelu ? rectify(sum) : sum, n);
      }
    }
  }
};

template <typename T>
class BatchNorm final : public BatchNormBase {
 public:
  explicit BatchNorm(const KernelSpec& spec)
      : BatchNormBase(spec),
        training_(spec.training),
        first_weight_(spec.inputs.size() > 5 && spec.inputs[1].has_batch() ? 2 : 1),
        momentum_(spec.attrs.real("momentum")) {}

  Bytes scratch_bytes() const override { return 2 * stride() * static_cast<Bytes>(sizeof(float)) + function_bytes(); }

  Status run(const KernelCall& call) const override {
    const T* const x = call.inputs[0].as<T>();
    const std::span<const TensorView> weights = call.inputs.subspan(first_weight_);
    const float* mean = weights[2].as<float>();
    const float* var = weights[3].as<float>();
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
      fill_factors(weights[0].as<float>(), var, {0, channels_}, scale, rstd);
      const NormColumns columns{.mean = mean,
                                .scale = scale,
                                .bias = weights[1].as<float>(),
                                .rstd = rstd,
                                .slope = behind_ == Behind::kSlopes ? weights[4].as<float>() : nullptr};
      const Range some = part_of(call, rows_);
      if (function_) {
        const int64_t first = some.begin * channels_ * static_cast<int64_t>(sizeof(T));
        function_->run(columns, call.inputs[0].data + first, some.size(), call.outputs[0].data + first,
                       reinterpret_cast<std::byte*>(rstd + stride()));
        return {};
      }
      const int64_t first = some.begin * channels_;
      T* const y = call.outputs[0].as<T>() + first;
      if (first_weight_ > 1) {
        const auto run =
            behind_ == Behind::kRelu
                ? run_for<NormalizeAddBody<T, true>, const NormColumns*, const T*, const T*, int64_t, int64_t, T*>
                : run_for<NormalizeAddBody<T, false>, const NormColumns*, const T*, const T*, int64_t, int64_t, T*>;
        run(isa_, &columns, x + first, call.inputs[1].as<T>() + first, some.size(), channels_, y);
        return {};
      }
      with_behind([&](auto behind) {
        run_for<NormalizeBody<T, behind()>>(isa_, &columns, x + first, some.size(), channels_, y);
      });
    }
    return {};
  }

  Status fold_states(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                     int64_t blocks) const override {
    const float* const means = outputs[1].as<float>();
    const float* const vars = outputs[2].as<float>();
    auto* const running_mean = inputs[first_weight_ + 2].as<float>();
    auto* const running_var = inputs[first_weight_ + 3].as<float>();
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
  size_t first_weight_;  // index of the input with the weight, which follows the tensor that is added
  double momentum_;
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
            .layout = LayoutRule::kChannelsLast,
            .absorbs = "*",
            .infer = infer_bn,
            .cost = bn_cost,
            .begins_with_size =
                [](const TensorType& x, std::span<const int64_t> numbers) {
                  return !numbers.empty() && numbers[0] == x.dims[1] && numbers[0] > 1;
                },
            .grad = grad_bn,
            .shard = "_c.,c,c,c,c->_c.,_c,_c"},
    .cpu = make_norm<BatchNorm, NormFunction::Way::kForward>};

constinit const Op kBatchNormPrelu{.def = {.name = "bn.prelu",
                                           .signature = "(x: [N, C, ...], momentum: float = 0.1, eps: float = 1e-5)",
                                           .group = "norm",
                                           .doc = "batch norm and the prelu that reads it",
                                           .visible_outputs = 1,
                                           .rows = RowProperty::kRowCoupled,
                                           .differs_in_eval = true,
                                           .folds_states = true,
                                           .layout = LayoutRule::kChannelsLast,
                                           .infer = infer_bn_prelu,
                                           .cost = bn_cost,
                                           .grad = grad_bn_prelu,
                                           .shard = "_c.,c,c,c,c,c->_c.,_c,_c"},
                                   .cpu = make_norm<BatchNorm, NormFunction::Way::kForward, true>};

constinit const Op kBatchNormAdd{
    .def = {.name = "bn.add",
            .signature = "(x: [N, C, ...], residual: [N, C, ...], momentum: float = 0.1, eps: float = 1e-5)",
            .group = "norm",
            .doc = "batch norm and a tensor that is added to it",
            .visible_outputs = 1,
            .rows = RowProperty::kRowCoupled,
            .differs_in_eval = true,
            .folds_states = true,
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_bn_add,
            .cost = bn_cost,
            .grad = grad_bn_add,
            .shard = "_c.,_c.,c,c,c,c->_c.,_c,_c"},
    .cpu = make_norm<BatchNorm, NormFunction::Way::kForward>};

}  // namespace xrun::ops
