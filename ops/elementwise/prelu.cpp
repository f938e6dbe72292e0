// prelu: x if x > 0, else slope · x, with one trained slope per channel (initially 0.25).
// Source: He et al., "Delving Deep into Rectifiers", ICCV 2015.
// Tests: tests/ops/conformance_test.cpp
#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

// The channels are dimension 1. In memory they come last, both for images and for [N, C].
Result<OpShape> infer_prelu(std::span<const TensorType> inputs, const Attrs&) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("prelu", x));
  if (x.rank() != 2 && x.rank() != 4) {
    return rank_error("prelu", "an image [N, C, H, W] or features [N, C]", x,
                      "`relu`, `gelu` and `silu` take any shape");
  }
  return OpShape{{with_dims(x, x.dims)}, {param("slope", {x.dims[1]}, {.value = 0.25})}};
}

// Inputs: x, dy, slope. Outputs: dx, and dslope summed over the samples.
Result<OpShape> infer_grad(std::span<const TensorType> inputs, const Attrs&) {
  return OpShape{{with_dims(inputs[0], inputs[0].dims), weight_type(inputs[2].dims)}};
}

Status grad_prelu(GradBuilder& builder) {
  return builder.set_grads_by("prelu.grad", {builder.input(0), builder.output_grad(0), builder.input(1)});
}

template <typename T>
struct ForwardBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const float* slope, T* y, int64_t rows, int64_t channels) {
    for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
      for (int64_t c = 0; c < channels; c += kLanes) {
        const L v = load_upto<L>(x + c, channels - c);
        store_upto(y + c, if_less(L{}, v, v, v * load_upto<L>(slope + c, channels - c)), channels - c);
      }
    }
  }
};

template <typename T>
struct GradBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const T* dy, const float* slope, T* dx, float* dslope, int64_t rows,
                              int64_t channels, Range some) {
    reduce_columns<L, 1>(
        rows, some.begin, some.end,
        [&](int64_t r, int64_t c, int64_t n, L * acc) __attribute__((always_inline)) {
          const L v = load_upto<L>(x + r * channels + c, n);
          const L g = load_upto<L>(dy + r * channels + c, n);
          store_upto(dx + r * channels + c, choose<_CMP_GT_OQ>(v, L{}, g, g * load_upto<L>(slope + c, n)), n);
          acc[0] += choose<_CMP_GT_OQ>(v, L{}, L{}, g * v);
        },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            dslope[c + i] += static_cast<float>(totals[0][i]);
          }
        });
  }
};

// A tensor as rows of C numbers. An image has one row for each position.
struct Rows {
  explicit Rows(const KernelSpec& spec)
      : isa(spec.isa), channels(spec.inputs[0].dims[1]), count(block_elements(spec.inputs[0], spec.rows) / channels) {}
  Isa isa;
  int64_t channels;
  int64_t count;
};

template <typename T>
Result<std::unique_ptr<Kernel>> make_forward(const KernelSpec& spec) {
  const Rows rows(spec);
  return kernel_over_rows(rows.count, [rows](const KernelCall& call, Range some) {
    run_for<ForwardBody<T>>(rows.isa, call.inputs[0].as<T>() + some.begin * rows.channels, call.inputs[1].as<float>(),
                            call.outputs[0].as<T>() + some.begin * rows.channels, some.size(), rows.channels);
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_grad(const KernelSpec& spec) {
  const Rows rows(spec);
  return kernel_over(rows.channels, kColumnRun<T>, [rows](const KernelCall& call, Range some) {
    run_for<GradBody<T>>(rows.isa, call.inputs[0].as<T>(), call.inputs[1].as<T>(), call.inputs[2].as<float>(),
                         call.outputs[0].as<T>(), call.outputs[1].as<float>(), rows.count, rows.channels, some);
  });
}

}  // namespace

constinit const Op kPrelu{.def = {.name = "prelu",
                                  .signature = "(x: [N, C, ...])",
                                  .group = "pointwise",
                                  .doc = "x above 0, slope · x below, with one trained slope a channel",
                                  .example = "prelu",
                                  .layout = LayoutRule::kChannelsLast,
                                  .infer = infer_prelu,
                                  .grad = grad_prelu,
                                  .shard = "nc*,c->nc*"},
                          .cpu = by_dtype<make_forward<float>, make_forward<Bf16>, make_forward<Half>>};

constinit const Op kPreluGrad{.def = {.name = "prelu.grad",
                                      .signature = "(x: [N, C, ...], dy: [N, C, ...], slope: [C])",
                                      .group = "pointwise",
                                      .doc = "gradients of prelu: of its input, and of the slopes over the samples",
                                      .rows = RowProperty::kReduces,
                                      .layout = LayoutRule::kChannelsLast,
                                      .infer = infer_grad,
                                      .shard = "nc*,nc*,c->nc*,c"},
                              .cpu = by_dtype<make_grad<float>, make_grad<Bf16>, make_grad<Half>>};

}  // namespace xrun::ops
