// The contents of a primitive, and functions that make them from descriptions of oneDNN. Only ops/dnn includes it.
#pragma once

#include <functional>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "ops/dnn/dnn.h"

namespace xrun::ops::dnn {

struct Primitive::Impl {
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::primitive primitive;
  std::vector<int> slots;                 // oneDNN's number (DNNL_ARG_) of each argument
  std::vector<dnnl::memory::desc> forms;  // form (layout and dtype) of each argument
  std::vector<dnnl::memory::desc> plain;  // f32 weights as declared; empty descriptors for all other arguments
  dnnl::memory::desc scratch;
  std::string implementation;
};

inline bool is_reference(std::string_view name) { return name.find("ref") != std::string_view::npos; }

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

inline dnnl::primitive_attr user_scratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// Builds a primitive. `slots` has oneDNN's number (DNNL_ARG_...) of each argument, in order; slots[weight] is an f32
// weight that is declared with the layout `plain`, which is empty if no argument is such a weight.
template <typename Made, typename PrimitiveDesc>
std::unique_ptr<Primitive::Impl> finish(const dnnl::engine& engine, const PrimitiveDesc& desc, std::vector<int> slots,
                                        size_t weight = 0, const dnnl::memory::desc& plain = {}) {
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
                        const std::function<std::unique_ptr<Primitive::Impl>(const dnnl::engine&)>& make);

}  // namespace xrun::ops::dnn
