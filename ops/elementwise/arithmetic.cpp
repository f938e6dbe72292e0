// add, sub, mul and div of two tensors, and where, which chooses between two tensors. The operands have the same number
// of dimensions, each of which is equal or 1.
// Tests: tests/ops/conformance_test.cpp
#include <array>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/broadcast.h"
#include "ops/loops/strides.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/shard.h"

namespace xrun::ops {
namespace {

struct Add {
  static constexpr std::string_view kName = "add", kDoc = "a + b", kExample = "x + y", kAbsorbs = "relu";
  static std::string expr(const Attrs&) { return "x0 + x1"; }
  XRUN_INLINE static auto f(auto a, auto b) { return a + b; }
};
struct Sub {
  static constexpr std::string_view kName = "sub", kDoc = "a - b", kExample = "x - y", kAbsorbs = "";
  static std::string expr(const Attrs&) { return "x0 - x1"; }
  XRUN_INLINE static auto f(auto a, auto b) { return a - b; }
};
struct Mul {
  static constexpr std::string_view kName = "mul", kDoc = "a · b", kExample = "x * y", kAbsorbs = "";
  static std::string expr(const Attrs&) { return "x0 * x1"; }
  XRUN_INLINE static auto f(auto a, auto b) { return a * b; }
};
struct Div {
  static constexpr std::string_view kName = "div", kDoc = "a / b", kExample = "x / y", kAbsorbs = "";
  static std::string expr(const Attrs&) { return "x0 / x1"; }
  XRUN_INLINE static auto f(auto a, auto b) { return a / b; }
};

// Loads the lanes of an operand that has step 1 (contiguous), step 0 (one element repeats) or a larger step.
template <class L, typename T>
XRUN_INLINE L load_step(const T* p, int64_t step, int64_t i, int64_t n) {
  if (step == 1) {
    return load_upto<L>(p + i, n);
  }
  if (step == 0) {
    return broadcast<L>(to_float(*p));
  }
  float lanes[kLanes] = {};
  for (int64_t j = 0; j < n && j < kLanes; ++j) {
    lanes[j] = to_float(p[(i + j) * step]);
  }
  return load<L>(lanes);
}

template <class F, typename T>
struct RunBody {
  template <class L>
  XRUN_INLINE static void run(bool relu, const T* a, int64_t step_a, const T* b, int64_t step_b, T* y, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const L v = F::f(load_step<L>(a, step_a, i, n - i), load_step<L>(b, step_b, i, n - i));
      store_upto(y + i, relu ? rectify(v) : v, n - i);
    }
  }
};

template <class F>
struct Binary {
  static Result<OpShape> infer(std::span<const TensorType> inputs, const Attrs&) {
    XRUN_ASSIGN(TensorType out, broadcast(F::kName, inputs));
    return OpShape{{std::move(out)}};
  }

  template <typename T>
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    const std::vector<int64_t> dims = block_dims(spec.outputs[0], spec.rows);
    const StridedLoop<3> loops(
        dims, {block_strides(spec.outputs[0], spec.rows), broadcast_strides(spec.inputs[0], dims, spec.rows),
               broadcast_strides(spec.inputs[1], dims, spec.rows)});
    const int64_t n = loops.inner_count();
    const int64_t each = loops.is_one_run() ? kElementRun : n;  // a call with several runs is not divided
    return kernel_over(
        n, each, [isa = spec.isa, relu = spec.attrs.flag("relu", false), loops](const KernelCall& call, Range some) {
          const T* const a = call.inputs[0].as<T>();
          const T* const b = call.inputs[1].as<T>();
          T* const y = call.outputs[0].as<T>();
          const auto& steps = loops.inner_steps();
          loops.for_each_run([&](const auto& at) {
            run_for<RunBody<F, T>>(isa, relu, a + at[1] + some.begin * steps[1], steps[1],
                                   b + at[2] + some.begin * steps[2], steps[2], y + at[0] + some.begin, some.size());
          });
        });
  }
};

Status grad_add(GradBuilder& builder) {
  ValueId dy = builder.output_grad(0);
  if (builder.node().attrs.flag("relu", false)) {
    XRUN_ASSIGN(const std::vector<ValueId> cut, builder.emit("relu.grad", {builder.output(0), dy}));
    dy = cut[0];
  }
  for (int i = 0; i < 2; ++i) {
    if (builder.wanted(i)) {
      XRUN_TRY(set_broadcast_grad(builder, i, dy));
    }
  }
  return {};
}

Status grad_sub(GradBuilder& builder) {
  const ValueId dy = builder.output_grad(0);
  if (builder.wanted(0)) {
    XRUN_TRY(set_broadcast_grad(builder, 0, dy));
  }
  if (builder.wanted(1)) {
    XRUN_ASSIGN(const std::vector<ValueId> minus, builder.emit("neg", {dy}));
    XRUN_TRY(set_broadcast_grad(builder, 1, minus[0]));
  }
  return {};
}

Status grad_mul(GradBuilder& builder) {
  const ValueId dy = builder.output_grad(0);
  for (int i = 0; i < 2; ++i) {
    if (builder.wanted(i)) {
      XRUN_ASSIGN(const std::vector<ValueId> part, builder.emit("mul", {dy, builder.input(1 - i)}));
      XRUN_TRY(set_broadcast_grad(builder, i, part[0]));
    }
  }
  return {};
}

// Gradient of y = a / b: da = dy / b and db = -y · dy / b.
Status grad_div(GradBuilder& builder) {
  XRUN_ASSIGN(const std::vector<ValueId> da, builder.emit("div", {builder.output_grad(0), builder.input(1)}));
  if (builder.wanted(0)) {
    XRUN_TRY(set_broadcast_grad(builder, 0, da[0]));
  }
  if (builder.wanted(1)) {
    XRUN_ASSIGN(const std::vector<ValueId> product, builder.emit("mul", {da[0], builder.output(0)}));
    XRUN_ASSIGN(const std::vector<ValueId> minus, builder.emit("neg", product));
    XRUN_TRY(set_broadcast_grad(builder, 1, minus[0]));
  }
  return {};
}

// Returns the scalar expression of the operator, including a relu that was absorbed.
template <class F>
std::string expr_of(const Attrs& attrs) {
  return attrs.flag("relu", false) ? "max(" + F::expr(attrs) + ", 0)" : F::expr(attrs);
}

template <class F, Status (*kGrad)(GradBuilder&)>
constexpr Op binary_op() {
  return {
      .def = {.name = F::kName,
              .signature = "(a: [N, ...], b: [N, ...])",
              .group = "pointwise",
              .doc = F::kDoc,
              .example = F::kExample,
              .absorbs = F::kAbsorbs,
              .infer = Binary<F>::infer,
              .expr = expr_of<F>,
              .fuses = true,
              .grad = kGrad,
              .shard_of = shard_broadcast},
      .cpu = by_dtype<Binary<F>::template make<float>, Binary<F>::template make<Bf16>, Binary<F>::template make<Half>>};
}

constexpr Op kAdd = binary_op<Add, grad_add>();
constexpr Op kSub = binary_op<Sub, grad_sub>();
constexpr Op kMul = binary_op<Mul, grad_mul>();
constexpr Op kDiv = binary_op<Div, grad_div>();

// where(c, a, b) is a if c is not 0, else b. All three operands have the same shape. c has no gradient.
Result<OpShape> infer_where(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_activation("where", inputs[0]));
  for (size_t i = 1; i < 3; ++i) {
    XRUN_TRY(expect_activation("where", inputs[i]));
    if (inputs[i].dims != inputs[0].dims) {
      return shape_error(
          "`where` chooses between tensors of different shapes: " + to_text(inputs[0]) + " and " + to_text(inputs[i]),
          "bring all three to one shape");
    }
  }
  return same_as_input(inputs.subspan(1), attrs);
}

Status grad_where(GradBuilder& builder) {
  for (int i = 1; i < 3; ++i) {
    XRUN_TRY(
        builder.set_grad_by(i, "where.grad", {builder.input(0), builder.output_grad(0)}, Attrs{{"taken", i == 1}}));
  }
  return {};
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_where(const KernelSpec& spec) {
  return kernel_of([n = block_elements(spec.inputs[0], spec.rows)](const KernelCall& call) {
    const T* const c = call.inputs[0].as<T>();
    const T* const a = call.inputs[1].as<T>();
    const T* const b = call.inputs[2].as<T>();
    T* const y = call.outputs[0].as<T>();
    for (int64_t i = 0; i < n; ++i) {
      y[i] = to_float(c[i]) != 0 ? a[i] : b[i];
    }
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_where_grad(const KernelSpec& spec) {
  return kernel_of(
      [taken = spec.attrs.flag("taken"), n = block_elements(spec.inputs[0], spec.rows)](const KernelCall& call) {
        const T* const c = call.inputs[0].as<T>();
        const T* const dy = call.inputs[1].as<T>();
        T* const dx = call.outputs[0].as<T>();
        for (int64_t i = 0; i < n; ++i) {
          dx[i] = (to_float(c[i]) != 0) == taken ? dy[i] : T{};
        }
      });
}

constexpr Op kWhere{.def = {.name = "where",
                            .signature = "(c: [N, ...], a: [N, ...], b: [N, ...])",
                            .group = "pointwise",
                            .doc = "a where c is not 0, else b",
                            .example = "where(c, a, b)",
                            .infer = infer_where,
                            .expr = [](const Attrs&) -> std::string { return "select(x0, x1, x2)"; },
                            .fuses = true,
                            .grad = grad_where,
                            .shard = "n*,n*,n*->n*"},
                    .cpu = by_dtype<make_where<float>, make_where<Bf16>, make_where<Half>>};

constexpr Op kWhereGrad{.def = {.name = "where.grad",
                                .signature = "(c: [N, ...], dy: [N, ...])",
                                .group = "pointwise",
                                .doc = "gradient of a choice",
                                .infer = same_as_input,
                                .shard = "n*,n*->n*"},
                        .cpu = by_dtype<make_where_grad<float>, make_where_grad<Bf16>, make_where_grad<Half>>};

constexpr std::array<const Op*, 6> kOps{&kAdd, &kSub, &kMul, &kDiv, &kWhere, &kWhereGrad};

}  // namespace

std::span<const Op* const> arithmetic_ops() { return kOps; }

}  // namespace xrun::ops
