// A fiber is the run of elements along the chosen dimension. Each is gathered to contiguous f32 in scratch, worked on
// by lanes, and scattered back, so that one loop serves every rank, layout and element type.
#include "ops/fibers.h"

#include <array>
#include <cmath>

#include "graph/autodiff.h"
#include "ops/lane_math.h"
#include "ops/lane_sums.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/strides.h"

namespace xrun::ops {
namespace {

XRUN_INLINE float max_of(const float* v, int64_t n) {
  float best = v[0];
  for (int64_t i = 1; i < n; ++i) {
    best = (v[i] <= best || best != best) ? best : v[i];
  }
  return best;
}

struct Softmax {
  static constexpr std::string_view kName = "softmax", kGrad = "softmax.grad",
                                    kDoc = "exp(x) over its sum along a dimension", kExample = "softmax";
  static constexpr bool kUsesOutput = true;
  static constexpr PrecisionRule kPrecision = PrecisionRule::kWide;
  XRUN_INLINE static void run(float* v, int64_t n) {
    const float top = max_of(v, n);
    pad_run(v, n, -INFINITY);
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, exp_lanes(load(v + i) - top));
    }
    const float sum = sum_of(v, n);
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, load(v + i) / broadcast(sum));
    }
  }
  // dx = y (dy - <y, dy>).
  XRUN_INLINE static void grad(float* y, float* dy, int64_t n) {
    pad_run(y, n, 0);
    pad_run(dy, n, 0);
    const float along = dot_of(y, dy, n);
    for (int64_t i = 0; i < n; i += kLanes) {
      store(dy + i, load(y + i) * (load(dy + i) - along));
    }
  }
};

struct L2Norm {
  static constexpr std::string_view kName = "l2norm", kGrad = "l2norm.grad",
                                    kDoc = "x over its Euclidean norm along a dimension", kExample = "l2norm";
  static constexpr bool kUsesOutput = false;
  static constexpr PrecisionRule kPrecision = PrecisionRule::kFollows;
  XRUN_INLINE static float size(float* v, int64_t n) {
    pad_run(v, n, 0);
    const float norm = std::sqrt(dot_of(v, v, n));
    return norm > 1e-12F ? norm : 1e-12F;
  }
  XRUN_INLINE static void run(float* v, int64_t n) {
    const F16 inverse = 1.0F / broadcast(size(v, n));
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, load(v + i) * inverse);
    }
  }
  // With y = x / |x|: dx = (dy - y <y, dy>) / |x|.
  XRUN_INLINE static void grad(float* x, float* dy, int64_t n) {
    const float norm = size(x, n);
    pad_run(dy, n, 0);
    const F16 inverse = 1.0F / broadcast(norm);
    const F16 along = dot_of(x, dy, n) * inverse * inverse;
    for (int64_t i = 0; i < n; i += kLanes) {
      store(dy + i, (load(dy + i) - load(x + i) * along) * inverse);
    }
  }
};

struct Mean {
  static constexpr std::string_view kName = "mean", kGrad = "mean.grad", kDoc = "mean along a dimension",
                                    kExample = "mean(1)";
  static constexpr bool kNeedsInput = false;
  XRUN_INLINE static float reduce(float* v, int64_t n) {
    pad_run(v, n, 0);
    return sum_of(v, n) / static_cast<float>(n);
  }
  XRUN_INLINE static void spread(float* v, int64_t n, float dy) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, broadcast(dy / static_cast<float>(n)));
    }
  }
};

struct Sum {
  static constexpr std::string_view kName = "sum", kGrad = "sum.grad", kDoc = "sum along a dimension",
                                    kExample = "sum(1)";
  static constexpr bool kNeedsInput = false;
  XRUN_INLINE static float reduce(float* v, int64_t n) {
    pad_run(v, n, 0);
    return sum_of(v, n);
  }
  XRUN_INLINE static void spread(float* v, int64_t n, float dy) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store(v + i, broadcast(dy));
    }
  }
};

struct Max {
  static constexpr std::string_view kName = "max", kGrad = "max.grad", kDoc = "largest element along a dimension",
                                    kExample = "max(1)";
  static constexpr bool kNeedsInput = true;
  XRUN_INLINE static float reduce(float* v, int64_t n) { return max_of(v, n); }
  // To the first of equals.
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

template <typename T>
XRUN_INLINE void gather(const T* from, int64_t stride, int64_t n, float* v) {
  for (int64_t i = 0; i < n; ++i) {
    v[i] = to_float(from[i * stride]);
  }
}

template <typename T>
XRUN_INLINE void scatter(const float* v, int64_t n, T* to, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    assign(to[i * stride], v[i]);
  }
}

template <class F, typename T>
struct MapBody {
  XRUN_INLINE static void run(const T* x, T* y, int64_t stride, int64_t n, float* v) {
    gather(x, stride, n, v);
    F::run(v, n);
    scatter(v, n, y, stride);
  }
};

template <class F, typename T>
struct MapGradBody {
  XRUN_INLINE static void run(const T* kept, const T* dy, T* dx, int64_t stride, int64_t n, float* v, float* g) {
    gather(kept, stride, n, v);
    gather(dy, stride, n, g);
    F::grad(v, g, n);
    scatter(static_cast<const float*>(g), n, dx, stride);
  }
};

template <class F, typename T>
struct ReduceBody {
  XRUN_INLINE static void run(const T* x, int64_t stride, int64_t n, T* y, float* v) {
    gather(x, stride, n, v);
    assign(*y, F::reduce(v, n));
  }
};

template <class F, typename T>
struct SpreadBody {
  XRUN_INLINE static void run(const T* x, const T* dy, T* dx, int64_t stride, int64_t n, float* v) {
    if (F::kNeedsInput) {
      gather(x, stride, n, v);
    }
    F::spread(v, n, to_float(*dy));
    scatter(static_cast<const float*>(v), n, dx, stride);
  }
};

// The fibers of `full` along `axis`, walked beside the elements of `reduced` (the same tensor, for maps).
class Fibers {
 public:
  Fibers(const TensorType& full, const TensorType* reduced, int64_t rows, int64_t axis_argument)
      : axis_(static_cast<size_t>(axis_argument < 0 ? axis_argument + full.rank() : axis_argument)) {
    std::vector<int64_t> dims = block_dims(full, rows);
    const std::vector<int64_t> strides = block_strides(full, rows);
    n_ = dims[axis_];
    stride_ = strides[axis_];
    std::vector<int64_t> beside = strides;
    if (reduced != nullptr) {
      beside = block_strides(*reduced, rows);
      if (beside.size() < dims.size()) {
        beside.insert(beside.begin() + static_cast<std::ptrdiff_t>(axis_), 0);
      }
    }
    dims[axis_] = 1;
    loop_ = StridedLoop<2>(dims, {strides, beside});
  }

  int64_t size() const { return n_; }
  int64_t stride() const { return stride_; }
  int64_t padded() const { return align_up(n_, kLanes); }

  // body(offset of the fiber, offset beside it).
  template <typename Body>
  void for_each(const Body& body) const {
    const auto& steps = loop_.inner_steps();
    loop_.for_each_run([&](const auto& at) {
      for (int64_t i = 0; i < loop_.inner_count(); ++i) {
        body(at[0] + i * steps[0], at[1] + i * steps[1]);
      }
    });
  }

 private:
  size_t axis_;
  int64_t n_ = 0;
  int64_t stride_ = 0;
  StridedLoop<2> loop_;
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
    XRUN_ASSIGN(const std::vector<ValueId> dx,
                builder.emit(F::kGrad, {kept, builder.output_grad(0)}, builder.node().attrs));
    builder.set_grad(0, dx[0]);
    return {};
  }

  static OpCost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
    return pointwise_cost(inputs, outputs, 8);
  }

  template <typename T>
  class Forward final : public Kernel {
   public:
    explicit Forward(const KernelSpec& spec)
        : isa_(spec.isa), fibers_(spec.inputs[0], nullptr, spec.rows, spec.attrs.integer("axis", -1)) {}
    Bytes scratch_bytes() const override { return fibers_.padded() * static_cast<Bytes>(sizeof(float)); }
    Status run(const KernelCall& call) const override {
      const T* const x = call.inputs[0].as<T>();
      T* const y = call.outputs[0].as<T>();
      fibers_.for_each([&](int64_t at, int64_t) {
        run_for<MapBody<F, T>>(isa_, x + at, y + at, fibers_.stride(), fibers_.size(),
                               reinterpret_cast<float*>(call.scratch));
      });
      return {};
    }

   private:
    Isa isa_;
    Fibers fibers_;
  };

  template <typename T>
  class Backward final : public Kernel {
   public:
    explicit Backward(const KernelSpec& spec)
        : isa_(spec.isa), fibers_(spec.inputs[0], nullptr, spec.rows, spec.attrs.integer("axis", -1)) {}
    Bytes scratch_bytes() const override { return 2 * fibers_.padded() * static_cast<Bytes>(sizeof(float)); }
    Status run(const KernelCall& call) const override {
      const T* const kept = call.inputs[0].as<T>();
      const T* const dy = call.inputs[1].as<T>();
      T* const dx = call.outputs[0].as<T>();
      auto* const v = reinterpret_cast<float*>(call.scratch);
      fibers_.for_each([&](int64_t at, int64_t) {
        run_for<MapGradBody<F, T>>(isa_, kept + at, dy + at, dx + at, fibers_.stride(), fibers_.size(), v,
                                   v + fibers_.padded());
      });
      return {};
    }

   private:
    Isa isa_;
    Fibers fibers_;
  };

  static constexpr Op kForward{.def = {.name = F::kName,
                                       .signature = "(x: [N, ...], axis: int = -1)",
                                       .group = F::kPrecision == PrecisionRule::kWide ? "pointwise" : "norm",
                                       .doc = F::kDoc,
                                       .example = F::kExample,
                                       .precision = F::kPrecision,
                                       .infer = infer,
                                       .cost = cost,
                                       .grad = grad},
                               .cpu = make_by_dtype<Forward>};
  static constexpr Op kBackward{.def = {.name = F::kGrad,
                                        .signature = "(kept: [N, ...], dy: [N, ...])",
                                        .group = F::kPrecision == PrecisionRule::kWide ? "pointwise" : "norm",
                                        .doc = "gradient along a dimension",
                                        .precision = F::kPrecision,
                                        .infer = same_as_input,
                                        .cost = cost},
                                .cpu = make_by_dtype<Backward>};
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
    OpShape shape;
    shape.outputs.push_back(with_dims(inputs[0], std::move(dims)));
    return shape;
  }

  static Status grad(GradBuilder& builder) {
    Attrs attrs = builder.node().attrs;
    attrs.set("dims", builder.type(builder.input(0)).dims);
    std::vector<ValueId> inputs{builder.output_grad(0)};
    if (F::kNeedsInput) {
      inputs.push_back(builder.input(0));
    }
    XRUN_ASSIGN(const std::vector<ValueId> dx, builder.emit(F::kGrad, std::move(inputs), std::move(attrs)));
    builder.set_grad(0, dx[0]);
    return {};
  }

  // inputs: dy, and x where it is needed.
  static Result<OpShape> infer_grad(std::span<const TensorType> inputs, const Attrs& attrs) {
    OpShape shape;
    shape.outputs.push_back(with_dims(inputs[0], attrs.integers("dims")));
    return shape;
  }

  template <typename T>
  class Forward final : public Kernel {
   public:
    explicit Forward(const KernelSpec& spec)
        : isa_(spec.isa), fibers_(spec.inputs[0], &spec.outputs[0], spec.rows, spec.attrs.integer("axis")) {}
    Bytes scratch_bytes() const override { return fibers_.padded() * static_cast<Bytes>(sizeof(float)); }
    Status run(const KernelCall& call) const override {
      const T* const x = call.inputs[0].as<T>();
      T* const y = call.outputs[0].as<T>();
      fibers_.for_each([&](int64_t at, int64_t beside) {
        run_for<ReduceBody<F, T>>(isa_, x + at, fibers_.stride(), fibers_.size(), y + beside,
                                  reinterpret_cast<float*>(call.scratch));
      });
      return {};
    }

   private:
    Isa isa_;
    Fibers fibers_;
  };

  template <typename T>
  class Backward final : public Kernel {
   public:
    explicit Backward(const KernelSpec& spec)
        : isa_(spec.isa), fibers_(spec.outputs[0], &spec.inputs[0], spec.rows, spec.attrs.integer("axis")) {}
    Bytes scratch_bytes() const override { return fibers_.padded() * static_cast<Bytes>(sizeof(float)); }
    Status run(const KernelCall& call) const override {
      const T* const dy = call.inputs[0].as<T>();
      const T* const x = F::kNeedsInput ? call.inputs[1].as<T>() : nullptr;
      T* const dx = call.outputs[0].as<T>();
      fibers_.for_each([&](int64_t at, int64_t beside) {
        run_for<SpreadBody<F, T>>(isa_, x == nullptr ? x : x + at, dy + beside, dx + at, fibers_.stride(),
                                  fibers_.size(), reinterpret_cast<float*>(call.scratch));
      });
      return {};
    }

   private:
    Isa isa_;
    Fibers fibers_;
  };

  static constexpr Op kForward{.def = {.name = F::kName,
                                       .signature = "(x: [N, ...], axis: int, keep: bool = false)",
                                       .group = "shape",
                                       .doc = F::kDoc,
                                       .example = F::kExample,
                                       .infer = infer,
                                       .grad = grad},
                               .cpu = make_by_dtype<Forward>};
  static constexpr Op kBackward{.def = {.name = F::kGrad,
                                        .signature = "(dy: [N, ...])",
                                        .group = "shape",
                                        .doc = "gradient of a reduction",
                                        .infer = infer_grad},
                                .cpu = make_by_dtype<Backward>};
};

constexpr std::array<const Op*, 10> kOps{&Map<Softmax>::kForward, &Map<Softmax>::kBackward, &Map<L2Norm>::kForward,
                                         &Map<L2Norm>::kBackward, &Reduce<Mean>::kForward,  &Reduce<Mean>::kBackward,
                                         &Reduce<Sum>::kForward,  &Reduce<Sum>::kBackward,  &Reduce<Max>::kForward,
                                         &Reduce<Max>::kBackward};

}  // namespace

std::span<const Op* const> fiber_ops() { return kOps; }

}  // namespace xrun::ops
