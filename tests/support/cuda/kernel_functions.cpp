// Functions of the fake driver for modules and launches.
// Tests: tests/cuda/wrappers_test.cpp, tests/cuda/planted_faults_test.cpp
#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>

#include "tests/support/cuda/functions.h"
#include "tests/support/cuda/state.h"

namespace xrun::cuda::fake {

namespace {

constexpr uint64_t kFreeShared = 48 * 1024;  // dynamic shared memory of kernels without cuFuncSetAttribute

uint64_t most_shared(int capability) { return (capability < 90 ? 163 : 227) * uint64_t{1024}; }

// Writes the log of the compiler where the options of cuModuleLoadDataEx ask for it.
void write_log(const std::string& text, unsigned options, const CUjit_option* names, void** values) {
  char* buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < options; ++i) {
    if (names[i] == CU_JIT_ERROR_LOG_BUFFER) {
      buffer = static_cast<char*>(values[i]);
    } else if (names[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      size = reinterpret_cast<uintptr_t>(values[i]);
    }
  }
  if (buffer != nullptr && size > 0) {
    buffer[text.copy(buffer, size - 1)] = '\0';
  }
}

// Returns 90 for "sm_90" and "sm_90a".
int capability_of(const std::string& target) {
  int capability = 0;
  const size_t at = target.find('_');
  if (at != std::string::npos) {
    std::from_chars(target.data() + at + 1, target.data() + target.size(), capability);
  }
  return capability;
}

// Appends the arguments of a launch to `values`, one for each parameter. Returns the reason if they do not match the
// parameters, else an empty text.
std::string collect(const ptx::Kernel& kernel, void** arguments, void** extra, std::vector<uint64_t>& values) {
  const std::byte* bytes = nullptr;
  uint64_t size = 0;
  for (; extra != nullptr && *extra != nullptr; extra += 2) {
    if (reinterpret_cast<uintptr_t>(*extra) == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      bytes = static_cast<const std::byte*>(extra[1]);
    } else if (reinterpret_cast<uintptr_t>(*extra) == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = *static_cast<const size_t*>(extra[1]);
    }
  }
  if (arguments == nullptr && size != kernel.parameter_bytes) {
    return fmt::format("{} bytes of arguments for {} bytes of parameters", size, kernel.parameter_bytes);
  }
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const ptx::Variable& parameter = kernel.parameters[i];
    if (parameter.bytes > sizeof(uint64_t)) {
      return fmt::format("the parameter `{}` has more than 8 bytes", parameter.name);
    }
    uint64_t value = 0;
    std::memcpy(&value, arguments != nullptr ? arguments[i] : bytes + (parameter.address - ptx::kParamBase),
                parameter.bytes);
    values.push_back(value);
  }
  return "";
}

}  // namespace

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned options, CUjit_option* names, void** values) {
  Call call("cuModuleLoadDataEx", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  const auto refuse = [&](CUresult result, const std::string& text) {
    write_log(text, options, names, values);
    return result;
  };
  const std::string text = static_cast<const char*>(image);
  if (text.find(".version") == std::string::npos) {
    return refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "the fake driver executes PTX only");
  }
  auto loaded = ptx::load_module(text);
  if (!loaded.ok()) {
    return refuse(CUDA_ERROR_INVALID_PTX, loaded.error().message);
  }
  std::unique_ptr<const ptx::Module> ptx = std::move(loaded).value();
  if (capability_of(ptx->target) > state.settings.capability) {
    return refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, fmt::format("the kernels are for {}", ptx->target));
  }
  const auto has_variables = [](const LoadedModule& other) { return other.alive && !other.ptx->variables.empty(); };
  if (!ptx->variables.empty() && std::ranges::any_of(state.modules, has_variables)) {
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "the fake driver supports only one module with variables at a time");
  }
  state.modules.push_back({.name = fmt::format("module {}", state.modules.size() + 1),
                           .gpu = call.gpu(),
                           .alive = true,
                           .ptx = std::move(ptx)});
  *module = reinterpret_cast<CUmodule>(&state.modules.back());
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle) {
  Call call("cuModuleUnload", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  LoadedModule* const module = call.find(handle);
  if (module == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (const Stream& stream : call.state().streams) {
    for (const Operation& operation : stream.queue) {
      if (operation.function != nullptr && operation.function->module == module) {
        call.fail(FaultKind::kFreedInUse, CUDA_SUCCESS,
                  fmt::format("`{}` in {} has not run", operation.function->kernel->name, stream.name), module->name);
      }
    }
  }
  module->alive = false;
  for (const ptx::Variable& variable : module->ptx->variables) {
    call.state().memory.remove(variable.address);
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  Call call("cuModuleGetFunction", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  LoadedModule* const module = call.find(handle);
  const ptx::Kernel* const kernel = module == nullptr ? nullptr : module->ptx->find(name);
  if (kernel == nullptr) {
    return module == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_FOUND;
  }
  call.state().functions.push_back({.module = module, .kernel = kernel, .most_shared = kFreeShared});
  *function = reinterpret_cast<CUfunction>(&call.state().functions.back());
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  Call call("cuFuncSetAttribute", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  Function* const function = call.find(handle);
  if (function == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const uint64_t most = most_shared(call.state().settings.capability) - function->kernel->shared_bytes;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      static_cast<uint64_t>(value) > most) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  function->most_shared = static_cast<uint64_t>(value);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream_handle,
                        void** arguments, void** extra) {
  Call call("cuLaunchKernel", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  Stream* const stream = call.find(stream_handle);
  Function* const function = stream == nullptr ? nullptr : call.find(handle);
  if (function == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  Operation operation{.kind = Operation::Kind::kKernel, .symbol = call.symbol()};
  operation.function = function;
  operation.launch.blocks = {grid_x, grid_y, grid_z};
  operation.launch.threads = {block_x, block_y, block_z};
  operation.launch.dynamic_shared = shared_bytes;
  std::string cause = collect(*function->kernel, arguments, extra, operation.launch.arguments);
  const uint64_t threads = uint64_t{block_x} * block_y * block_z;
  if (threads == 0 || threads > 1024 || uint64_t{grid_x} * grid_y * grid_z == 0) {
    cause = fmt::format("{} x {} x {} blocks of {} threads", grid_x, grid_y, grid_z, threads);
  } else if (shared_bytes > function->most_shared) {
    cause =
        fmt::format("{} bytes of dynamic shared memory; the kernel may have {}", shared_bytes, function->most_shared);
  }
  if (!cause.empty()) {
    state.report({.kind = FaultKind::kLaunch,
                  .call = call.symbol(),
                  .stream = stream->name,
                  .kernel = function->kernel->name,
                  .buffer = "",
                  .cause = cause});
    return CUDA_ERROR_INVALID_VALUE;
  }
  state.enqueue(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

}  // namespace xrun::cuda::fake
