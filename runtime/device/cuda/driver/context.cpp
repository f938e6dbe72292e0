// Tests: tests/cuda/wrappers_test.cpp
#include "runtime/device/cuda/driver/context.h"

#include <fmt/format.h>

#include "runtime/device/cuda/driver/driver_errors.h"

namespace xrun::cuda {

Result<std::unique_ptr<Context>> Context::open(const DriverTable& driver, int gpu) {
  const std::string place = fmt::format("cuda:{}", gpu);
  CUdevice device = 0;
  XRUN_TRY(to_status(driver.cuDeviceGet(&device, gpu), "cuDeviceGet", place));
  XRUN_ASSIGN(const int capability, capability_of(driver, device, place));
  CUcontext handle = nullptr;
  XRUN_TRY(to_status(driver.cuDevicePrimaryCtxRetain(&handle, device), "cuDevicePrimaryCtxRetain",
                     place + ": opening its context"));
  std::unique_ptr<Context> context(new Context(driver, gpu, device, capability, handle));
  XRUN_TRY(context->make_current());
  return context;
}

Result<int> capability_of(const DriverTable& driver, CUdevice device, const std::string& place) {
  int major = 0;
  int minor = 0;
  XRUN_TRY(to_status(driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                     "cuDeviceGetAttribute", place));
  XRUN_TRY(to_status(driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
                     "cuDeviceGetAttribute", place));
  return 10 * major + minor;
}

Context::~Context() {
  if (driver_.cuCtxSetCurrent(handle_) == CUDA_SUCCESS) {
    driver_.cuCtxSynchronize();
    driver_.cuCtxSetCurrent(nullptr);
  }
  driver_.cuDevicePrimaryCtxRelease_v2(device_);
}

Status Context::make_current() const {
  return check(driver_.cuCtxSetCurrent(handle_), "cuCtxSetCurrent", "making its context current");
}

Status Context::synchronise() const {
  return check(driver_.cuCtxSynchronize(), "cuCtxSynchronize", "waiting for its work");
}

Result<MemoryInfo> Context::memory() const {
  size_t free = 0;
  size_t total = 0;
  XRUN_TRY(check(driver_.cuMemGetInfo_v2(&free, &total), "cuMemGetInfo_v2", "asking for its free memory"));
  return MemoryInfo{.free = static_cast<Bytes>(free), .total = static_cast<Bytes>(total)};
}

Status Context::check(CUresult result, std::string_view symbol, std::string_view purpose) const {
  if (result == CUDA_SUCCESS) {
    return {};
  }
  return driver_error(result, symbol, fmt::format("cuda:{}: {}", gpu_, purpose), &driver_);
}

}  // namespace xrun::cuda
