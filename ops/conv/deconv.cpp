// Transposed convolution: y is the input gradient of the convolution whose input has the size of y and whose output
// gradient is x. So y is conv.dx of x, dx is the convolution of dy, and dw is conv.dw of dy and x. y[n, o, s·i + u - p,
// s·j + v - p] sums w[c, o, u, v] · x[n, c, i, j]; H' = (H - 1) s - 2 p + k. x is [N, C, H, W], w is [C, out, k, k].
// Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.
// Tests: tests/ops/conformance_test.cpp
#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/dnn/window.h"
#include "ops/initial_values.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

Result<OpShape> infer_deconv(Types in, const Attrs& attrs) {
  const TensorType& x = in[0];
  XRUN_TRY(expect_image("deconv", x));
  const Extents k = extents_of(attrs, "k");
  const Extents stride = extents_of(attrs, "stride");
  const Extents pad = extents_of(attrs, "pad");
  const int64_t out = attrs.integer("width");
  XRUN_TRY(expect_range("deconv", "width", out, 1, 1 << 20));
  XRUN_TRY(expect_range("deconv", "k", k, 1, 4096));
  XRUN_TRY(expect_range("deconv", "stride", stride, 1, 4096));
  XRUN_TRY(expect_range("deconv", "pad", pad, 0, Extents{k.h - 1, k.w - 1}));
  const int64_t height = (x.dims[2] - 1) * stride.h - 2 * pad.h + k.h;
  const int64_t width = (x.dims[3] - 1) * stride.w - 2 * pad.w + k.w;
  if (height < 1 || width < 1) {
    return shape_error("`deconv` with k=" + to_text(k) + " leaves nothing of " + to_text(x),
                       "make `k` larger or `pad` smaller");
  }
  const int64_t fan_in = x.dims[1] * k.area();
  XRUN_ASSIGN(const Init init, init_of("deconv", attrs, fan_in, out * k.area(), he_normal(fan_in)));
  std::vector<ParamDecl> params{param("weight", {x.dims[1], out, k.h, k.w}, init)};
  if (attrs.flag("bias")) {
    params.push_back(param("bias", {out}));
  }
  return OpShape{{with_dims(x, {kBatch, out, height, width})}, std::move(params)};
}

// Inputs: dy, weight.
Result<OpShape> infer_dx(Types in, const Attrs& attrs) {
  return OpShape{{with_dims(in[0], {kBatch, in[1].dims[0], attrs.integer("height"), attrs.integer("width_in")})}};
}

OpCost cost_with(const TensorType& small, const TensorType& large, const Extents& k, Types in, Types out) {
  return {.flops = 2.0 * static_cast<double>(small.row_elements()) * static_cast<double>(large.dims[1] * k.area()),
          .bytes = traffic(in, out)};
}

OpCost deconv_cost(Types in, Types out, const Attrs& attrs) {
  return cost_with(in[0], out[0], extents_of(attrs, "k"), in, out);
}

OpCost dx_cost(Types in, Types out, const Attrs& attrs) {
  return cost_with(out[0], in[0], extents_of(attrs, "k"), in, out);
}

// Returns the attributes of the convolution that a deconv transposes. `image` is the input of that convolution, `width`
// the number of its output channels.
Attrs conv_attrs(const Attrs& attrs, const TensorType& image, int64_t width) {
  return {
      {"k", *attrs.find("k")}, {"stride", *attrs.find("stride")}, {"pad", *attrs.find("pad")}, {"dilation", int64_t{1}},
      {"groups", int64_t{1}},  {"height", image.dims[2]},         {"width_in", image.dims[3]}, {"width", width},
      {"bias", false}};
}

Status grad_deconv(GradBuilder& builder) {
  const Attrs attrs = builder.node().attrs;
  const TensorType x = builder.type(builder.input(0));
  const ValueId dy = builder.output_grad(0);
  XRUN_TRY(builder.set_grad_by(1, "conv.dw", {dy, builder.input(0)}, conv_attrs(attrs, builder.type(dy), x.dims[1])));
  if (attrs.flag("bias")) {
    XRUN_TRY(builder.set_grad_by(2, "bias.grad", {dy}, Attrs{{"axis", int64_t{1}}}));
  }
  Attrs of_dx = attrs;
  of_dx.set("height", x.dims[2]);
  of_dx.set("width_in", x.dims[3]);
  return builder.set_grad_by(0, "deconv.dx", {dy, builder.input(1)}, std::move(of_dx));
}

std::string shard_deconv(Types in, Types, const Attrs&) {
  return in.size() > 2 ? "ni__,io__,+o->no__" : "ni__,io__->no__";
}

template <typename T>
struct AddBiasBody {
  template <class L>
  XRUN_INLINE static void run(const float* bias, T* y, int64_t positions, int64_t channels) {
    for (int64_t p = 0; p < positions; ++p, y += channels) {
      for (int64_t c = 0; c < channels; c += kLanes) {
        store_upto(y + c, load_upto<L>(y + c, channels - c) + load_upto<L>(bias + c, channels - c), channels - c);
      }
    }
  }
};

// Computes the transposed convolution in a first phase. A second phase, whose parts are rows, adds the bias.
template <typename T>
class Biased final : public Kernel {
 public:
  Biased(const KernelSpec& spec, std::unique_ptr<Kernel> product)
      : isa_(spec.isa), rows_(spec.rows), y_(spec.outputs[0]), product_(std::move(product)) {}

  int64_t parts() const override { return product_->parts(); }
  int phases() const override { return product_->phases() + 1; }
  double work() const override { return product_->work(); }
  Bytes scratch_bytes() const override { return product_->scratch_bytes(); }
  Bytes prepared_bytes(int input) const override { return input == 1 ? product_->prepared_bytes(1) : 0; }
  Status prepare(int input, const TensorView& plain, std::byte* prepared, std::byte* scratch) const override {
    return product_->prepare(input, plain, prepared, scratch);
  }

  Status run(const KernelCall& call) const override {
    if (call.phase == kAllPhases || call.phase < product_->phases()) {
      KernelCall product = call;
      product.inputs = call.inputs.first(2);
      XRUN_TRY(product_->run(product));
    }
    if (call.phase == kAllPhases || call.phase == product_->phases()) {
      const Range some = part_of(call, rows_);
      const int64_t channels = y_.dims[1];
      run_for<AddBiasBody<T>>(isa_, call.inputs[2].as<const float>(),
                              call.outputs[0].as<T>() + some.begin * y_.row_elements(),
                              some.size() * y_.row_elements() / channels, channels);
    }
    return {};
  }

 private:
  Isa isa_;
  int64_t rows_;
  TensorType y_;
  std::unique_ptr<Kernel> product_;
};

Result<std::unique_ptr<Kernel>> make_deconv(const KernelSpec& spec) {
  KernelSpec product = spec;
  product.inputs.resize(2);
  product.attrs = conv_attrs(spec.attrs, spec.outputs[0], spec.inputs[0].dims[1]);
  XRUN_ASSIGN(std::unique_ptr<Kernel> made, kConvDx.cpu(product));
  if (spec.inputs.size() == 2) {
    return made;
  }
  return with_type(spec.inputs[0].dtype, [&](auto number) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<Biased<decltype(number)>>(spec, std::move(made)));
  });
}

Result<std::unique_ptr<Kernel>> make_dx(const KernelSpec& spec) {
  KernelSpec conv = spec;
  conv.attrs = conv_attrs(spec.attrs, spec.inputs[0], spec.outputs[0].dims[1]);
  return kConv.cpu(conv);
}

}  // namespace

constinit const Op kDeconv{
    .def = {.name = "deconv",
            .signature = "(x: [N, C, H, W], width: int, k: pair, stride: pair = 1, pad: pair = 0, bias: bool = false, "
                         "init: init = none)",
            .group = "convolution",
            .doc = "transposed convolution; H becomes (H - 1) stride - 2 pad + k",
            .example = "deconv(64, 2, stride=2)",
            .aliases = "conv_transpose conv_transpose2d conv2d_transpose kernel_size=k padding=pad in_channels=",
            .precision = PrecisionRule::kNarrow,
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_deconv,
            .cost = deconv_cost,
            .grad = grad_deconv,
            .shard_of = shard_deconv},
    .cpu = make_deconv};

constinit const Op kDeconvDx{.def = {.name = "deconv.dx",
                                     .signature = "(dy: [N, O, H, W], weight: [C, O, K, K])",
                                     .group = "convolution",
                                     .doc = "gradient of a transposed convolution's input",
                                     .precision = PrecisionRule::kNarrow,
                                     .layout = LayoutRule::kChannelsLast,
                                     .infer = infer_dx,
                                     .cost = dx_cost,
                                     .shard = "no__,io__->ni__"},
                             .cpu = make_dx};

}  // namespace xrun::ops
