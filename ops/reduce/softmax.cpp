// Operators that normalise each fiber (ops/loops/fibers.h) and keep the shape: softmax and l2norm.
// Tests: tests/ops/conformance_test.cpp
#include <array>
#include <cmath>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/fibers.h"
#include "ops/make_kernel.h"
#include "ops/shard.h"
#include "ops/simd/lane_sums.h"

namespace xrun::ops {
namespace {

struct Softmax {
  static constexpr std::string_view kName = "softmax", kGrad = "softmax.grad",
                                    kDoc = "exp(x) over its sum along a dimension", kExample = "softmax";
  static constexpr bool kUsesOutput = true;
  static constexpr PrecisionRule kPrecision = PrecisionRule::kWide;
  template <class L>
  XRUN_INLINE static void run(float* v, int64_t n) {
    const float top = max_of(v, n);
    pad_run(v, n, -INFINITY);
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, exp_lanes(load<L>(v + i) - top));
    }
    const float sum = sum_of<L>(v, n);
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, load<L>(v + i) / broadcast<L>(sum));
    }
  }
  // Gradient of softmax: dx = y (dy - <y, dy>).
  template <class L>
  XRUN_INLINE static void grad(float* y, float* dy, int64_t n) {
    pad_run(y, n, 0);
    pad_run(dy, n, 0);
    const float along = dot_of<L>(y, dy, n);
    for (int64_t i = 0; i < n; i += kLanes) {
      store(dy + i, load<L>(y + i) * (load<L>(dy + i) - along));
    }
  }
};

struct L2Norm {
  static constexpr std::string_view kName = "l2norm", kGrad = "l2norm.grad",
                                    kDoc = "x over its Euclidean norm along a dimension", kExample = "l2norm";
  static constexpr bool kUsesOutput = false;
  static constexpr PrecisionRule kPrecision = PrecisionRule::kFollows;
  template <class L>
  XRUN_INLINE static float size(float* v, int64_t n) {
    pad_run(v, n, 0);
    const float norm = std::sqrt(dot_of<L>(v, v, n));
    return norm > 1e-12F ? norm : 1e-12F;
  }
  template <class L>
  XRUN_INLINE static void run(float* v, int64_t n) {
    const L inverse = 1.0F / broadcast<L>(size<L>(v, n));
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, load<L>(v + i) * inverse);
    }
  }
  // Gradient of y = x / |x|: dx = (dy - y <y, dy>) / |x|.
  template <class L>
  XRUN_INLINE static void grad(float* x, float* dy, int64_t n) {
    const float norm = size<L>(x, n);
    pad_run(dy, n, 0);
    const L inverse = 1.0F / broadcast<L>(norm);
    const L along = dot_of<L>(x, dy, n) * inverse * inverse;
    for (int64_t i = 0; i < n; i += kLanes) {
      store(dy + i, (load<L>(dy + i) - load<L>(x + i) * along) * inverse);
    }
  }
};

template <class F, typename T>
struct MapBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, T* y, int64_t stride, int64_t n, float* v) {
    gather(x, stride, n, v);
    F::template run<L>(v, n);
    scatter(v, n, y, stride);
  }
};

template <class F, typename T>
struct MapGradBody {
  template <class L>
  XRUN_INLINE static void run(const T* kept, const T* dy, T* dx, int64_t stride, int64_t n, float* v, float* g) {
    gather(kept, stride, n, v);
    gather(dy, stride, n, g);
    F::template grad<L>(v, g, n);
    scatter(static_cast<const float*>(g), n, dx, stride);
  }
};

template <class F>
struct Map {
  static Result<OpShape> infer(std::span<const TensorType> inputs, const Attrs& attrs) {
    XRUN_TRY(expect_activation(F::kName, inputs[0]));
    XRUN_TRY(axis_of(F::kName, inputs[0], attrs.integer("axis", -1)));
    return same_as_input(inputs, attrs);
  }

  static Status grad(GradBuilder& builder) {
    const ValueId kept = F::kUsesOutput ? builder.output(0) : builder.input(0);
    return builder.set_grads_by(F::kGrad, {kept, builder.output_grad(0)}, builder.node().attrs);
  }

  static OpCost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
    return pointwise_cost(inputs, outputs, 8);
  }

  template <typename T>
  static Result<std::unique_ptr<Kernel>> make_forward(const KernelSpec& spec) {
    return fiber_kernel(spec, spec.inputs[0], nullptr, 1,
                        [isa = spec.isa](const KernelCall& call, const Fibers& fibers, float* v) {
                          const T* const x = call.inputs[0].as<T>();
                          T* const y = call.outputs[0].as<T>();
                          fibers.for_each([&](int64_t at, int64_t) {
                            run_for<MapBody<F, T>>(isa, x + at, y + at, fibers.stride(), fibers.size(), v);
                          });
                        });
  }

  template <typename T>
  static Result<std::unique_ptr<Kernel>> make_backward(const KernelSpec& spec) {
    return fiber_kernel(spec, spec.inputs[0], nullptr, 2,
                        [isa = spec.isa](const KernelCall& call, const Fibers& fibers, float* v) {
                          const T* const kept = call.inputs[0].as<T>();
                          const T* const dy = call.inputs[1].as<T>();
                          T* const dx = call.outputs[0].as<T>();
                          fibers.for_each([&](int64_t at, int64_t) {
                            run_for<MapGradBody<F, T>>(isa, kept + at, dy + at, dx + at, fibers.stride(), fibers.size(),
                                                       v, v + fibers.padded());
                          });
                        });
  }

  static constexpr Op kForward{.def = {.name = F::kName,
                                       .signature = "(x: [N, ...], axis: int = -1)",
                                       .group = F::kPrecision == PrecisionRule::kWide ? "pointwise" : "norm",
                                       .doc = F::kDoc,
                                       .example = F::kExample,
                                       .aliases = "dim=axis",
                                       .precision = F::kPrecision,
                                       .infer = infer,
                                       .cost = cost,
                                       .grad = grad,
                                       .shard_of = shard_but_axis},
                               .cpu = by_dtype<make_forward<float>, make_forward<Bf16>, make_forward<Half>>};
  static constexpr Op kBackward{.def = {.name = F::kGrad,
                                        .signature = "(kept: [N, ...], dy: [N, ...])",
                                        .group = F::kPrecision == PrecisionRule::kWide ? "pointwise" : "norm",
                                        .doc = "gradient along a dimension",
                                        .precision = F::kPrecision,
                                        .infer = same_as_input,
                                        .cost = cost,
                                        .shard_of = shard_but_axis},
                                .cpu = by_dtype<make_backward<float>, make_backward<Bf16>, make_backward<Half>>};
};

constexpr std::array<const Op*, 4> kOps{&Map<Softmax>::kForward, &Map<Softmax>::kBackward, &Map<L2Norm>::kForward,
                                        &Map<L2Norm>::kBackward};

}  // namespace

std::span<const Op* const> softmax_ops() { return kOps; }

}  // namespace xrun::ops
