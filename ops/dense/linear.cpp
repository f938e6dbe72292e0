// The dense layer on the last dimension, y[.., o] = sum over i of w[o, i] · x[.., i] + b[o], and its gradients.
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/dnn/weight_kernel.h"
#include "ops/initial_values.h"
#include "ops/loops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_linear(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("linear", x));
  if (x.rank() < 2) {
    return rank_error("linear", "features [N, D] or a sequence [N, T, D]", x, kOneNumber);
  }
  const int64_t in = x.dims.back();
  const int64_t out = attrs.integer("out");
  XRUN_TRY(expect_range("linear", "out", out, 1, int64_t{1} << 32));
  XRUN_ASSIGN(const Init init, init_of("linear", attrs, in, out, he_normal(in)));
  OpShape shape{{with_dims(x, x.dims)}, {param("weight", {out, in}, init)}};
  shape.outputs[0].dims.back() = out;
  if (attrs.flag("bias", true)) {
    shape.params.push_back(param("bias", {out}));
  }
  return shape;
}

OpCost cost_of(int64_t in, int64_t out, const TensorType& x, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) {
  const int64_t positions = x.row_elements() / x.dims.back();
  return {.flops = 2.0 * static_cast<double>(positions) * static_cast<double>(in) * static_cast<double>(out),
          .bytes = traffic(inputs, outputs)};
}

OpCost linear_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return cost_of(inputs[0].dims.back(), outputs[0].dims.back(), inputs[0], inputs, outputs);
}

OpCost dw_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return cost_of(inputs[0].dims.back(), inputs[1].dims.back(), inputs[0], inputs, outputs);
}

// Inputs: dy, weight [out, in].
Result<OpShape> infer_dx(std::span<const TensorType> inputs, const Attrs&) {
  OpShape shape{{with_dims(inputs[0], inputs[0].dims)}};
  shape.outputs[0].dims.back() = inputs[1].dims[1];
  return shape;
}

// Inputs: x, dy.
Result<OpShape> infer_dw(std::span<const TensorType> inputs, const Attrs&) {
  return OpShape{{weight_type({inputs[1].dims.back(), inputs[0].dims.back()})}};
}

// Whether channels are dimension 1, as in an image with the attribute `axis`. Otherwise they are the last dimension. In
// memory they come last in both cases.
bool is_of_image(const Attrs& attrs) { return attrs.integer("axis", -1) == 1; }
int64_t channels_of(const TensorType& x, const Attrs& attrs) { return is_of_image(attrs) ? x.dims[1] : x.dims.back(); }

Result<OpShape> infer_bias_grad(std::span<const TensorType> inputs, const Attrs& attrs) {
  return OpShape{{weight_type({channels_of(inputs[0], attrs)})}};
}

std::string shard_linear(std::span<const TensorType> inputs, std::span<const TensorType>, const Attrs&) {
  return inputs.size() > 2 ? "n*i,oi,+o->n*o" : "n*i,oi->n*o";
}

LayoutRule layout_of_bias_grad(std::span<const TensorType>, const Attrs& attrs) {
  return is_of_image(attrs) ? LayoutRule::kChannelsLast : LayoutRule::kRowMajor;
}

std::string shard_bias_grad(std::span<const TensorType>, std::span<const TensorType>, const Attrs& attrs) {
  return is_of_image(attrs) ? "nc*->c" : "n*c->c";
}

Status grad_linear(GradBuilder& builder) {
  const ValueId dy = builder.output_grad(0);
  XRUN_TRY(builder.set_grad_by(1, "linear.dw", {builder.input(0), dy}));
  if (builder.input_count() > 2) {
    XRUN_TRY(builder.set_grad_by(2, "bias.grad", {dy}));
  }
  return builder.set_grad_by(0, "linear.dx", {dy, builder.input(1)});
}

dnn::LinearShape shape_of(const KernelSpec& spec, const TensorType& x, int64_t out, bool bias) {
  return {.rows = rows_of_call(spec) * (x.row_elements() / x.dims.back()),
          .in = x.dims.back(),
          .out = out,
          .dtype = compute_dtype(spec),
          .bias = bias};
}

Result<std::unique_ptr<Kernel>> make_linear(const KernelSpec& spec) {
  return make_apply_weight(
      spec, dnn::linear_forward(shape_of(spec, spec.inputs[0], spec.outputs[0].dims.back(), spec.inputs.size() > 2)));
}

Result<std::unique_ptr<Kernel>> make_dx(const KernelSpec& spec) {
  return make_apply_weight(
      spec, dnn::linear_backward_data(shape_of(spec, spec.outputs[0], spec.inputs[0].dims.back(), false)));
}

Result<std::unique_ptr<Kernel>> make_dw(const KernelSpec& spec) {
  return make_weight_gradient(spec, [&](int64_t outputs) {
    return dnn::linear_backward_weights(shape_of(spec, spec.inputs[0], outputs, false));
  });
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_bias_grad(const KernelSpec& spec) {
  const int64_t channels = channels_of(spec.inputs[0], spec.attrs);
  const int64_t rows = block_elements(spec.inputs[0], spec.rows) / channels;
  return kernel_over(channels, kColumnRun<T>, [isa = spec.isa, rows, channels](const KernelCall& call, Range some) {
    add_column_sums(isa, call.inputs[0].as<T>(), rows, channels, some, call.outputs[0].as<float>());
  });
}

}  // namespace

constinit const Op kLinear{
    .def = {.name = "linear",
            .signature = "(x: [N, ..., D], out: int, bias: bool = true, init: init = none)",
            .group = "dense",
            .doc = "dense layer on the last dimension",
            .example = "linear(256)",
            .aliases = "dense fc fully_connected in_features= out_features=out units=out use_bias=bias",
            .precision = PrecisionRule::kNarrow,
            .layout = LayoutRule::kRowMajor,
            .infer = infer_linear,
            .cost = linear_cost,
            // `bias` is a bool, so two leading numbers mean (in, out), as in PyTorch.
            .begins_with_size = [](const TensorType&, std::span<const int64_t> numbers) { return numbers.size() > 1; },
            .grad = grad_linear,
            .shard_of = shard_linear},
    .cpu = make_linear};

constinit const Op kLinearDx{
    .def = {.name = "linear.dx",
            .signature = "(dy: [N, ..., O], weight: [O, D])",
            .group = "dense",
            .doc = "gradient of a dense layer's input",
            .precision = PrecisionRule::kNarrow,
            .layout = LayoutRule::kRowMajor,
            .infer = infer_dx,
            .cost = [](std::span<const TensorType> in, std::span<const TensorType> out,
                       const Attrs&) { return cost_of(in[1].dims[1], in[1].dims[0], in[0], in, out); },
            .shard = "n*o,oi->n*i"},
    .cpu = make_dx};

constinit const Op kLinearDw{.def = {.name = "linear.dw",
                                     .signature = "(x: [N, ..., D], dy: [N, ..., O])",
                                     .group = "dense",
                                     .doc = "gradient of a dense layer's weight, summed over the samples",
                                     .rows = RowProperty::kReduces,
                                     .precision = PrecisionRule::kNarrow,
                                     .layout = LayoutRule::kRowMajor,
                                     .infer = infer_dw,
                                     .cost = dw_cost,
                                     .shard = "n*i,n*o->oi"},
                             .cpu = make_dw};

constinit const Op kBiasGrad{.def = {.name = "bias.grad",
                                     .signature = "(dy: [N, ...])",
                                     .group = "dense",
                                     .doc = "sum over samples and positions, channel by channel",
                                     .rows = RowProperty::kReduces,
                                     .infer = infer_bias_grad,
                                     .layout_of = layout_of_bias_grad,
                                     .shard_of = shard_bias_grad},
                             .cpu = by_dtype<make_bias_grad<float>, make_bias_grad<Bf16>, make_bias_grad<Half>>};

}  // namespace xrun::ops
