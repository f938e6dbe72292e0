// Operators that keep the shape: stop_gradient, which keeps the values; cast, which rounds them and is inserted by
// mixed precision; and fill, which makes a constant in the shape of its input, such as the gradient where
// differentiation starts.
// Tests: tests/ops/conformance_test.cpp
#include <algorithm>
#include <array>
#include <cstring>

#include "graph/base/errors.h"
#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/simd/convert.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_stop(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_activation("stop_gradient", inputs[0]));
  return same_as_input(inputs, attrs);
}

Result<std::unique_ptr<Kernel>> make_copy(const KernelSpec& spec) {
  const Bytes bytes = spec.inputs[0].bytes(spec.rows, spec.rows);
  return kernel_over_elements(bytes, [](const KernelCall& call, Range some) {  // the elements of this range are bytes
    std::memcpy(call.outputs[0].data + some.begin, call.inputs[0].data + some.begin, static_cast<size_t>(some.size()));
  });
}

// Returns the target type, or f64 if the text is not f32, bf16 or f16; infer_cast rejects f64.
DType target_of(const Attrs& attrs) {
  const std::optional<DType> named = parse_dtype(attrs.text("to"));
  return named && is_computed(*named) ? *named : DType::kF64;
}

Result<OpShape> infer_cast(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_activation("cast", inputs[0]));
  if (target_of(attrs) == DType::kF64) {
    return content_error("XG0303", "`cast` makes f32, bf16 or f16, not `" + attrs.text("to") + "`",
                         "make it one of the three");
  }
  OpShape shape{{with_dims(inputs[0], inputs[0].dims)}};
  shape.outputs[0].dtype = target_of(attrs);
  return shape;
}

bool casts_nothing(std::span<const TensorType> inputs, const Attrs& attrs) {
  return inputs[0].dtype == target_of(attrs);
}

Status grad_cast(GradBuilder& builder) {
  const DType back = builder.type(builder.input(0)).dtype;
  if (builder.type(builder.output_grad(0)).dtype == back) {
    builder.set_grad(0, builder.output_grad(0));
    return {};
  }
  return builder.set_grads_by("cast", {builder.output_grad(0)}, Attrs{{"to", std::string(name_of(back))}});
}

Result<std::unique_ptr<Kernel>> make_cast(const KernelSpec& spec) {
  const DType from = spec.inputs[0].dtype;
  const DType to = spec.outputs[0].dtype;
  if (from == to) {
    return make_copy(spec);
  }
  const int64_t n = block_elements(spec.inputs[0], spec.rows);
  return kernel_over_elements(n, [isa = spec.isa, from, to](const KernelCall& call, Range some) {
    convert(isa, from, call.inputs[0].data + some.begin * size_of(from), to,
            call.outputs[0].data + some.begin * size_of(to), some.size());
  });
}

Result<OpShape> infer_fill(std::span<const TensorType> inputs, const Attrs&) {
  return OpShape{{weight_type(inputs[0].dims)}};
}

Result<std::unique_ptr<Kernel>> make_fill(const KernelSpec& spec) {
  return kernel_of([value = static_cast<float>(spec.attrs.real("value")), scaled = spec.attrs.flag("scaled", false),
                    n = block_elements(spec.outputs[0], spec.rows)](const KernelCall& call) {
    std::fill_n(call.outputs[0].as<float>(), n, scaled ? value * call.loss_scale : value);
  });
}

constexpr Op kStopGradient{.def = {.name = "stop_gradient",
                                   .signature = "(x: [N, ...])",
                                   .group = "shape",
                                   .doc = "x, through which no gradient flows back",
                                   .example = "stop_gradient",
                                   .infer = infer_stop,
                                   .shard = "n*->n*"},
                           .cpu = make_copy};

constexpr Op kCast{
    .def = {.name = "cast",
            .signature = "(x: [N, ...], to: str)",
            .group = "shape",
            .doc = "conversion to another element type, rounded to the nearest; mixed precision inserts it",
            .internal = true,
            .infer = infer_cast,
            .is_identity = casts_nothing,
            .grad = grad_cast,
            .shard = "n*->n*"},
    .cpu = make_cast};

constexpr Op kFill{.def = {.name = "fill",
                           .signature = "(x: [N, ...], value: float, scaled: bool = false)",
                           .group = "shape",
                           .doc = "a constant in the shape of x, times the scale of the loss if `scaled`: where "
                                  "differentiation starts",
                           .internal = true,
                           .infer = infer_fill,
                           .shard = "n*->n*"},
                   .cpu = make_fill};

constexpr std::array<const Op*, 3> kOps{&kStopGradient, &kCast, &kFill};

}  // namespace

std::span<const Op* const> cast_ops() { return kOps; }

}  // namespace xrun::ops
