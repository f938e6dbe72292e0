#include "ops/prelu.h"

#include "graph/autodiff.h"
#include "ops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

// Channels are dimension 1; in memory they come last for images and for [N, C].
Result<OpShape> infer_prelu(std::span<const TensorType> inputs, const Attrs&) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("prelu", x));
  if (x.rank() != 2 && x.rank() != 4) {
    return rank_error("prelu", "an image [N, C, H, W] or features [N, C]", x,
                      "`relu`, `gelu` and `silu` take any shape");
  }
  OpShape shape;
  shape.outputs.push_back(with_dims(x, x.dims));
  shape.params.push_back({.name = "slope", .type = weight_type({x.dims[1]}), .init = {.value = 0.25}});
  return shape;
}

// inputs: x, dy, slope; outputs: dx, and dslope summed over the samples.
Result<OpShape> infer_grad(std::span<const TensorType> inputs, const Attrs&) {
  OpShape shape;
  shape.outputs.push_back(with_dims(inputs[0], inputs[0].dims));
  shape.outputs.push_back(weight_type(inputs[2].dims));
  return shape;
}

Status grad_prelu(GradBuilder& builder) {
  XRUN_ASSIGN(const std::vector<ValueId> grads,
              builder.emit("prelu.grad", {builder.input(0), builder.output_grad(0), builder.input(1)}));
  for (int i = 0; i < 2; ++i) {
    if (builder.wanted(i)) {
      builder.set_grad(i, grads[static_cast<size_t>(i)]);
    }
  }
  return {};
}

template <typename T>
struct ForwardBody {
  XRUN_INLINE static void run(const T* x, const float* slope, T* y, int64_t rows, int64_t channels) {
    for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
      for (int64_t c = 0; c < channels; c += kLanes) {
        const F16 v = load_upto(x + c, channels - c);
        store_upto(y + c, (v > F16{}) ? v : v * load_upto(slope + c, channels - c), channels - c);
      }
    }
  }
};

template <typename T>
struct GradBody {
  XRUN_INLINE static void run(const T* x, const T* dy, const float* slope, T* dx, float* dslope, int64_t rows,
                              int64_t channels, Range some) {
    reduce_columns<1>(
        rows, some.begin, some.end,
        [&](int64_t r, int64_t c, int64_t n, F16 * acc) __attribute__((always_inline)) {
          const F16 v = load_upto(x + r * channels + c, n);
          const F16 g = load_upto(dy + r * channels + c, n);
          store_upto(dx + r * channels + c, choose<_CMP_GT_OQ>(v, F16{}, g, g * load_upto(slope + c, n)), n);
          acc[0] += choose<_CMP_GT_OQ>(v, F16{}, F16{}, g * v);
        },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            dslope[c + i] += static_cast<float>(totals[0][i]);
          }
        });
  }
};

class PreluBase : public Kernel {
 public:
  explicit PreluBase(const KernelSpec& spec)
      : isa_(spec.isa),
        channels_(spec.inputs[0].dims[1]),
        rows_(block_elements(spec.inputs[0], spec.rows) / channels_) {}

 protected:
  Isa isa_;
  int64_t channels_;
  int64_t rows_;
};

template <typename T>
class Prelu final : public PreluBase {
 public:
  using PreluBase::PreluBase;
  int64_t parts() const override { return rows_; }
  Status run(const KernelCall& call) const override {
    const Range some = part_of(call, rows_);
    run_for<ForwardBody<T>>(isa_, static_cast<const T*>(call.inputs[0].as<T>() + some.begin * channels_),
                            static_cast<const float*>(call.inputs[1].as<float>()),
                            call.outputs[0].as<T>() + some.begin * channels_, some.size(), channels_);
    return {};
  }
};

template <typename T>
class PreluGrad final : public PreluBase {
 public:
  using PreluBase::PreluBase;
  int64_t parts() const override { return runs_of(channels_, kColumnRun<T>); }
  Status run(const KernelCall& call) const override {
    run_for<GradBody<T>>(isa_, static_cast<const T*>(call.inputs[0].as<T>()),
                         static_cast<const T*>(call.inputs[1].as<T>()),
                         static_cast<const float*>(call.inputs[2].as<float>()), call.outputs[0].as<T>(),
                         call.outputs[1].as<float>(), rows_, channels_, part_of(call, channels_, kColumnRun<T>));
    return {};
  }
};

}  // namespace

constinit const Op kPrelu{.def = {.name = "prelu",
                                  .signature = "(x: [N, C, ...])",
                                  .group = "pointwise",
                                  .doc = "x above 0, slope · x below, with one trained slope a channel",
                                  .example = "prelu",
                                  .infer = infer_prelu,
                                  .grad = grad_prelu,
                                  .shard = "nc*,c->nc*"},
                          .cpu = make_by_dtype<Prelu>};

constinit const Op kPreluGrad{.def = {.name = "prelu.grad",
                                      .signature = "(x: [N, C, ...], dy: [N, C, ...], slope: [C])",
                                      .group = "pointwise",
                                      .doc = "gradients of prelu: of its input, and of the slopes over the samples",
                                      .rows = RowProperty::kReduces,
                                      .infer = infer_grad,
                                      .shard = "nc*,nc*,c->nc*,c"},
                              .cpu = make_by_dtype<PreluGrad>};

}  // namespace xrun::ops
