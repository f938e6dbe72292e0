// Every function that makes a primitive describes activations in the project's layout, leaves the layout of the weight
// to oneDNN (format `any`), and takes oneDNN's first implementation that is not a reference loop (settle). `finish`
// also records the forms that oneDNN chose; pack_weight and unpack_weight_add convert between them and the declared
// layout.
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include <array>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "graph/base/check.h"
#include "ops/dnn/dnn.h"
#include "ops/dnn/primitive_impl.h"

namespace xrun::ops::dnn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

Type type_of(DType dtype) { return dtype == DType::kBF16 ? Type::bf16 : Type::f32; }

struct ConvDescs {
  Desc x, y, weight_any, weight_plain, dweight_any, bias;
  dnnl::memory::dims strides, dilates, pads;
};

ConvDescs descs_of(const ConvShape& s) {
  const Type type = type_of(s.dtype);
  const bool grouped = s.groups > 1;
  const dnnl::memory::dims weight =
      grouped ? dnnl::memory::dims{s.groups, s.out_channels / s.groups, s.channels / s.groups, s.kernel.h, s.kernel.w}
              : dnnl::memory::dims{s.out_channels, s.channels, s.kernel.h, s.kernel.w};
  ConvDescs d;
  d.x = Desc({s.rows, s.channels, s.height, s.width}, type, Tag::nhwc);
  d.y = Desc({s.rows, s.out_channels, s.out_height(), s.out_width()}, type, Tag::nhwc);
  d.weight_any = Desc(weight, type, Tag::any);
  d.dweight_any = Desc(weight, Type::f32, Tag::any);
  d.weight_plain = Desc(weight, Type::f32, grouped ? Tag::goihw : Tag::oihw);
  d.bias = Desc({s.out_channels}, Type::f32, Tag::a);
  d.strides = {s.stride.h, s.stride.w};
  d.dilates = {s.dilation.h - 1, s.dilation.w - 1};
  d.pads = {s.pad.h, s.pad.w};
  return d;
}

dnnl::convolution_forward::primitive_desc conv_desc(const dnnl::engine& engine, const ConvDescs& d, bool bias) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  if (bias) {
    return {{kKind, kAlgorithm, d.x, d.weight_any, d.bias, d.y, d.strides, d.dilates, d.pads, d.pads},
            user_scratch(),
            engine};
  }
  return {{kKind, kAlgorithm, d.x, d.weight_any, d.y, d.strides, d.dilates, d.pads, d.pads}, user_scratch(), engine};
}

struct LinearDescs {
  Desc x, y, weight_any, weight_plain, dweight_any, bias;
};

LinearDescs descs_of(const LinearShape& s) {
  const Type type = type_of(s.dtype);
  return {.x = Desc({s.rows, s.in}, type, Tag::ab),
          .y = Desc({s.rows, s.out}, type, Tag::ab),
          .weight_any = Desc({s.out, s.in}, type, Tag::any),
          .weight_plain = Desc({s.out, s.in}, Type::f32, Tag::ab),
          .dweight_any = Desc({s.out, s.in}, Type::f32, Tag::any),
          .bias = Desc({s.out}, Type::f32, Tag::a)};
}

dnnl::inner_product_forward::primitive_desc linear_desc(const dnnl::engine& engine, const LinearDescs& d, bool bias) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  if (bias) {
    return {{kKind, d.x, d.weight_any, d.bias, d.y}, user_scratch(), engine};
  }
  return {{kKind, d.x, d.weight_any, d.y}, user_scratch(), engine};
}

template <typename Made, typename PrimitiveDesc>
std::unique_ptr<Primitive::Impl> finish_forward(const dnnl::engine& engine, PrimitiveDesc desc, const Desc& plain,
                                                bool bias) {
  if (!settle(desc)) {
    return nullptr;
  }
  return bias ? finish<Made>(engine, desc, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST}, 1, plain)
              : finish<Made>(engine, desc, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, 1, plain);
}

template <typename Made, typename PrimitiveDesc>
std::unique_ptr<Primitive::Impl> finish_backward_data(const dnnl::engine& engine, PrimitiveDesc desc,
                                                      const Desc& plain) {
  return settle(desc) ? finish<Made>(engine, desc, {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}, 1, plain)
                      : nullptr;
}

template <typename Made, typename PrimitiveDesc>
std::unique_ptr<Primitive::Impl> finish_backward_weights(const dnnl::engine& engine, PrimitiveDesc desc,
                                                         const Desc& plain) {
  return settle(desc) ? finish<Made>(engine, desc, {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, 2, plain)
                      : nullptr;
}

std::unique_ptr<Primitive::Impl> finish_reorder(const Primitive::Impl& user, const Desc& from, const Desc& to,
                                                bool add) {
  dnnl::primitive_attr attr = user_scratch();
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attr.set_post_ops(sum);
  }
  const dnnl::reorder::primitive_desc desc(user.engine, from, user.engine, to, attr);
  return finish<dnnl::reorder>(user.engine, desc, {DNNL_ARG_FROM, DNNL_ARG_TO});
}

std::vector<int64_t> dims_of(const ConvShape& s) {
  return {s.rows,     s.channels, s.height, s.width,      s.out_channels, s.kernel.h,     s.kernel.w,   s.stride.h,
          s.stride.w, s.pad.h,    s.pad.w,  s.dilation.h, s.dilation.w,   s.out_height(), s.out_width()};
}

std::vector<int64_t> dims_of(const LinearShape& s) { return {s.rows, s.in, s.out}; }

}  // namespace

Result<Primitive> conv_forward(const ConvShape& shape) {
  return guard("a convolution", dims_of(shape), [&](const dnnl::engine& engine) {
    const ConvDescs d = descs_of(shape);
    auto desc = conv_desc(engine, d, shape.bias);
    return finish_forward<dnnl::convolution_forward>(engine, std::move(desc), d.weight_plain, shape.bias);
  });
}

Result<Primitive> conv_backward_data(const ConvShape& shape) {
  return guard("the backward of a convolution", dims_of(shape), [&](const dnnl::engine& engine) {
    const ConvDescs d = descs_of(shape);
    dnnl::convolution_backward_data::primitive_desc desc(
        {dnnl::algorithm::convolution_direct, d.x, d.weight_any, d.y, d.strides, d.dilates, d.pads, d.pads},
        user_scratch(), engine, conv_desc(engine, d, false));
    return finish_backward_data<dnnl::convolution_backward_data>(engine, std::move(desc), d.weight_plain);
  });
}

bool overruns_workspace(const ConvShape& shape) {
  constexpr int64_t kLargestBlock = 16;
  const bool strided = shape.stride.h > 1 || shape.stride.w > 1;
  return strided && shape.kernel.area() == 1 && shape.pad == Extents{} && shape.channels / shape.groups < kLargestBlock;
}

Result<Primitive> conv_backward_weights(const ConvShape& shape) {
  XRUN_CHECK(!overruns_workspace(shape), "a weight gradient that oneDNN computes beyond its workspace");
  return guard("the weight gradient of a convolution", dims_of(shape), [&](const dnnl::engine& engine) {
    const ConvDescs d = descs_of(shape);
    dnnl::convolution_backward_weights::primitive_desc desc(
        {dnnl::algorithm::convolution_direct, d.x, d.dweight_any, d.y, d.strides, d.dilates, d.pads, d.pads},
        user_scratch(), engine, conv_desc(engine, d, false));
    return finish_backward_weights<dnnl::convolution_backward_weights>(engine, std::move(desc), d.weight_plain);
  });
}

Result<Primitive> linear_forward(const LinearShape& shape) {
  return guard("a dense layer", dims_of(shape), [&](const dnnl::engine& engine) {
    const LinearDescs d = descs_of(shape);
    return finish_forward<dnnl::inner_product_forward>(engine, linear_desc(engine, d, shape.bias), d.weight_plain,
                                                       shape.bias);
  });
}

Result<Primitive> linear_backward_data(const LinearShape& shape) {
  return guard("the backward of a dense layer", dims_of(shape), [&](const dnnl::engine& engine) {
    const LinearDescs d = descs_of(shape);
    dnnl::inner_product_backward_data::primitive_desc desc({d.x, d.weight_any, d.y}, user_scratch(), engine,
                                                           linear_desc(engine, d, false));
    return finish_backward_data<dnnl::inner_product_backward_data>(engine, std::move(desc), d.weight_plain);
  });
}

Result<Primitive> linear_backward_weights(const LinearShape& shape) {
  return guard("the weight gradient of a dense layer", dims_of(shape), [&](const dnnl::engine& engine) {
    const LinearDescs d = descs_of(shape);
    dnnl::inner_product_backward_weights::primitive_desc desc({d.x, d.dweight_any, d.y}, user_scratch(), engine,
                                                              linear_desc(engine, d, false));
    return finish_backward_weights<dnnl::inner_product_backward_weights>(engine, std::move(desc), d.weight_plain);
  });
}

Result<Primitive> matmul(const MatmulShape& s) {
  return guard("a matrix product", {s.batch, s.rows, s.inner, s.columns},
               [&](const dnnl::engine& engine) -> std::unique_ptr<Primitive::Impl> {
                 const auto desc_of = [&](int64_t rows, int64_t columns, const std::array<int64_t, 3>& strides) {
                   return Desc({s.batch, rows, columns}, Type::f32, dnnl::memory::dims(strides.begin(), strides.end()));
                 };
                 dnnl::matmul::primitive_desc desc(
                     {desc_of(s.rows, s.inner, s.a), desc_of(s.inner, s.columns, s.b), desc_of(s.rows, s.columns, s.c)},
                     user_scratch(), engine);
                 return settle(desc)
                            ? finish<dnnl::matmul>(engine, desc, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST})
                            : nullptr;
               });
}

Result<Primitive> pack_weight(const Primitive& user, int argument) {
  const Primitive::Impl& impl = user.impl();
  const auto i = static_cast<size_t>(argument);
  return guard("a weight layout", {},
               [&](const dnnl::engine&) { return finish_reorder(impl, impl.plain[i], impl.forms[i], false); });
}

Result<Primitive> unpack_weight_add(const Primitive& user, int argument) {
  const Primitive::Impl& impl = user.impl();
  const auto i = static_cast<size_t>(argument);
  return guard("a weight layout", {},
               [&](const dnnl::engine&) { return finish_reorder(impl, impl.forms[i], impl.plain[i], true); });
}

}  // namespace xrun::ops::dnn
