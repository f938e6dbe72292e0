// Every function that makes a primitive describes activations in the project's layout, leaves the layout of the weight
// to oneDNN (format `any`), and takes oneDNN's first implementation that is not a reference loop (settle). Primitives
// are made and run with one OpenMP thread, so that results do not depend on the number of threads, and use scratch of
// the caller, so that steps allocate nothing. `finish` also records the forms that oneDNN chose; pack_weight and
// unpack_weight_add convert between them and the declared layout.
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include "ops/dnn/dnn.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <mutex>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/check.h"
#include "graph/base/units.h"
#include "ops/simd/isa.h"

namespace xrun::ops::dnn {

struct Primitive::Impl {
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::primitive primitive;
  std::vector<int> slots;                 // DNNL_ARG_ number of each argument
  std::vector<dnnl::memory::desc> forms;  // form of each argument
  std::vector<dnnl::memory::desc> plain;  // f32 weights as declared; empty descriptors for all other arguments
  dnnl::memory::desc scratch;
  std::string implementation;
};

namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

constexpr size_t kMostArguments = 4;

Type type_of(DType dtype) { return dtype == DType::kBF16 ? Type::bf16 : Type::f32; }

dnnl::cpu_isa limit_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return dnnl::cpu_isa::avx2;
    case Isa::kAvx512:
      return dnnl::cpu_isa::avx512_core;
    case Isa::kAvx512Bf16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case Isa::kAmx:
      return dnnl::cpu_isa::avx512_core_amx;
  }
  return dnnl::cpu_isa::avx2;
}

// Limits oneDNN's instruction set to that of detect_isa. oneDNN reads its limit once per process, before its first
// primitive, so later calls have no effect.
void limit_isa() {
  static std::once_flag once;
  std::call_once(once, [] { dnnl::set_max_cpu_isa(limit_of(detect_isa())); });
}

// Makes oneDNN use one thread. A primitive divides its work by the number of OpenMP threads at its creation; with
// several threads it would run on others than the planned workers.
void hold_one_thread() {
  omp_set_num_threads(1);
  XRUN_CHECK(omp_get_max_threads() == 1, "oneDNN runs with one OpenMP thread");
}

Error dnn_error(std::string_view what, std::string_view why) {
  return Error{ErrorKind::kWorld, "XG0806", "oneDNN cannot make " + std::string(what) + ": " + std::string(why),
               "this processor lacks the instruction set for it; `precision = f32` and XRUN_ISA=avx512 need less"};
}

bool is_reference(std::string_view name) { return name.find("ref") != std::string_view::npos; }

// Advances to the first implementation that is not a reference loop; returns whether there is one. The order of
// implementations in oneDNN depends only on shape and instruction set.
template <typename PrimitiveDesc>
bool settle(PrimitiveDesc& desc) {
  while (is_reference(desc.impl_info_str())) {
    if (!desc.next_impl()) {
      return false;
    }
  }
  return true;
}

dnnl::primitive_attr user_scratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// Makes a call whose arguments are those of `slots`. slots[weight] is a weight that is declared with the layout
// `plain`.
template <typename Made, typename PrimitiveDesc>
std::unique_ptr<Primitive::Impl> finish(const dnnl::engine& engine, const PrimitiveDesc& desc, std::vector<int> slots,
                                        size_t weight = 0, const Desc& plain = {}) {
  auto impl = std::make_unique<Primitive::Impl>();
  impl->engine = engine;
  impl->stream = dnnl::stream(engine);
  impl->primitive = Made(desc);
  impl->scratch = desc.scratchpad_desc();
  impl->implementation = desc.impl_info_str();
  impl->slots = std::move(slots);
  for (const int slot : impl->slots) {
    impl->forms.push_back(desc.query_md(dnnl::query::exec_arg_md, slot));
  }
  impl->plain.resize(impl->slots.size());
  impl->plain[weight] = plain;
  return impl;
}

// Calls `make` and turns its failures into errors: it may throw, or return null if there is only a reference
// implementation. Also rejects `dims` that do not fit into 32 bits, because oneDNN truncates them and then divides by
// them.
Result<Primitive> guard(std::string_view what, const std::vector<int64_t>& dims,
                        const std::function<std::unique_ptr<Primitive::Impl>(const dnnl::engine&)>& make) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (const int64_t largest = dims.empty() ? 0 : *std::ranges::max_element(dims); largest > kMost) {
    return Error{ErrorKind::kContent, "XG0303",
                 "the kernel of " + std::string(what) + " meets a dimension of " + format_count(largest) +
                     ", more than " + format_count(kMost),
                 "look for a dimension that grew by mistake, or divide the layer into several"};
  }
  try {
    limit_isa();
    hold_one_thread();
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    std::unique_ptr<Primitive::Impl> impl = make(engine);
    if (impl == nullptr) {
      return dnn_error(what, "only its reference loops take these shapes");
    }
    return Primitive(std::move(impl));
  } catch (const dnnl::error& error) {
    return dnn_error(what, error.what());
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kWorld, "", "out of memory while compiling " + std::string(what),
                 "end other programs, or use fewer devices and threads"};
  }
}

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

// A memory object of oneDNN. It replaces dnnl::memory and has no shared pointer, so that calls allocate nothing outside
// of the library.
struct Handle {
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (memory != nullptr) {
      dnnl_memory_destroy(memory);
    }
  }
  dnnl_memory_t wrap(const Desc& desc, const dnnl::engine& engine, void* data) {
    dnnl::error::wrap_c_api(dnnl_memory_create(&memory, &desc.data, engine.get(), data), "no memory object");
    return memory;
  }
  dnnl_memory_t memory = nullptr;
};

}  // namespace

Primitive::Primitive() = default;
Primitive::Primitive(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Primitive::Primitive(Primitive&&) noexcept = default;
Primitive& Primitive::operator=(Primitive&&) noexcept = default;
Primitive::~Primitive() = default;

Status Primitive::run(std::span<void* const> arguments, std::byte* scratch) const {
  XRUN_DCHECK(arguments.size() == impl_->slots.size(), "a primitive takes the arguments that its maker names");
  hold_one_thread();
  try {
    std::array<Handle, kMostArguments + 1> memories;
    std::array<dnnl_exec_arg_t, kMostArguments + 1> list{};
    size_t count = 0;
    for (; count < arguments.size(); ++count) {
      list[count] = {impl_->slots[count], memories[count].wrap(impl_->forms[count], impl_->engine, arguments[count])};
    }
    if (impl_->scratch.get_size() > 0) {
      list[count] = {DNNL_ARG_SCRATCHPAD, memories[count].wrap(impl_->scratch, impl_->engine, scratch)};
      ++count;
    }
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(impl_->primitive.get(), impl_->stream.get(), static_cast<int>(count), list.data()),
        "execution failed");
  } catch (const dnnl::error& error) {
    return Error{ErrorKind::kWorld, "XG0806", "oneDNN failed in " + impl_->implementation + ": " + error.what(),
                 "look at free memory, and at the version that `xrun doctor` names"};
  }
  return {};
}

Bytes Primitive::scratch_bytes() const { return static_cast<Bytes>(impl_->scratch.get_size()); }
Bytes Primitive::bytes(int argument) const {
  return static_cast<Bytes>(impl_->forms[static_cast<size_t>(argument)].get_size());
}
std::string_view Primitive::implementation() const { return impl_->implementation; }

std::string library_version() {
  const dnnl_version_t& version = *dnnl_version();
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
}

namespace {

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
