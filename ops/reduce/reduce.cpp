// Operators that reduce each fiber (ops/loops/fibers.h) to one element: mean, sum and max along a dimension. The
// dimension is removed, or becomes 1 with keep=true. With the attribute `of` they reduce a scalar function of their
// operands, which they compute one fiber at a time and never store.
// Tests: tests/ops/conformance_test.cpp
#include <algorithm>
#include <array>

#include "graph/passes/autodiff.h"
#include "graph/types/scalar_expr.h"
#include "ops/catalog.h"
#include "ops/elementwise/map.h"
#include "ops/loops/broadcast.h"
#include "ops/loops/broadcast_loop.h"
#include "ops/loops/fibers.h"
#include "ops/make_kernel.h"
#include "ops/shard.h"
#include "ops/simd/lane_sums.h"

namespace xrun::ops {
namespace {

struct Mean {
  static constexpr std::string_view kName = "mean", kGrad = "mean.grad", kDoc = "mean along a dimension",
                                    kExample = "mean(1)";
  static constexpr bool kNeedsInput = false, kAddsUp = false;
  template <class L>
  XRUN_INLINE static float reduce(float* v, int64_t n) {
    pad_run(v, n, 0);
    return sum_of<L>(v, n) / static_cast<float>(n);
  }
  template <class L>
  XRUN_INLINE static void spread(float* v, int64_t n, float dy) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, broadcast<L>(dy / static_cast<float>(n)));
    }
  }
};

struct Sum {
  static constexpr std::string_view kName = "sum", kGrad = "sum.grad", kDoc = "sum along a dimension",
                                    kExample = "sum(1)";
  static constexpr bool kNeedsInput = false, kAddsUp = true;  // sums of parts of a fiber can be added
  template <class L>
  XRUN_INLINE static float reduce(float* v, int64_t n) {
    pad_run(v, n, 0);
    return sum_of<L>(v, n);
  }
  template <class L>
  XRUN_INLINE static void spread(float* v, int64_t n, float dy) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, broadcast<L>(dy));
    }
  }
};

struct Max {
  static constexpr std::string_view kName = "max", kGrad = "max.grad", kDoc = "largest element along a dimension",
                                    kExample = "max(1)";
  static constexpr bool kNeedsInput = true, kAddsUp = false;
  template <class L>
  XRUN_INLINE static float reduce(float* v, int64_t n) {
    return max_of(v, n);
  }
  // Gives the gradient to the first of equal elements.
  template <class L>
  XRUN_INLINE static void spread(float* v, int64_t n, float dy) {
    const float top = max_of(v, n);
    bool given = false;
    for (int64_t i = 0; i < n; ++i) {
      const bool here = !given && (v[i] == top || v[i] != v[i]);
      given = given || here;
      v[i] = here ? dy : 0.0F;
    }
  }
};

template <class F, typename T>
struct ReduceBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, int64_t stride, int64_t n, T* y, float* v) {
    gather(x, stride, n, v);
    assign(*y, F::template reduce<L>(v, n));
  }
};

template <class F, typename T>
struct SpreadBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const T* dy, T* dx, int64_t stride, int64_t n, float* v) {
    if (F::kNeedsInput) {
      gather(x, stride, n, v);
    }
    F::template spread<L>(v, n, to_float(*dy));
    scatter(static_cast<const float*>(v), n, dx, stride);
  }
};

template <class F, typename T>
struct RunBody {
  template <class L>
  XRUN_INLINE static void run(float* v, int64_t n, T* y) {
    assign(*y, F::template reduce<L>(v, n));
  }
};

// The type of the reduced elements: the type of the operand, or of the function `of` of all operands.
Result<TensorType> reduced_type(std::string_view op, std::span<const TensorType> inputs, const Attrs& attrs) {
  return attrs.has("of") ? broadcast(op, inputs) : Result<TensorType>(inputs[0]);
}

// The least number of elements in a fiber of a function that is reduced; shorter fibers cost more than they save.
constexpr int64_t kShortest = 64;

bool takes_function(const TensorType& x, const Attrs& attrs) {
  const int64_t axis = attrs.integer("axis");
  const int64_t at = axis < 0 ? axis + x.rank() : axis;
  return at == (x.has_layouts() ? 1 : x.rank() - 1) && x.dims[static_cast<size_t>(at)] >= kShortest;
}

// The layout for a reduction. With a function, fibers are contiguous: channels of images or the last dimension.
LayoutRule layout_of_reduction(std::span<const TensorType> inputs, const Attrs& attrs) {
  if (!attrs.has("of")) {
    return LayoutRule::kAny;
  }
  const auto x = reduced_type("combine", inputs, attrs);
  return x.ok() && x->has_layouts() ? LayoutRule::kChannelsLast : LayoutRule::kRowMajor;
}

template <class F>
struct Reduce {
  static Result<OpShape> infer(std::span<const TensorType> inputs, const Attrs& attrs) {
    XRUN_ASSIGN(const TensorType x, reduced_type(F::kName, inputs, attrs));
    XRUN_TRY(expect_activation(F::kName, x));
    XRUN_ASSIGN(const int axis, axis_of(F::kName, x, attrs.integer("axis")));
    std::vector<int64_t> dims = x.dims;
    if (attrs.flag("keep", false)) {
      dims[static_cast<size_t>(axis)] = 1;
    } else {
      dims.erase(dims.begin() + axis);
    }
    return OpShape{{with_dims(x, std::move(dims))}};
  }

  // Differentiates a reduced function: computes the gradients of its operands from dy, which has one element for each
  // fiber. dy is first broadcast to the shape of x only if `reads_all` is false.
  static Status grad_of_function(GradBuilder& builder) {
    const Attrs& attrs = builder.node().attrs;
    XRUN_ASSIGN(const ScalarExpr function, parse_scalar_expr(attrs.text("of")));
    std::vector<TensorType> operands;
    for (int i = 0; i < builder.input_count(); ++i) {
      operands.push_back(builder.type(builder.input(i)));
    }
    XRUN_ASSIGN(const TensorType x, broadcast(F::kName, operands));
    XRUN_ASSIGN(const int axis, axis_of(F::kName, x, attrs.integer("axis")));
    ValueId dy = builder.output_grad(0);
    std::vector<int64_t> narrow = x.dims;
    narrow[static_cast<size_t>(axis)] = 1;
    const int64_t n = x.dims[static_cast<size_t>(axis)];
    if (!reads_all(builder, function, x, narrow)) {
      Attrs spread{{"axis", attrs.integer("axis")}, {"keep", attrs.flag("keep", false)}, {"dims", x.dims}};
      XRUN_ASSIGN(const std::vector<ValueId> wide, builder.emit(F::kGrad, {dy}, std::move(spread)));
      return set_function_grads(builder, function, wide[0], nullptr);
    }
    if (builder.type(dy).dims != narrow) {
      XRUN_ASSIGN(const std::vector<ValueId> kept, builder.emit("reshape", {dy}, Attrs{{"shape", narrow}}));
      dy = kept[0];
    }
    // The gradient of one element of a fiber, as F::spread computes it.
    ScalarExpr seed;
    ScalarId element = seed.input(0);
    element = F::kAddsUp ? element : seed.make(ScalarOp::kDiv, element, seed.constant(static_cast<double>(n)));
    element = seed.rounded(element, x.dtype);
    seed.set_results({element});
    return set_function_grads(builder, function, dy, &seed);
  }

  // Whether dy, with the dimensions `narrow`, and the operands that the derivatives read can be broadcast to the shape
  // of x, and to no smaller shape.
  static bool reads_all(const GradBuilder& builder, const ScalarExpr& function, const TensorType& x,
                        const std::vector<int64_t>& narrow) {
    const int count = builder.input_count();
    std::vector<TensorType> read{with_dims(x, narrow)};
    for (const int input : gradient_of(function, count, wanted_inputs(builder)).inputs_read()) {
      if (input < count) {
        read.push_back(builder.type(builder.input(input)));
      }
    }
    const auto together = broadcast(F::kName, read);
    return together.ok() && together->dims == x.dims;
  }

  static Status grad(GradBuilder& builder) {
    if (builder.node().attrs.has("of")) {
      return grad_of_function(builder);
    }
    Attrs attrs = builder.node().attrs;
    attrs.set("dims", builder.type(builder.input(0)).dims);
    std::vector<ValueId> inputs{builder.output_grad(0)};
    if (F::kNeedsInput) {
      inputs.push_back(builder.input(0));
    }
    return builder.set_grads_by(F::kGrad, std::move(inputs), std::move(attrs));
  }

  // Returns the shard letters of x and of y. y lacks the letter of the axis, or has 1 there.
  static std::pair<std::string, std::string> letters(const TensorType& x, const Attrs& attrs) {
    const int64_t axis = attrs.integer("axis");
    const auto at = static_cast<size_t>(axis < 0 ? axis + x.rank() : axis);
    std::string of_x = shard_letters(x);
    std::string of_y = of_x;
    of_y.replace(at, 1, attrs.flag("keep", false) ? "_" : "");
    of_x[at] = F::kAddsUp ? of_x[at] : '_';
    return {of_x, of_y};
  }

  static std::string shard(std::span<const TensorType> inputs, std::span<const TensorType>, const Attrs& attrs) {
    const auto whole = reduced_type(F::kName, inputs, attrs);
    const TensorType& type = whole.ok() ? *whole : inputs[0];
    const auto [x, y] = letters(type, attrs);
    if (!attrs.has("of")) {
      return shard_text({x}, {y});
    }
    std::string operands = shard_broadcast(inputs, std::span(&type, 1), Attrs());
    operands.resize(operands.find("->"));
    const int64_t axis = attrs.integer("axis");
    const char letter = shard_letters(type)[static_cast<size_t>(axis < 0 ? axis + type.rank() : axis)];
    std::ranges::replace(operands, letter, F::kAddsUp ? letter : '_');
    return operands + "->" + y;
  }

  static std::string shard_grad(std::span<const TensorType>, std::span<const TensorType> outputs, const Attrs& attrs) {
    const auto [x, y] = letters(outputs[0], attrs);
    return F::kNeedsInput ? shard_text({y, x}, {x}) : shard_text({y}, {x});
  }

  static OpCost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) {
    const auto x = reduced_type(F::kName, inputs, attrs);
    const auto function = attrs.has("of") ? parse_scalar_expr(attrs.text("of")) : Result<ScalarExpr>(ScalarExpr());
    const double operations = function.ok() ? static_cast<double>(function->operations()) : 0;
    return {.flops = (operations + 1) * static_cast<double>((x.ok() ? *x : inputs[0]).row_elements()),
            .bytes = traffic(inputs, outputs)};
  }

  // Makes the kernel that reduces a function. Its fibers are contiguous in memory, and so are the results.
  template <typename T>
  static Result<std::unique_ptr<Kernel>> make_of_function(const KernelSpec& spec) {
    XRUN_ASSIGN(ScalarExpr function, parse_scalar_expr(spec.attrs.text("of")));
    XRUN_ASSIGN(TensorType x, reduced_type(F::kName, spec.inputs, spec.attrs));
    x.layout = x.has_layouts() ? Layout::kChannelsLast : Layout::kRowMajor;
    const Fibers fibers(x, &spec.outputs[0], spec.rows, spec.attrs.integer("axis"));
    XRUN_CHECK(fibers.stride() == 1, "a function is reduced along a dimension that lies apart in memory");
    KernelSpec loop = spec;
    loop.outputs = {x};
    loop.outputs[0].dtype = DType::kF32;
    const BroadcastLoop elements(loop, std::move(function), BroadcastLoop::Stores::kToCaches);
    const int64_t n = fibers.size();
    const Bytes own = align_up(elements.scratch_bytes(), 64);
    return kernel_over_rows(
        elements.elements() / n,
        [isa = spec.isa, elements, n, own](const KernelCall& call, Range some) {
          auto* const v = reinterpret_cast<float*>(call.scratch + own);
          T* const y = call.outputs[0].as<T>();
          for (int64_t i = some.begin; i < some.end; ++i) {
            elements.run_pieces(
                call.inputs, call.scratch, {i * n, (i + 1) * n}, n,
                [&](int64_t begin, void** outputs) { outputs[0] = v + (begin - i * n); }, [](int64_t, int64_t) {});
            run_for<RunBody<F, T>>(isa, v, n, y + i);
          }
        },
        own + fibers.padded() * static_cast<Bytes>(sizeof(float)));
  }

  template <typename T>
  static Result<std::unique_ptr<Kernel>> make_forward(const KernelSpec& spec) {
    return fiber_kernel(spec, spec.inputs[0], &spec.outputs[0], 1,
                        [isa = spec.isa](const KernelCall& call, const Fibers& fibers, float* v) {
                          const T* const x = call.inputs[0].as<T>();
                          T* const y = call.outputs[0].as<T>();
                          fibers.for_each([&](int64_t at, int64_t beside) {
                            run_for<ReduceBody<F, T>>(isa, x + at, fibers.stride(), fibers.size(), y + beside, v);
                          });
                        });
  }

  // Makes the kernel for the type of the results. The first operand does not determine it, since operands of a function
  // may be parameters, which are f32.
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    return with_type(spec.outputs[0].dtype, [&](auto number) {
      using T = decltype(number);
      return spec.attrs.has("of") ? make_of_function<T>(spec) : make_forward<T>(spec);
    });
  }

  template <typename T>
  static Result<std::unique_ptr<Kernel>> make_backward(const KernelSpec& spec) {
    return fiber_kernel(spec, spec.outputs[0], &spec.inputs[0], 1,
                        [isa = spec.isa](const KernelCall& call, const Fibers& fibers, float* v) {
                          const T* const dy = call.inputs[0].as<T>();
                          const T* const x = F::kNeedsInput ? call.inputs[1].as<T>() : nullptr;
                          T* const dx = call.outputs[0].as<T>();
                          fibers.for_each([&](int64_t at, int64_t beside) {
                            run_for<SpreadBody<F, T>>(isa, F::kNeedsInput ? x + at : x, dy + beside, dx + at,
                                                      fibers.stride(), fibers.size(), v);
                          });
                        });
  }

  static constexpr Op kForward{.def = {.name = F::kName,
                                       .signature = "(x: [N, ...], axis: int, keep: bool = false)",
                                       .group = "shape",
                                       .doc = F::kDoc,
                                       .example = F::kExample,
                                       .aliases = "dim=axis keepdim=keep keepdims=keep",
                                       .infer = infer,
                                       .cost = cost,
                                       .takes_function = F::kNeedsInput ? nullptr : takes_function,
                                       .layout_of = layout_of_reduction,
                                       .grad = grad,
                                       .shard_of = shard},
                               .cpu = make};
  static constexpr Op kBackward{.def = {.name = F::kGrad,
                                        .signature = "(dy: [N, ...])",
                                        .group = "shape",
                                        .doc = "gradient of a reduction",
                                        .layout = F::kNeedsInput ? LayoutRule::kAlike : LayoutRule::kAny,
                                        .infer = infer_dims,
                                        .shard_of = shard_grad},
                                .cpu = by_dtype<make_backward<float>, make_backward<Bf16>, make_backward<Half>>};
};

constexpr std::array<const Op*, 6> kOps{&Reduce<Mean>::kForward, &Reduce<Mean>::kBackward, &Reduce<Sum>::kForward,
                                        &Reduce<Sum>::kBackward, &Reduce<Max>::kForward,   &Reduce<Max>::kBackward};

}  // namespace

std::span<const Op* const> reduce_ops() { return kOps; }

}  // namespace xrun::ops
