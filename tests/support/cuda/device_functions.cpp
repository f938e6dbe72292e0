// Functions of the fake driver for GPUs and contexts.
// Tests: tests/cuda/wrappers_test.cpp, tests/cuda/planted_faults_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "runtime/device/cuda/driver/driver_errors.h"
#include "tests/support/cuda/functions.h"
#include "tests/support/cuda/state.h"

namespace xrun::cuda::fake {

namespace {

bool has(const State& state, int gpu) { return gpu >= 0 && gpu < state.settings.gpus; }

// Reports the objects of all contexts that still exist, and destroys them.
void report_leaks(Call& call) {
  State& state = call.state();
  const auto report = [&](const std::string& name) {
    call.fail(FaultKind::kLeak, CUDA_SUCCESS, "it exists when the context is released", name);
  };
  for (auto& [address, buffer] : state.buffers) {
    if (buffer.alive) {
      report(buffer.name);
      state.release_memory(buffer);
    }
  }
  while (!state.pinned.empty()) {
    report(state.pinned.first().name);
    state.pinned.free(state.pinned.first());
  }
  const auto end_all = [&](auto& objects) {
    for (auto& object : objects) {
      if (object.alive) {
        report(object.name);
        object.alive = false;
      }
    }
  };
  end_all(state.streams);
  end_all(state.events);
  end_all(state.modules);
}

}  // namespace

CUresult cuInit(unsigned flags) {
  Call call("cuInit", Call::Needs::kNothing);
  if (call.refused()) {
    return call.result();
  }
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (call.state().settings.gpus == 0) {
    return CUDA_ERROR_NO_DEVICE;
  }
  call.state().started = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  Call call("cuDriverGetVersion", Call::Needs::kNothing);
  if (!call.refused()) {
    *version = call.state().settings.version;
  }
  return call.result();
}

CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = text_of(result).name.data();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  Call call("cuDeviceGetCount", Call::Needs::kDriver);
  if (!call.refused()) {
    *count = call.state().settings.gpus;
  }
  return call.result();
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Call call("cuDeviceGet", Call::Needs::kDriver);
  if (call.refused()) {
    return call.result();
  }
  if (!has(call.state(), ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  Call call("cuDeviceGetName", Call::Needs::kDriver);
  if (call.refused()) {
    return call.result();
  }
  if (!has(call.state(), device) || length < 1) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const Settings& settings = call.state().settings;
  const auto gpu = static_cast<size_t>(device);
  const std::string text = gpu < settings.names.size() && !settings.names[gpu].empty()
                               ? settings.names[gpu]
                               : fmt::format("xrun fake GPU {}", settings.capability);
  name[text.copy(name, static_cast<size_t>(length) - 1)] = '\0';
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  Call call("cuDeviceTotalMem_v2", Call::Needs::kDriver);
  if (call.refused()) {
    return call.result();
  }
  *bytes = call.state().settings.memory;
  return has(call.state(), device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  Call call("cuDeviceGetAttribute", Call::Needs::kDriver);
  if (call.refused()) {
    return call.result();
  }
  if (!has(call.state(), device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = call.state().settings.capability / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = call.state().settings.capability % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = 1'500'000;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 16;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      *value = 1'000'000;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      *value = 256;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Call call("cuDevicePrimaryCtxRetain", Call::Needs::kDriver);
  if (call.refused()) {
    return call.result();
  }
  if (!has(call.state(), device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  ++call.state().retained[static_cast<size_t>(device)];
  *context = context_of(device);
  return call.done();
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Call call("cuDevicePrimaryCtxRelease_v2", Call::Needs::kDriver);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  if (!has(state, device) || state.retained[static_cast<size_t>(device)] == 0) {
    return call.fail(FaultKind::kContext, CUDA_ERROR_INVALID_CONTEXT, "the context was not retained");
  }
  --state.retained[static_cast<size_t>(device)];
  // After a permanent error nothing can be freed.
  if (state.failed == CUDA_SUCCESS && std::ranges::count(state.retained, 0) == state.settings.gpus) {
    report_leaks(call);
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  Call call("cuCtxSetCurrent", Call::Needs::kDriver);
  if (call.refused()) {
    return call.result();
  }
  const int gpu = context == nullptr ? -1 : gpu_of(context);
  if (context != nullptr && !has(call.state(), gpu)) {
    return call.fail(FaultKind::kContext, CUDA_ERROR_INVALID_CONTEXT, "there is no such context");
  }
  set_current_gpu(gpu);
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  Call call("cuCtxSynchronize", Call::Needs::kContext);
  if (call.refused()) {
    return call.result();
  }
  State& state = call.state();
  state.staged = false;
  state.drain_all(call.lock(), call.gpu());
  for (const Stream& stream : state.streams) {
    if (stream.gpu == call.gpu()) {
      state.join_host_clock(stream.clock);
    }
  }
  return call.done();
}

}  // namespace xrun::cuda::fake
