// The mean of all positions of each channel of an image.
#include <algorithm>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_global(std::span<const TensorType> in, const Attrs&) {
  XRUN_TRY(expect_image("global_avg_pool", in[0]));
  return OpShape{{with_dims(in[0], {kBatch, in[0].dims[1]})}};
}

Result<OpShape> infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  return OpShape{{with_dims(in[0], {kBatch, in[0].dims[1], attrs.integer("height"), attrs.integer("width_in")})}};
}

Status grad_global(GradBuilder& builder) {
  const TensorType& x = builder.type(builder.input(0));
  Attrs attrs;
  attrs.set("height", x.dims[2]);
  attrs.set("width_in", x.dims[3]);
  return builder.set_grads_by("global_avg_pool.grad", {builder.output_grad(0)}, std::move(attrs));
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_global(const KernelSpec& spec) {
  const int64_t channels = spec.inputs[0].dims[1];
  return kernel_over_rows(
      spec.rows,
      [isa = spec.isa, channels, n = spec.inputs[0].row_elements()](const KernelCall& call, Range some) {
        auto* const sums = reinterpret_cast<float*>(call.scratch);
        for (int64_t r = some.begin; r < some.end; ++r) {
          std::fill_n(sums, channels, 0.0F);
          add_column_sums(isa, call.inputs[0].as<T>() + r * n, n / channels, channels, sums);
          run_for<ScaleBody<float, T>>(isa, sums, 1.0F / static_cast<float>(n / channels),
                                       call.outputs[0].as<T>() + r * channels, channels);
        }
      },
      channels * static_cast<Bytes>(sizeof(float)));
}

template <typename T>
struct SpreadBody {
  template <class L>
  XRUN_INLINE static void run(const T* dy, float scale, T* dx, int64_t positions, int64_t channels) {
    for (int64_t p = 0; p < positions; ++p) {
      ScaleBody<T, T>::template run<L>(dy, scale, dx + p * channels, channels);
    }
  }
};

template <typename T>
Result<std::unique_ptr<Kernel>> make_global_grad(const KernelSpec& spec) {
  return kernel_over_rows(spec.rows, [isa = spec.isa, channels = spec.outputs[0].dims[1],
                                      n = spec.outputs[0].row_elements()](const KernelCall& call, Range some) {
    for (int64_t r = some.begin; r < some.end; ++r) {
      run_for<SpreadBody<T>>(isa, call.inputs[0].as<T>() + r * channels, 1.0F / static_cast<float>(n / channels),
                             call.outputs[0].as<T>() + r * n, n / channels, channels);
    }
  });
}

}  // namespace

constinit const Op kGlobalAvgPool{
    .def = {.name = "global_avg_pool",
            .signature = "(x: [N, C, H, W])",
            .group = "pooling",
            .doc = "the mean of all positions of each channel",
            .example = "global_avg_pool",
            .aliases = "gap global_average_pooling global_average_pooling2d adaptive_avg_pool2d output_size=",
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_global,
            .grad = grad_global,
            .shard = "nc__->nc"},
    .cpu = by_dtype<make_global<float>, make_global<Bf16>, make_global<Half>>};

constinit const Op kGlobalAvgPoolGrad{
    .def = {.name = "global_avg_pool.grad",
            .signature = "(dy: [N, C])",
            .group = "pooling",
            .doc = "gradient of global_avg_pool",
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_grad,
            .shard = "nc->nc__"},
    .cpu = by_dtype<make_global_grad<float>, make_global_grad<Bf16>, make_global_grad<Half>>};

}  // namespace xrun::ops
