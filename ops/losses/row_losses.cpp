// Losses that compare two tensors of one shape, with one value per sample, f32[N]:
//   mse  mean of (x - target)²
//   bce  mean of max(z, 0) - z·target + log(1 + exp(-|z|)), z = logits; no gradient for the target
// Tests: tests/ops/conformance_test.cpp, tests/gpu_loops/sums_test.cpp
#include "ops/losses/row_losses.h"

#include <array>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/simd/lane_math.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

constexpr int64_t kKernelRows = 1;  // the outermost dimension, whose size a kernel does not read

// A loss and its slope are written twice: on lanes, and as scalar expressions for kernels of GPUs.
// tests/gpu_loops/sums_test.cpp compares their bits.

struct Mse {
  static constexpr std::string_view kName = "mse", kGrad = "mse.grad", kSignature = "(x: [N, ...], target: [N, ...])",
                                    kDoc = "mean squared difference, one value a sample", kExample = "mse(y, target)",
                                    kAliases = "mean_squared_error squared_error l2", kContains = "";
  static constexpr bool kSymmetric = true;  // the gradient of the target is minus the gradient of x
  template <class L>
  XRUN_INLINE static L loss(L x, L t) {
    return (x - t) * (x - t);
  }
  template <class L>
  XRUN_INLINE static L slope(L x, L t) {
    return (x - t) * 2.0F;
  }
  static ScalarId loss(ScalarExpr& e, ScalarId x, ScalarId t) {
    const ScalarId difference = e.make(ScalarOp::kSub, x, t);
    return e.make(ScalarOp::kMul, difference, difference);
  }
  static ScalarId slope(ScalarExpr& e, ScalarId x, ScalarId t) {
    return e.make(ScalarOp::kMul, e.make(ScalarOp::kSub, x, t), e.constant(2));
  }
};

struct Bce {
  static constexpr std::string_view kName = "bce", kGrad = "bce.grad",
                                    kSignature = "(logits: [N, ...], target: [N, ...])",
                                    kDoc = "binary cross entropy of sigmoid(logits), one value a sample",
                                    kExample = "bce(y, target)",
                                    kAliases =
                                        "binary_cross_entropy binary_cross_entropy_with_logits bce_with_logits "
                                        "sigmoid_cross_entropy",
                                    kContains = "sigmoid";
  static constexpr bool kSymmetric = false;
  template <class L>
  XRUN_INLINE static L loss(L z, L t) {
    const L size = choose<_CMP_LT_OQ>(z, L{}, -z, z);
    return rectify(z) - z * t + log_lanes(exp_lanes(-size) + 1.0F);
  }
  template <class L>
  XRUN_INLINE static L slope(L z, L t) {
    return sigmoid_lanes(z) - t;
  }
  static ScalarId loss(ScalarExpr& e, ScalarId z, ScalarId t) {
    const ScalarId negative = e.make(ScalarOp::kLess, z, e.constant(0));
    const ScalarId size = e.make(ScalarOp::kSelect, negative, e.make(ScalarOp::kNeg, z), z);
    const ScalarId small = e.make(ScalarOp::kExp, e.make(ScalarOp::kNeg, size));
    const ScalarId rectified = e.make(ScalarOp::kSelect, negative, e.constant(0), z);
    return e.make(ScalarOp::kAdd, e.make(ScalarOp::kSub, rectified, e.make(ScalarOp::kMul, z, t)),
                  e.make(ScalarOp::kLog, e.make(ScalarOp::kAdd, small, e.constant(1))));
  }
  static ScalarId slope(ScalarExpr& e, ScalarId z, ScalarId t) {
    return e.make(ScalarOp::kSub, e.make(ScalarOp::kSigmoid, z), t);
  }
};

template <class F>
struct LossBody {
  template <class L>
  XRUN_INLINE static void run(const float* x, const float* t, float* loss, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r, x += n, t += n) {
      L sum{};
      int64_t i = 0;
      for (; i + kLanes <= n; i += kLanes) {
        sum += F::loss(load<L>(x + i), load<L>(t + i));
      }
      if (i < n) {
        float lanes[kLanes];
        store(lanes, F::loss(load_some<L>(x + i, n - i), load_some<L>(t + i, n - i)));
        sum += load_some<L>(lanes, n - i);
      }
      loss[r] = sum_lanes(sum) / static_cast<float>(n);
    }
  }
};

template <class F>
struct SlopeBody {
  template <class L>
  XRUN_INLINE static void run(const float* x, const float* t, const float* dloss, float* dx, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r, x += n, t += n, dx += n) {
      const float weight = dloss[r] / static_cast<float>(n);
      for (int64_t i = 0; i < n; i += kLanes) {
        store_upto(dx + i, F::slope(load_upto<L>(x + i, n - i), load_upto<L>(t + i, n - i)) * weight, n - i);
      }
    }
  }
};

template <class F>
struct RowLoss {
  static Result<OpShape> infer(Types in, const Attrs&) {
    XRUN_TRY(expect_activation(F::kName, in[0]));
    XRUN_TRY(expect_activation(F::kName, in[1]));
    if (in[0].dims != in[1].dims) {
      return shape_error("`" + std::string(F::kName) + "` cannot compare " + to_text(in[0]) + " and " + to_text(in[1]),
                         "give both the same shape");
    }
    return OpShape{{weight_type({kBatch})}};
  }

  static Status grad(GradBuilder& builder) {
    XRUN_ASSIGN(const std::vector<ValueId> dx,
                builder.emit(F::kGrad, {builder.input(0), builder.input(1), builder.output_grad(0)}));
    if (builder.wanted(0)) {
      builder.set_grad(0, dx[0]);
    }
    if (F::kSymmetric && builder.wanted(1)) {
      XRUN_ASSIGN(const std::vector<ValueId> minus, builder.emit("neg", dx));
      builder.set_grad(1, minus[0]);
    }
    return {};
  }

  static Result<std::unique_ptr<Kernel>> make_forward(const KernelSpec& spec) {
    XRUN_TRY(expect_f32(spec));
    return kernel_of([isa = spec.isa, rows = spec.rows, n = spec.inputs[0].row_elements()](const KernelCall& call) {
      run_for<LossBody<F>>(isa, call.inputs[0].as<float>(), call.inputs[1].as<float>(), call.outputs[0].as<float>(),
                           rows, n);
    });
  }

  // Inputs: x, target, dloss [N].
  static Result<std::unique_ptr<Kernel>> make_backward(const KernelSpec& spec) {
    XRUN_TRY(expect_f32(spec));
    return kernel_of([isa = spec.isa, rows = spec.rows, n = spec.inputs[0].row_elements()](const KernelCall& call) {
      run_for<SlopeBody<F>>(isa, call.inputs[0].as<float>(), call.inputs[1].as<float>(), call.inputs[2].as<float>(),
                            call.outputs[0].as<float>(), rows, n);
    });
  }

  // Returns an error unless the inputs are f32. Mixed precision computes losses in f32, so they always are.
  static Status expect_f32(const KernelSpec& spec) {
    if (spec.inputs[0].dtype != DType::kF32 || spec.inputs[1].dtype != DType::kF32) {
      return dtype_error(F::kName, spec.inputs[0], "losses are computed in f32");
    }
    return {};
  }

  static constexpr Op kForward{.def = {.name = F::kName,
                                       .signature = F::kSignature,
                                       .group = "losses",
                                       .doc = F::kDoc,
                                       .example = F::kExample,
                                       .aliases = F::kAliases,
                                       .precision = PrecisionRule::kWide,
                                       .contains = F::kContains,
                                       .infer = infer,
                                       .grad = grad,
                                       .shard = "n.,n.->n"},
                               .cpu = make_forward};
  static constexpr Op kBackward{.def = {.name = F::kGrad,
                                        .signature = "(x: [N, ...], target: [N, ...], dloss: [N])",
                                        .group = "losses",
                                        .doc = "gradient of a loss by its first operand",
                                        .precision = PrecisionRule::kWide,
                                        .infer = same_as_input,
                                        .shard = "n.,n.,n->n."},
                                .cpu = make_backward};
};

template <class F>
RowLossKernels kernels_of(int64_t n) {
  const GpuOperand each{.reach = GpuOperand::Reach::kEach, .dtype = DType::kF32, .steps = {}};
  GpuLoop loss{.expr = {}, .inputs = {each, each}, .outputs = {DType::kF32}, .dims = {}};
  loss.expr.set_results({F::loss(loss.expr, loss.expr.input(0), loss.expr.input(1))});
  loss.sums = GpuLoop::Sums::kMeans;
  loss.row = n;
  GpuLoop slope{.expr = {}, .inputs = {each, each}, .outputs = {DType::kF32}, .dims = {kKernelRows, n}};
  slope.inputs.push_back({.reach = GpuOperand::Reach::kSteps, .dtype = DType::kF32, .steps = {1, 0}});
  ScalarExpr& e = slope.expr;
  const ScalarId weight = e.make(ScalarOp::kDiv, e.input(2), e.constant(static_cast<double>(n)));
  e.set_results({e.make(ScalarOp::kMul, F::slope(e, e.input(0), e.input(1)), weight)});
  return {.loss = std::move(loss), .gradient = std::move(slope)};
}

constexpr std::array<const Op*, 4> kOps{&RowLoss<Mse>::kForward, &RowLoss<Mse>::kBackward, &RowLoss<Bce>::kForward,
                                        &RowLoss<Bce>::kBackward};

}  // namespace

std::span<const Op* const> row_loss_ops() { return kOps; }

std::optional<RowLossKernels> row_loss_kernels(std::string_view name, int64_t n) {
  return name == Mse::kName   ? std::optional(kernels_of<Mse>(n))
         : name == Bce::kName ? std::optional(kernels_of<Bce>(n))
                              : std::nullopt;
}

}  // namespace xrun::ops
