// Functions of one tensor, element by element: relu gelu silu sigmoid tanh exp log sqrt abs neg clamp erf sin cos acos
// power scale_shift, and the gradient of each as `<name>.grad`. Each function is a struct: `expr` is its scalar
// expression as text; `f` computes y from x; `d` computes dx from dy and from y (if kUsesOutput) or x. Functions that
// GPUs also have inherit both (ops/elementwise/pointwise_formulas.h).
// Tests: tests/ops/conformance_test.cpp
#include <array>
#include <cmath>
#include <numbers>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/elementwise/pointwise_formulas.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/simd/lane_math.h"
#include "ops/simd/lane_trig.h"

namespace xrun::ops {
namespace {

constexpr std::string_view kPlain = "(x: [N, ...])";

// A function has kFuses if its kernel computes exactly the bits of `expr`. If the same holds for the gradient, `d_expr`
// is its expression in dy and the kept value.
struct NoArguments {
  static constexpr bool kFuses = true;
  static constexpr std::string (*d_expr)(const Attrs&) = nullptr;
  static constexpr std::string_view kSignature = kPlain, kAliases = "inplace=";
  static Status check(const Attrs&) { return {}; }
};

struct Relu : NoArguments, ReluFormula {
  static constexpr std::string_view kName = "relu", kGrad = "relu.grad", kDoc = "max(x, 0)", kExample = "relu";
  static constexpr bool kUsesOutput = true;
  static std::string expr(const Attrs&) { return "max(x0, 0)"; }
  static std::string d_expr(const Attrs&) { return "select(0 < x0, x1, 0)"; }
  explicit Relu(const Attrs&) {}
};

struct Gelu : NoArguments, GeluFormula {
  static constexpr std::string_view kName = "gelu", kGrad = "gelu.grad",
                                    kDoc = "x times the normal distribution function of x", kExample = "gelu";
  static constexpr bool kUsesOutput = false, kFuses = false;  // the kernel's erf is less exact than `expr`
  static std::string expr(const Attrs&) { return "0.5 * x0 * (1 + erf(0.7071067811865476 * x0))"; }
  explicit Gelu(const Attrs&) {}
};

struct Silu : NoArguments, SiluFormula {
  static constexpr std::string_view kName = "silu", kGrad = "silu.grad", kDoc = "x · sigmoid(x)", kExample = "silu",
                                    kAliases = "swish inplace=";
  static constexpr bool kUsesOutput = false;
  static std::string expr(const Attrs&) { return "x0 * sigmoid(x0)"; }
  static std::string d_expr(const Attrs&) { return "t0 = sigmoid(x0); x1 * t0 * (x0 * (1 - t0) + 1)"; }
  explicit Silu(const Attrs&) {}
};

struct Sigmoid : NoArguments, SigmoidFormula {
  static constexpr std::string_view kName = "sigmoid", kGrad = "sigmoid.grad", kDoc = "1 / (1 + exp(-x))",
                                    kExample = "sigmoid";
  static constexpr bool kUsesOutput = true;
  static std::string expr(const Attrs&) { return "sigmoid(x0)"; }
  static std::string d_expr(const Attrs&) { return "x1 * x0 * (1 - x0)"; }
  explicit Sigmoid(const Attrs&) {}
};

struct Tanh : NoArguments, TanhFormula {
  static constexpr std::string_view kName = "tanh", kGrad = "tanh.grad", kDoc = "hyperbolic tangent", kExample = "tanh";
  static constexpr bool kUsesOutput = true;
  static std::string expr(const Attrs&) { return "tanh(x0)"; }
  static std::string d_expr(const Attrs&) { return "x1 * (1 - x0 * x0)"; }
  explicit Tanh(const Attrs&) {}
};

struct Exp : NoArguments, ExpFormula {
  static constexpr std::string_view kName = "exp", kGrad = "exp.grad", kDoc = "e to the power of x", kExample = "exp";
  static constexpr bool kUsesOutput = true;
  static std::string expr(const Attrs&) { return "exp(x0)"; }
  static std::string d_expr(const Attrs&) { return "x1 * x0"; }
  explicit Exp(const Attrs&) {}
};

struct Log : NoArguments, LogFormula {
  static constexpr std::string_view kName = "log", kGrad = "log.grad", kDoc = "natural logarithm", kExample = "log";
  static constexpr bool kUsesOutput = false;
  static std::string expr(const Attrs&) { return "log(x0)"; }
  static std::string d_expr(const Attrs&) { return "x1 / x0"; }
  explicit Log(const Attrs&) {}
};

struct Sqrt : NoArguments, SqrtFormula {
  static constexpr std::string_view kName = "sqrt", kGrad = "sqrt.grad", kDoc = "square root", kExample = "sqrt";
  static constexpr bool kUsesOutput = true;
  static std::string expr(const Attrs&) { return "sqrt(x0)"; }
  static std::string d_expr(const Attrs&) { return "x1 / (x0 + x0)"; }
  explicit Sqrt(const Attrs&) {}
};

struct Abs : NoArguments {
  static constexpr std::string_view kName = "abs", kGrad = "abs.grad", kDoc = "absolute value", kExample = "abs";
  static constexpr bool kUsesOutput = false;
  static std::string expr(const Attrs&) { return "abs(x0)"; }
  explicit Abs(const Attrs&) {}
  XRUN_INLINE auto f(auto x) const { return magnitude(x); }
  XRUN_INLINE auto d(auto x, auto dy) const { return if_less(none(x), x, dy, if_less(x, none(x), -dy, none(x))); }
};

struct Neg : NoArguments {
  static constexpr std::string_view kName = "neg", kGrad = "neg.grad", kDoc = "-x", kExample = "neg";
  static constexpr bool kUsesOutput = false;
  static std::string expr(const Attrs&) { return "-x0"; }
  explicit Neg(const Attrs&) {}
  XRUN_INLINE auto f(auto x) const { return -x; }
  XRUN_INLINE auto d(auto, auto dy) const { return -dy; }
};

struct Erf : NoArguments, ErfFormula {
  static constexpr std::string_view kName = "erf", kGrad = "erf.grad", kDoc = "error function", kExample = "erf";
  static constexpr bool kUsesOutput = false;
  static std::string expr(const Attrs&) { return "erf(x0)"; }
  explicit Erf(const Attrs&) {}
};

struct Sin : NoArguments {
  static constexpr std::string_view kName = "sin", kGrad = "sin.grad", kDoc = "sine", kExample = "sin";
  static constexpr bool kUsesOutput = false;
  static std::string expr(const Attrs&) { return "sin(x0)"; }
  explicit Sin(const Attrs&) {}
  XRUN_INLINE auto f(auto x) const { return sin_lanes(x); }
  XRUN_INLINE auto d(auto x, auto dy) const { return dy * cos_lanes(x); }
};

struct Cos : NoArguments {
  static constexpr std::string_view kName = "cos", kGrad = "cos.grad", kDoc = "cosine", kExample = "cos";
  static constexpr bool kUsesOutput = false;
  static std::string expr(const Attrs&) { return "cos(x0)"; }
  explicit Cos(const Attrs&) {}
  XRUN_INLINE auto f(auto x) const { return cos_lanes(x); }
  XRUN_INLINE auto d(auto x, auto dy) const { return -dy * sin_lanes(x); }
};

struct Acos : NoArguments {
  static constexpr std::string_view kName = "acos", kGrad = "acos.grad", kDoc = "arc cosine, for x in -1 .. 1",
                                    kExample = "acos";
  static constexpr bool kUsesOutput = false;
  static std::string expr(const Attrs&) { return "acos(x0)"; }
  explicit Acos(const Attrs&) {}
  XRUN_INLINE auto f(auto x) const { return acos_lanes(x); }
  XRUN_INLINE auto d(auto x, auto dy) const { return -dy / square_root(1.0F - x * x); }
};

struct Clamp {
  static constexpr std::string_view kName = "clamp", kGrad = "clamp.grad",
                                    kSignature = "(x: [N, ...], a: float, b: float)",
                                    kDoc = "x limited to a .. b; no gradient outside", kExample = "clamp(-1, 1)",
                                    kAliases = "clip min=a max=b";
  static constexpr bool kUsesOutput = false, kFuses = true;
  static Status check(const Attrs& attrs) {
    if (!(attrs.real("a") <= attrs.real("b"))) {
      return argument_error("`clamp` has a = " + to_text(attrs.real("a")) + " above b = " + to_text(attrs.real("b")),
                            "write the lower bound first: clamp(-1, 1)");
    }
    return {};
  }
  static constexpr std::string (*d_expr)(const Attrs&) = nullptr;
  static std::string expr(const Attrs& attrs) {
    const std::string a = to_text(attrs.real("a"));
    const std::string b = to_text(attrs.real("b"));
    return "select(x0 < " + a + ", " + a + ", select(" + b + " < x0, " + b + ", x0))";
  }
  explicit Clamp(const Attrs& attrs)
      : low(static_cast<float>(attrs.real("a"))), high(static_cast<float>(attrs.real("b"))) {}
  XRUN_INLINE auto f(auto x) const {
    const auto a = fill_like(x, low);
    const auto b = fill_like(x, high);
    return if_less(x, a, a, if_less(b, x, b, x));
  }
  XRUN_INLINE auto d(auto x, auto dy) const {
    return choose<_CMP_LT_OQ>(x, fill_like(x, low), none(x), choose<_CMP_GT_OQ>(x, fill_like(x, high), none(x), dy));
  }
  float low, high;
};

// A function of a tensor and a constant: `2 * x`, `x - 1`, `1 - x`.
struct ScaleShift {
  static constexpr std::string_view kName = "scale_shift", kGrad = "scale_shift.grad",
                                    kSignature = "(x: [N, ...], scale: float = 1, shift: float = 0)",
                                    kDoc = "scale · x + shift", kExample = "scale_shift(scale=2)", kAliases = "";
  static constexpr bool kUsesOutput = false, kFuses = true;
  static Status check(const Attrs&) { return {}; }
  static constexpr std::string (*d_expr)(const Attrs&) = nullptr;
  static std::string expr(const Attrs& attrs) {
    return "x0 * " + to_text(attrs.real("scale", 1)) + " + " + to_text(attrs.real("shift", 0));
  }
  explicit ScaleShift(const Attrs& attrs)
      : scale(static_cast<float>(attrs.real("scale", 1))), shift(static_cast<float>(attrs.real("shift", 0))) {}
  XRUN_INLINE auto f(auto x) const { return x * scale + shift; }
  XRUN_INLINE auto d(auto, auto dy) const { return dy * scale; }
  float scale, shift;
};

// A power with a constant exponent: `x ^ 3`, `1 / x`.
struct Power {
  static constexpr std::string_view kName = "power", kGrad = "power.grad",
                                    kSignature = "(x: [N, ...], exponent: float)", kDoc = "x to a constant power",
                                    kExample = "power(2)", kAliases = "pow";
  static constexpr bool kUsesOutput = false, kFuses = false;  // the kernel uses libm
  static Status check(const Attrs&) { return {}; }
  static constexpr std::string (*d_expr)(const Attrs&) = nullptr;
  static std::string expr(const Attrs& attrs) { return "x0 ^ (" + to_text(attrs.real("exponent")) + ")"; }
  explicit Power(const Attrs& attrs) : exponent(static_cast<float>(attrs.real("exponent"))) {}
  template <class L>
  XRUN_INLINE static L raise(L x, float e) {
    if (e == -1.0F) {
      return 1.0F / x;
    }
    if (e == 2.0F) {
      return x * x;
    }
    float lanes[kLanes];
    store(lanes, x);
    for (float& lane : lanes) {
      lane = std::pow(lane, e);
    }
    return load<L>(lanes);
  }
  XRUN_INLINE auto f(auto x) const { return raise(x, exponent); }
  XRUN_INLINE auto d(auto x, auto dy) const { return dy * raise(x, exponent - 1.0F) * exponent; }
  float exponent;
};

template <class F, typename T>
struct ForwardBody {
  template <class L>
  XRUN_INLINE static void run(const F* function, const T* x, T* y, int64_t n) {
    const F f = *function;
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(y + i, f.f(load_upto<L>(x + i, n - i)), n - i);
    }
  }
};

template <class F, typename T>
struct GradBody {
  template <class L>
  XRUN_INLINE static void run(const F* function, const T* v, const T* dy, T* dx, int64_t n) {
    const F f = *function;
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(dx + i, f.d(load_upto<L>(v + i, n - i), load_upto<L>(dy + i, n - i)), n - i);
    }
  }
};

template <class F>
struct Pointwise {
  template <typename T>
  static Result<std::unique_ptr<Kernel>> make_forward(const KernelSpec& spec) {
    const int64_t n = block_elements(spec.inputs[0], spec.rows);
    return kernel_over_elements(n, [isa = spec.isa, function = F(spec.attrs)](const KernelCall& call, Range some) {
      run_for<ForwardBody<F, T>>(isa, &function, call.inputs[0].as<T>() + some.begin,
                                 call.outputs[0].as<T>() + some.begin, some.size());
    });
  }

  // Inputs: y or x, then dy.
  template <typename T>
  static Result<std::unique_ptr<Kernel>> make_backward(const KernelSpec& spec) {
    const int64_t n = block_elements(spec.inputs[0], spec.rows);
    return kernel_over_elements(n, [isa = spec.isa, function = F(spec.attrs)](const KernelCall& call, Range some) {
      run_for<GradBody<F, T>>(isa, &function, call.inputs[0].as<T>() + some.begin, call.inputs[1].as<T>() + some.begin,
                              call.outputs[0].as<T>() + some.begin, some.size());
    });
  }

  static Result<OpShape> infer(std::span<const TensorType> inputs, const Attrs& attrs) {
    XRUN_TRY(expect_activation(F::kName, inputs[0]));
    XRUN_TRY(F::check(attrs));
    return same_as_input(inputs, attrs);
  }

  static Status grad(GradBuilder& builder) {
    const ValueId kept = F::kUsesOutput ? builder.output(0) : builder.input(0);
    return builder.set_grads_by(F::kGrad, {kept, builder.output_grad(0)}, builder.node().attrs);
  }

  static constexpr Op kForward{.def = {.name = F::kName,
                                       .signature = F::kSignature,
                                       .group = "pointwise",
                                       .doc = F::kDoc,
                                       .example = F::kExample,
                                       .aliases = F::kAliases,
                                       .infer = infer,
                                       .expr = F::expr,
                                       .fuses = F::kFuses,
                                       .grad = grad,
                                       .shard = "n*->n*"},
                               .cpu = by_dtype<make_forward<float>, make_forward<Bf16>, make_forward<Half>>};
  static constexpr Op kBackward{.def = {.name = F::kGrad,
                                        .signature = "(kept: [N, ...], dy: [N, ...])",
                                        .group = "pointwise",
                                        .doc = "gradient of a pointwise function",
                                        .infer = same_as_input,
                                        .expr = F::d_expr,
                                        .fuses = F::d_expr != nullptr,
                                        .shard = "n*,n*->n*"},
                                .cpu = by_dtype<make_backward<float>, make_backward<Bf16>, make_backward<Half>>};
};

template <class... F>
constexpr std::array<const Op*, 2 * sizeof...(F)> ops_of() {
  std::array<const Op*, 2 * sizeof...(F)> all{};
  size_t at = 0;
  ((all[at++] = &Pointwise<F>::kForward, all[at++] = &Pointwise<F>::kBackward), ...);
  return all;
}

constexpr auto kOps =
    ops_of<Relu, Gelu, Silu, Sigmoid, Tanh, Exp, Log, Sqrt, Abs, Neg, Clamp, Erf, Sin, Cos, Acos, Power, ScaleShift>();

}  // namespace

std::span<const Op* const> pointwise_ops() { return kOps; }

}  // namespace xrun::ops
