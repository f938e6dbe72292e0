// Convolution and its gradients: y[n, o, i, j] = sum over c, u, v of w[o, c, u, v] · x[n, c, s·i + d·u - p, s·j + d·v -
// p], where x is zero outside of the image, and H' = floor((H + 2p - d(k - 1) - 1) / s) + 1. x is [N, C, H, W], w is
// [out, C / groups, k, k]. Window size k, stride s, padding p and dilation d are one number each, or one for the height
// and one for the width.
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/conv/depthwise_gradient.h"
#include "ops/conv/strided_gradient.h"
#include "ops/conv/winograd.h"
#include "ops/dnn/weight_kernel.h"
#include "ops/dnn/window.h"
#include "ops/initial_values.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

struct ConvArguments {
  int64_t out = 0;
  Extents k{1, 1};
  Extents stride{1, 1};
  Extents pad;
  Extents dilation{1, 1};
  int64_t groups = 1;
  bool bias = false;
};

constexpr Extents kOne{1, 1};
constexpr int64_t kLargestWindow = 4096;

// The padding with which windows of odd size keep the size of an image at stride 1.
Extents half_of(const Extents& k) { return {k.h / 2, k.w / 2}; }

constexpr int64_t kMostChannels = 1 << 20;

ConvArguments conv_arguments(const Attrs& attrs) {
  const Extents k = extents_of(attrs, "k");
  return {.out = attrs.integer("width"),
          .k = k,
          .stride = extents_of(attrs, "stride", kOne),
          .pad = extents_of(attrs, "pad", half_of(k)),
          .dilation = extents_of(attrs, "dilation", kOne),
          .groups = attrs.integer("groups", 1),
          .bias = attrs.flag("bias", false)};
}

ConvArguments dwconv_arguments(const Attrs& attrs, int64_t channels) {
  const Extents k = extents_of(attrs, "k");
  return {.out = channels, .k = k, .stride = extents_of(attrs, "stride", kOne), .pad = half_of(k), .groups = channels};
}

Result<OpShape> infer_conv_like(std::string_view op, const TensorType& x, const ConvArguments& a, const Attrs& attrs) {
  XRUN_TRY(expect_image(op, x));
  const int64_t channels = x.dims[1];
  XRUN_TRY(expect_range(op, "width", a.out, 1, kMostChannels));
  XRUN_TRY(expect_range(op, "k", a.k, 1, kLargestWindow));
  XRUN_TRY(expect_range(op, "stride", a.stride, 1, kLargestWindow));
  XRUN_TRY(expect_range(op, "pad", a.pad, 0, kLargestWindow));
  XRUN_TRY(expect_range(op, "dilation", a.dilation, 1, kLargestWindow));
  XRUN_TRY(expect_range(op, "groups", a.groups, 1, channels));
  if (channels % a.groups != 0 || a.out % a.groups != 0) {
    return shape_error("`" + std::string(op) + "` cannot split " + std::to_string(channels) + " channels of " +
                           to_text(x) + " into " + std::to_string(a.out) + " by groups=" + std::to_string(a.groups),
                       "let `groups` divide both channel counts");
  }
  const dnn::ConvShape s{
      .height = x.dims[2], .width = x.dims[3], .kernel = a.k, .stride = a.stride, .pad = a.pad, .dilation = a.dilation};
  if (s.height + 2 * a.pad.h < s.reach().h || s.width + 2 * a.pad.w < s.reach().w) {
    return shape_error("`" + std::string(op) + "` with a window of " + to_text(s.reach()) + " does not fit " +
                           to_text(x) + " with pad=" + to_text(a.pad),
                       "use a smaller `k` or `dilation`, or more `pad`");
  }
  const int64_t fan_in = channels / a.groups * a.k.area();
  XRUN_ASSIGN(const Init init, init_of(op, attrs, fan_in, a.out / a.groups * a.k.area(), he_normal(fan_in)));
  OpShape shape{{with_dims(x, {kBatch, a.out, s.out_height(), s.out_width()})},
                {param("weight", {a.out, channels / a.groups, a.k.h, a.k.w}, init)}};
  if (a.bias) {
    shape.params.push_back(param("bias", {a.out}));
  }
  return shape;
}

Result<OpShape> infer_conv(std::span<const TensorType> inputs, const Attrs& attrs) {
  return infer_conv_like("conv", inputs[0], conv_arguments(attrs), attrs);
}

Result<OpShape> infer_dwconv(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_TRY(expect_image("dwconv", inputs[0]));
  return infer_conv_like("dwconv", inputs[0], dwconv_arguments(attrs, inputs[0].dims[1]), attrs);
}

// The cost of the forward pass or of one gradient: a multiply-add for each element of y and each weight that it uses.
OpCost cost_with(const TensorType& y, int64_t weights_per_output, std::span<const TensorType> inputs,
                 std::span<const TensorType> outputs) {
  return {.flops = 2.0 * static_cast<double>(y.row_elements()) * static_cast<double>(weights_per_output),
          .bytes = traffic(inputs, outputs)};
}

OpCost conv_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) {
  const int64_t channels = inputs[0].dims[1] / attrs.integer("groups", 1);
  return cost_with(outputs[0], channels * extents_of(attrs, "k").area(), inputs, outputs);
}

OpCost dwconv_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) {
  return cost_with(outputs[0], extents_of(attrs, "k").area(), inputs, outputs);
}

// Inputs: dy, weight.
Result<OpShape> infer_dx(std::span<const TensorType> inputs, const Attrs& attrs) {
  return OpShape{{with_dims(inputs[0], {kBatch, inputs[1].dims[1] * attrs.integer("groups"), attrs.integer("height"),
                                        attrs.integer("width_in")})}};
}

OpCost dx_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return cost_with(inputs[0], inputs[1].row_elements() / inputs[1].dims[0], inputs, outputs);
}

// Inputs: x, dy.
Result<OpShape> infer_dw(std::span<const TensorType> inputs, const Attrs& attrs) {
  const Extents k = extents_of(attrs, "k");
  return OpShape{{weight_type({inputs[1].dims[1], inputs[0].dims[1] / attrs.integer("groups"), k.h, k.w})}};
}

OpCost dw_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return cost_with(inputs[1], outputs[0].row_elements() / outputs[0].dims[0], inputs, outputs);
}

Status grad_with(GradBuilder& builder, const ConvArguments& a) {
  const TensorType x = builder.type(builder.input(0));
  const ValueId dy = builder.output_grad(0);
  const Attrs attrs{
      {"k", to_attr(a.k)},  {"stride", to_attr(a.stride)}, {"pad", to_attr(a.pad)}, {"dilation", to_attr(a.dilation)},
      {"groups", a.groups}, {"height", x.dims[2]},         {"width_in", x.dims[3]}};
  XRUN_TRY(builder.set_grad_by(1, "conv.dw", {builder.input(0), dy}, attrs));
  if (a.bias) {
    XRUN_TRY(builder.set_grad_by(2, "bias.grad", {dy}, Attrs{{"axis", int64_t{1}}}));
  }
  return builder.set_grad_by(0, "conv.dx", {dy, builder.input(1)}, attrs);
}

Status grad_conv(GradBuilder& builder) { return grad_with(builder, conv_arguments(builder.node().attrs)); }
Status grad_dwconv(GradBuilder& builder) {
  return grad_with(builder, dwconv_arguments(builder.node().attrs, builder.type(builder.input(0)).dims[1]));
}

// Returns the shard rule of a convolution. With groups, it is split only between groups: its letter `g` counts groups.
std::string by_groups(const Attrs& attrs, std::string_view dense, std::string_view grouped) {
  return attrs.integer("groups", 1) == 1 ? std::string(dense) : std::string(grouped) + "; groups=g";
}

std::string shard_conv(std::span<const TensorType> inputs, std::span<const TensorType>, const Attrs& attrs) {
  return inputs.size() > 2 ? by_groups(attrs, "ni__,oi__,+o->no__", "ng__,g___,g->ng__")
                           : by_groups(attrs, "ni__,oi__->no__", "ng__,g___->ng__");
}

std::string shard_dx(std::span<const TensorType>, std::span<const TensorType>, const Attrs& attrs) {
  return by_groups(attrs, "no__,oi__->ni__", "ng__,g___->ng__");
}

std::string shard_dw(std::span<const TensorType>, std::span<const TensorType>, const Attrs& attrs) {
  return by_groups(attrs, "ni__,no__->oi__", "ng__,ng__->g___");
}

dnn::ConvShape shape_of(const KernelSpec& spec, const TensorType& x, int64_t out, const ConvArguments& a) {
  return {.rows = rows_of_call(spec),
          .channels = x.dims[1],
          .height = x.dims[2],
          .width = x.dims[3],
          .out_channels = out,
          .kernel = a.k,
          .stride = a.stride,
          .pad = a.pad,
          .dilation = a.dilation,
          .groups = a.groups,
          .dtype = compute_dtype(spec),
          .bias = a.bias};
}

// Reads the arguments of a backward operator: all arguments of the convolution except the widths, which follow from its
// operands.
ConvArguments backward_arguments(const Attrs& attrs) {
  return {.k = extents_of(attrs, "k"),
          .stride = extents_of(attrs, "stride"),
          .pad = extents_of(attrs, "pad"),
          .dilation = extents_of(attrs, "dilation"),
          .groups = attrs.integer("groups")};
}

Result<std::unique_ptr<Kernel>> make_conv(const KernelSpec& spec) {
  const dnn::ConvShape shape = shape_of(spec, spec.inputs[0], spec.outputs[0].dims[1], conv_arguments(spec.attrs));
  return takes_winograd(spec, shape) ? make_winograd(spec, shape) : make_apply_weight(spec, dnn::conv_forward(shape));
}

Result<std::unique_ptr<Kernel>> make_dwconv(const KernelSpec& spec) {
  const TensorType& x = spec.inputs[0];
  return make_apply_weight(spec,
                           dnn::conv_forward(shape_of(spec, x, x.dims[1], dwconv_arguments(spec.attrs, x.dims[1]))));
}

Result<std::unique_ptr<Kernel>> make_dx(const KernelSpec& spec) {
  const dnn::ConvShape shape = shape_of(spec, spec.outputs[0], spec.inputs[0].dims[1], backward_arguments(spec.attrs));
  return takes_winograd(spec, shape) ? make_winograd_dx(spec, shape)
                                     : make_apply_weight(spec, dnn::conv_backward_data(shape));
}

// Whether the weight gradient is computed like the gradient of a dense layer whose rows are the pixels. This is done on
// AMX, where oneDNN's code for 1 x 1 convolutions is up to nine times slower (docs/reference/benchmarks.md).
bool is_dense_gradient(const KernelSpec& spec, const dnn::ConvShape& s) {
  const bool one_pixel = s.kernel.area() == 1 && s.stride == kOne && s.pad == Extents{} && s.groups == 1;
  return one_pixel && s.dtype == DType::kBF16 && spec.isa >= Isa::kAmx;
}

Result<std::unique_ptr<Kernel>> make_dw_for(const KernelSpec& spec, const dnn::ConvShape& shape) {
  if (takes_winograd(spec, shape)) {
    return make_winograd_dw(spec, shape);
  }
  if (is_dense_gradient(spec, shape)) {
    return make_weight_gradient(spec, [shape](int64_t outputs) {
      return dnn::linear_backward_weights({.rows = shape.rows * shape.height * shape.width,
                                           .in = shape.channels,
                                           .out = outputs,
                                           .dtype = shape.dtype});
    });
  }
  return make_weight_gradient(spec, [some = shape](int64_t outputs) mutable {
    some.out_channels = outputs;
    return dnn::conv_backward_weights(some);
  });
}

Result<std::unique_ptr<Kernel>> make_dw(const KernelSpec& spec) {
  const dnn::ConvShape shape = shape_of(spec, spec.inputs[0], spec.inputs[1].dims[1], backward_arguments(spec.attrs));
  if (takes_depthwise_gradient(shape)) {
    return make_depthwise_gradient(spec, shape);
  }
  return dnn::overruns_workspace(shape) ? make_strided_gradient(spec, shape, make_dw_for) : make_dw_for(spec, shape);
}

// Whether the leading numbers mean (channels, width, k) and not (width, k, stride), because numbers[1] would be too
// large for the size of a window.
bool begins_with_channels(const TensorType& x, std::span<const int64_t> numbers) {
  return numbers.size() > 2 && numbers[0] == x.dims[1] && numbers[2] < numbers[1] &&
         ((numbers[1] >= 6 && numbers[1] % 2 == 0) || numbers[1] > 16);
}

}  // namespace

constinit const Op kConv{
    .def = {.name = "conv",
            .signature =
                "(x: [N, C, H, W], width: int, k: pair = 1, stride: pair = 1, pad: pair = k // 2, dilation: pair = 1, "
                "groups: int = 1, bias: bool = false, init: init = none)",
            .group = "convolution",
            .doc = "convolution with k x k windows; H becomes floor((H + 2 pad - dilation (k - 1) - 1) / stride) + 1",
            .example = "conv(64, 3, stride=2)",
            .aliases = "conv2d convolution convolution2d in_channels= out_channels=width filters=width kernel_size=k "
                       "strides=stride padding=pad dilation_rate=dilation use_bias=bias",
            .precision = PrecisionRule::kNarrow,
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_conv,
            .cost = conv_cost,
            .begins_with_size = begins_with_channels,
            .grad = grad_conv,
            .shard_of = shard_conv},
    .cpu = make_conv};

constinit const Op kDwconv{.def = {.name = "dwconv",
                                   .signature = "(x: [N, C, H, W], k: pair, stride: pair = 1, init: init = none)",
                                   .group = "convolution",
                                   .doc = "convolution of each channel by its own k x k window; pad is k // 2",
                                   .example = "dwconv(3, stride=2)",
                                   .aliases = "depthwise_conv depthwise_conv2d kernel_size=k strides=stride",
                                   .precision = PrecisionRule::kNarrow,
                                   .layout = LayoutRule::kChannelsLast,
                                   .infer = infer_dwconv,
                                   .cost = dwconv_cost,
                                   .grad = grad_dwconv,
                                   .shard = "nc__,c___->nc__"},
                           .cpu = make_dwconv};

constinit const Op kConvDx{.def = {.name = "conv.dx",
                                   .signature = "(dy: [N, O, H, W], weight: [O, C, K, K])",
                                   .group = "convolution",
                                   .doc = "gradient of a convolution's input",
                                   .precision = PrecisionRule::kNarrow,
                                   .layout = LayoutRule::kChannelsLast,
                                   .infer = infer_dx,
                                   .cost = dx_cost,
                                   .shard_of = shard_dx},
                           .cpu = make_dx};

constinit const Op kConvDw{.def = {.name = "conv.dw",
                                   .signature = "(x: [N, C, H, W], dy: [N, O, I, J])",
                                   .group = "convolution",
                                   .doc = "gradient of a convolution's weight, summed over the samples",
                                   .rows = RowProperty::kReduces,
                                   .precision = PrecisionRule::kNarrow,
                                   .layout = LayoutRule::kChannelsLast,
                                   .infer = infer_dw,
                                   .cost = dw_cost,
                                   .shard_of = shard_dw},
                           .cpu = make_dw};

}  // namespace xrun::ops
