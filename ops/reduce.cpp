// Operators that reduce each fiber (ops/fibers.h) to one element: mean, sum, max along a dimension, which is removed,
// or becomes 1 with keep=true.
#include <array>

#include "graph/autodiff.h"
#include "ops/catalog.h"
#include "ops/fibers.h"
#include "ops/lane_sums.h"
#include "ops/make_kernel.h"
#include "ops/shard.h"

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
  static constexpr bool kNeedsInput = false, kAddsUp = true;  // results of parts
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
  // The gradient goes to the first of equal elements.
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

template <class F>
struct Reduce {
  static Result<OpShape> infer(std::span<const TensorType> inputs, const Attrs& attrs) {
    XRUN_TRY(expect_activation(F::kName, inputs[0]));
    XRUN_ASSIGN(const int axis, axis_of(F::kName, inputs[0], attrs.integer("axis")));
    std::vector<int64_t> dims = inputs[0].dims;
    if (attrs.flag("keep", false)) {
      dims[static_cast<size_t>(axis)] = 1;
    } else {
      dims.erase(dims.begin() + axis);
    }
    return OpShape{{with_dims(inputs[0], std::move(dims))}};
  }

  static Status grad(GradBuilder& builder) {
    Attrs attrs = builder.node().attrs;
    attrs.set("dims", builder.type(builder.input(0)).dims);
    std::vector<ValueId> inputs{builder.output_grad(0)};
    if (F::kNeedsInput) {
      inputs.push_back(builder.input(0));
    }
    return builder.set_grads_by(F::kGrad, std::move(inputs), std::move(attrs));
  }

  // Letters of x, and of y, which lacks the axis or has 1 there.
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
    const auto [x, y] = letters(inputs[0], attrs);
    return shard_text({x}, {y});
  }

  static std::string shard_grad(std::span<const TensorType>, std::span<const TensorType> outputs, const Attrs& attrs) {
    const auto [x, y] = letters(outputs[0], attrs);
    return F::kNeedsInput ? shard_text({y, x}, {x}) : shard_text({y}, {x});
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
                                       .grad = grad,
                                       .shard_of = shard},
                               .cpu = by_dtype<make_forward<float>, make_forward<Bf16>>};
  static constexpr Op kBackward{.def = {.name = F::kGrad,
                                        .signature = "(dy: [N, ...])",
                                        .group = "shape",
                                        .doc = "gradient of a reduction",
                                        .infer = infer_dims,
                                        .shard_of = shard_grad},
                                .cpu = by_dtype<make_backward<float>, make_backward<Bf16>>};
};

constexpr std::array<const Op*, 6> kOps{&Reduce<Mean>::kForward, &Reduce<Mean>::kBackward, &Reduce<Sum>::kForward,
                                        &Reduce<Sum>::kBackward, &Reduce<Max>::kForward,   &Reduce<Max>::kBackward};

}  // namespace

std::span<const Op* const> reduce_ops() { return kOps; }

}  // namespace xrun::ops
