// Primitives are made and run with one OpenMP thread, so that results do not depend on the number of threads, and use
// scratch of the caller, so that steps allocate nothing. primitives.cpp makes them.
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include "ops/dnn/dnn.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <new>
#include <omp.h>
#include <string>
#include <utility>

#include "graph/base/check.h"
#include "graph/base/units.h"
#include "ops/dnn/primitive_impl.h"
#include "ops/simd/isa.h"

namespace xrun::ops::dnn {
namespace {

constexpr size_t kMostArguments = 4;

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
// several threads it would also run on threads other than the planned workers.
void hold_one_thread() {
  omp_set_num_threads(1);
  XRUN_CHECK(omp_get_max_threads() == 1, "oneDNN runs with one OpenMP thread");
}

Error dnn_error(std::string_view what, std::string_view why) {
  return Error{ErrorKind::kWorld, "XG0806", "oneDNN cannot make " + std::string(what) + ": " + std::string(why),
               "this processor lacks the instruction set for it; `precision = f32` and XRUN_ISA=avx512 need less"};
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
  dnnl_memory_t wrap(const dnnl::memory::desc& desc, const dnnl::engine& engine, void* data) {
    dnnl::error::wrap_c_api(dnnl_memory_create(&memory, &desc.data, engine.get(), data), "no memory object");
    return memory;
  }
  dnnl_memory_t memory = nullptr;
};

}  // namespace

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

}  // namespace xrun::ops::dnn
