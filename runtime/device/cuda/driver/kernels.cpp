// Tests: tests/cuda/wrappers_test.cpp
#include "runtime/device/cuda/driver/kernels.h"

#include <fmt/format.h>

namespace xrun::cuda {

namespace {

// A block may have this much dynamic shared memory without a request. Source: CUDA C++ Programming Guide 13.0, "Compute
// Capabilities".
constexpr uint32_t kFreeShared = 48 * 1024;

constexpr size_t kLogBytes = 16 * 1024;

// The log of the driver's compiler on one line.
std::string line_of(const std::string& log) {
  std::string line;
  for (const char character : std::string(log.c_str())) {
    line += character != '\n' ? std::string(1, character) : "; ";
  }
  while (line.ends_with(' ') || line.ends_with(';')) {
    line.pop_back();
  }
  return line;
}

}  // namespace

Result<std::unique_ptr<KernelModule>> KernelModule::load(const Context& context, const std::string& name,
                                                         const std::string& image) {
  std::string log(kLogBytes, '\0');
  std::array<CUjit_option, 2> names{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule handle = nullptr;
  const CUresult loaded = context.driver().cuModuleLoadDataEx(
      &handle, image.c_str(), static_cast<unsigned>(names.size()), names.data(), values.data());
  Status status = context.check(loaded, "cuModuleLoadDataEx", fmt::format("loading the kernels of {}", name));
  if (!status.ok()) {
    Error error = std::move(status).error();
    if (const std::string line = line_of(log); !line.empty()) {
      error.message += ": " + line;
    }
    return error;
  }
  return std::unique_ptr<KernelModule>(new KernelModule(context, handle, name));
}

KernelModule::~KernelModule() {
  if (context_.make_current().ok()) {
    context_.driver().cuModuleUnload(handle_);
  }
}

Result<Kernel> KernelModule::find(const std::string& kernel, uint32_t shared_bytes) const {
  Kernel found{.handle = nullptr, .name = kernel};
  XRUN_TRY(context_.check(context_.driver().cuModuleGetFunction(&found.handle, handle_, kernel.c_str()),
                          "cuModuleGetFunction", fmt::format("finding the kernel `{}` of {}", kernel, name_)));
  if (shared_bytes > kFreeShared) {
    XRUN_TRY(context_.check(
        context_.driver().cuFuncSetAttribute(found.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                             static_cast<int>(shared_bytes)),
        "cuFuncSetAttribute",
        fmt::format("giving the kernel `{}` {} of shared memory", kernel,
                    format_bytes(static_cast<Bytes>(shared_bytes)))));
  }
  return found;
}

Status launch(const Kernel& kernel, const Grid& grid, const Arguments& arguments, const Stream& stream) {
  size_t bytes = arguments.bytes().size();
  std::array<void*, 5> extra{reinterpret_cast<void*>(CU_LAUNCH_PARAM_BUFFER_POINTER),
                             const_cast<std::byte*>(arguments.bytes().data()),  // NOLINT: the driver only reads it
                             reinterpret_cast<void*>(CU_LAUNCH_PARAM_BUFFER_SIZE), &bytes,
                             reinterpret_cast<void*>(CU_LAUNCH_PARAM_END)};
  const Context& context = stream.context();
  return context.check(
      context.driver().cuLaunchKernel(kernel.handle, grid.blocks[0], grid.blocks[1], grid.blocks[2], grid.threads[0],
                                      grid.threads[1], grid.threads[2], grid.shared_bytes, stream.handle(), nullptr,
                                      bytes == 0 ? nullptr : extra.data()),
      "cuLaunchKernel", fmt::format("launching `{}`", kernel.name));
}

}  // namespace xrun::cuda
