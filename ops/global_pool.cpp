#include "ops/global_pool.h"

#include <algorithm>

#include "graph/autodiff.h"
#include "ops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_global(std::span<const TensorType> in, const Attrs&) {
  XRUN_TRY(expect_image("global_avg_pool", in[0]));
  OpShape shape;
  shape.outputs.push_back(with_dims(in[0], {kBatch, in[0].dims[1]}));
  return shape;
}

Result<OpShape> infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  OpShape shape;
  shape.outputs.push_back(
      with_dims(in[0], {kBatch, in[0].dims[1], attrs.integer("height"), attrs.integer("width_in")}));
  return shape;
}

Status grad_global(GradBuilder& builder) {
  const TensorType& x = builder.type(builder.input(0));
  Attrs attrs;
  attrs.set("height", x.dims[2]);
  attrs.set("width_in", x.dims[3]);
  XRUN_ASSIGN(const std::vector<ValueId> dx,
              builder.emit("global_avg_pool.grad", {builder.output_grad(0)}, std::move(attrs)));
  builder.set_grad(0, dx[0]);
  return {};
}

class GlobalPoolBase : public Kernel {
 public:
  int64_t parts() const override { return rows_; }

 protected:
  GlobalPoolBase(const KernelSpec& spec, const TensorType& image)
      : isa_(spec.isa), rows_(spec.rows), channels_(image.dims[1]), positions_(image.row_elements() / channels_) {}

  Isa isa_;
  int64_t rows_;
  int64_t channels_;
  int64_t positions_;
};

template <typename T>
class GlobalAvgPool final : public GlobalPoolBase {
 public:
  explicit GlobalAvgPool(const KernelSpec& spec) : GlobalPoolBase(spec, spec.inputs[0]) {}
  Bytes scratch_bytes() const override { return channels_ * static_cast<Bytes>(sizeof(float)); }
  Status run(const KernelCall& call) const override {
    auto* const sums = reinterpret_cast<float*>(call.scratch);
    const Range some = part_of(call, rows_);
    for (int64_t r = some.begin; r < some.end; ++r) {
      std::fill_n(sums, channels_, 0.0F);
      add_column_sums(isa_, call.inputs[0].as<T>() + r * channels_ * positions_, positions_, channels_, sums);
      run_for<ScaleBody<float, T>>(isa_, static_cast<const float*>(sums), 1.0F / static_cast<float>(positions_),
                                   call.outputs[0].as<T>() + r * channels_, channels_);
    }
    return {};
  }
};

template <typename T>
struct SpreadBody {
  XRUN_INLINE static void run(const T* dy, float scale, T* dx, int64_t positions, int64_t channels) {
    for (int64_t p = 0; p < positions; ++p) {
      ScaleBody<T, T>::run(dy, scale, dx + p * channels, channels);
    }
  }
};

template <typename T>
class GlobalAvgPoolGrad final : public GlobalPoolBase {
 public:
  explicit GlobalAvgPoolGrad(const KernelSpec& spec) : GlobalPoolBase(spec, spec.outputs[0]) {}
  Status run(const KernelCall& call) const override {
    const Range some = part_of(call, rows_);
    for (int64_t r = some.begin; r < some.end; ++r) {
      run_for<SpreadBody<T>>(isa_, static_cast<const T*>(call.inputs[0].as<T>() + r * channels_),
                             1.0F / static_cast<float>(positions_),
                             call.outputs[0].as<T>() + r * channels_ * positions_, positions_, channels_);
    }
    return {};
  }
};

}  // namespace

constinit const Op kGlobalAvgPool{.def = {.name = "global_avg_pool",
                                          .signature = "(x: [N, C, H, W])",
                                          .group = "pooling",
                                          .doc = "the mean of all positions of each channel",
                                          .example = "global_avg_pool",
                                          .infer = infer_global,
                                          .grad = grad_global,
                                          .shard = "nc__->nc"},
                                  .cpu = make_by_dtype<GlobalAvgPool>};

constinit const Op kGlobalAvgPoolGrad{.def = {.name = "global_avg_pool.grad",
                                              .signature = "(dy: [N, C])",
                                              .group = "pooling",
                                              .doc = "gradient of global_avg_pool",
                                              .infer = infer_grad,
                                              .shard = "nc->nc__"},
                                      .cpu = make_by_dtype<GlobalAvgPoolGrad>};

}  // namespace xrun::ops
