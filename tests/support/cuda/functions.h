// The functions of the fake driver. They have the names and types of CUDA's, so that a library of them replaces CUDA's.
#pragma once

#include <type_traits>

#include "runtime/device/cuda/driver/driver_table.h"

#define XRUN_FAKE(symbol) \
  __attribute__((visibility("default"))) std::remove_pointer_t<decltype(DriverTable::symbol)> symbol

namespace xrun::cuda::fake {

extern "C" {
XRUN_FAKE(cuInit);
XRUN_FAKE(cuDriverGetVersion);
XRUN_FAKE(cuGetErrorName);
XRUN_FAKE(cuDeviceGetCount);
XRUN_FAKE(cuDeviceGet);
XRUN_FAKE(cuDeviceGetName);
XRUN_FAKE(cuDeviceTotalMem_v2);
XRUN_FAKE(cuDeviceGetAttribute);
XRUN_FAKE(cuDevicePrimaryCtxRetain);
XRUN_FAKE(cuDevicePrimaryCtxRelease_v2);
XRUN_FAKE(cuCtxSetCurrent);
XRUN_FAKE(cuCtxSynchronize);
XRUN_FAKE(cuMemGetInfo_v2);
XRUN_FAKE(cuMemAlloc_v2);
XRUN_FAKE(cuMemFree_v2);
XRUN_FAKE(cuMemHostAlloc);
XRUN_FAKE(cuMemFreeHost);
XRUN_FAKE(cuMemcpyHtoD_v2);
XRUN_FAKE(cuMemcpyDtoH_v2);
XRUN_FAKE(cuMemcpyHtoDAsync_v2);
XRUN_FAKE(cuMemcpyDtoHAsync_v2);
XRUN_FAKE(cuMemcpyDtoDAsync_v2);
XRUN_FAKE(cuMemcpyPeerAsync);
XRUN_FAKE(cuMemsetD8Async);
XRUN_FAKE(cuStreamCreate);
XRUN_FAKE(cuStreamDestroy_v2);
XRUN_FAKE(cuStreamSynchronize);
XRUN_FAKE(cuStreamQuery);
XRUN_FAKE(cuStreamWaitEvent);
XRUN_FAKE(cuLaunchHostFunc);
XRUN_FAKE(cuEventCreate);
XRUN_FAKE(cuEventDestroy_v2);
XRUN_FAKE(cuEventRecord);
XRUN_FAKE(cuEventQuery);
XRUN_FAKE(cuEventSynchronize);
XRUN_FAKE(cuEventElapsedTime);
XRUN_FAKE(cuModuleLoadDataEx);
XRUN_FAKE(cuModuleUnload);
XRUN_FAKE(cuModuleGetFunction);
XRUN_FAKE(cuFuncSetAttribute);
XRUN_FAKE(cuLaunchKernel);
}

inline DriverTable fake_table() {
  return {
      .cuInit = cuInit,
      .cuDriverGetVersion = cuDriverGetVersion,
      .cuGetErrorName = cuGetErrorName,
      .cuDeviceGetCount = cuDeviceGetCount,
      .cuDeviceGet = cuDeviceGet,
      .cuDeviceGetName = cuDeviceGetName,
      .cuDeviceTotalMem_v2 = cuDeviceTotalMem_v2,
      .cuDeviceGetAttribute = cuDeviceGetAttribute,
      .cuDevicePrimaryCtxRetain = cuDevicePrimaryCtxRetain,
      .cuDevicePrimaryCtxRelease_v2 = cuDevicePrimaryCtxRelease_v2,
      .cuCtxSetCurrent = cuCtxSetCurrent,
      .cuCtxSynchronize = cuCtxSynchronize,
      .cuMemGetInfo_v2 = cuMemGetInfo_v2,
      .cuMemAlloc_v2 = cuMemAlloc_v2,
      .cuMemFree_v2 = cuMemFree_v2,
      .cuMemHostAlloc = cuMemHostAlloc,
      .cuMemFreeHost = cuMemFreeHost,
      .cuMemcpyHtoD_v2 = cuMemcpyHtoD_v2,
      .cuMemcpyDtoH_v2 = cuMemcpyDtoH_v2,
      .cuMemcpyHtoDAsync_v2 = cuMemcpyHtoDAsync_v2,
      .cuMemcpyDtoHAsync_v2 = cuMemcpyDtoHAsync_v2,
      .cuMemcpyDtoDAsync_v2 = cuMemcpyDtoDAsync_v2,
      .cuMemcpyPeerAsync = cuMemcpyPeerAsync,
      .cuMemsetD8Async = cuMemsetD8Async,
      .cuStreamCreate = cuStreamCreate,
      .cuStreamDestroy_v2 = cuStreamDestroy_v2,
      .cuStreamSynchronize = cuStreamSynchronize,
      .cuStreamQuery = cuStreamQuery,
      .cuStreamWaitEvent = cuStreamWaitEvent,
      .cuLaunchHostFunc = cuLaunchHostFunc,
      .cuEventCreate = cuEventCreate,
      .cuEventDestroy_v2 = cuEventDestroy_v2,
      .cuEventRecord = cuEventRecord,
      .cuEventQuery = cuEventQuery,
      .cuEventSynchronize = cuEventSynchronize,
      .cuEventElapsedTime = cuEventElapsedTime,
      .cuModuleLoadDataEx = cuModuleLoadDataEx,
      .cuModuleUnload = cuModuleUnload,
      .cuModuleGetFunction = cuModuleGetFunction,
      .cuFuncSetAttribute = cuFuncSetAttribute,
      .cuLaunchKernel = cuLaunchKernel,
  };
}

}  // namespace xrun::cuda::fake
