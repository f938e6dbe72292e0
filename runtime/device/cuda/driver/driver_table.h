// The functions of CUDA's driver library that xrun calls, as pointers. A member has the name of the library's symbol,
// with the version suffix that `cuda.h` selects for programs of CUDA 12 and 13.
#pragma once

#include <cstddef>

#include "runtime/device/cuda/driver/driver_types.h"

namespace xrun::cuda {

// Source: NVIDIA, "CUDA Driver API", 13.0. All streams are explicit, so no function has the suffix of a default stream.
struct DriverTable {
  // The library and its GPUs.
  CUresult (*cuInit)(unsigned flags) = nullptr;
  CUresult (*cuDriverGetVersion)(int* version) = nullptr;
  CUresult (*cuGetErrorName)(CUresult result, const char** name) = nullptr;
  CUresult (*cuDeviceGetCount)(int* count) = nullptr;
  CUresult (*cuDeviceGet)(CUdevice* device, int ordinal) = nullptr;
  CUresult (*cuDeviceGetName)(char* name, int length, CUdevice device) = nullptr;
  CUresult (*cuDeviceTotalMem_v2)(size_t* bytes, CUdevice device) = nullptr;
  CUresult (*cuDeviceGetAttribute)(int* value, CUdevice_attribute attribute, CUdevice device) = nullptr;

  // Contexts.
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice device) = nullptr;
  CUresult (*cuDevicePrimaryCtxRelease_v2)(CUdevice device) = nullptr;
  CUresult (*cuCtxSetCurrent)(CUcontext context) = nullptr;
  CUresult (*cuCtxSynchronize)() = nullptr;

  // Memory.
  CUresult (*cuMemGetInfo_v2)(size_t* free, size_t* total) = nullptr;
  CUresult (*cuMemAlloc_v2)(CUdeviceptr* address, size_t bytes) = nullptr;
  CUresult (*cuMemFree_v2)(CUdeviceptr address) = nullptr;
  CUresult (*cuMemHostAlloc)(void** address, size_t bytes, unsigned flags) = nullptr;
  CUresult (*cuMemFreeHost)(void* address) = nullptr;
  CUresult (*cuMemcpyHtoD_v2)(CUdeviceptr to, const void* from, size_t bytes) = nullptr;
  CUresult (*cuMemcpyDtoH_v2)(void* to, CUdeviceptr from, size_t bytes) = nullptr;
  CUresult (*cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) = nullptr;
  CUresult (*cuMemcpyDtoHAsync_v2)(void* to, CUdeviceptr from, size_t bytes, CUstream stream) = nullptr;
  CUresult (*cuMemcpyDtoDAsync_v2)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) = nullptr;
  CUresult (*cuMemcpyPeerAsync)(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                size_t bytes, CUstream stream) = nullptr;
  CUresult (*cuMemsetD8Async)(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) = nullptr;

  // Streams and events.
  CUresult (*cuStreamCreate)(CUstream* stream, unsigned flags) = nullptr;
  CUresult (*cuStreamDestroy_v2)(CUstream stream) = nullptr;
  CUresult (*cuStreamSynchronize)(CUstream stream) = nullptr;
  CUresult (*cuStreamQuery)(CUstream stream) = nullptr;
  CUresult (*cuStreamWaitEvent)(CUstream stream, CUevent event, unsigned flags) = nullptr;
  CUresult (*cuLaunchHostFunc)(CUstream stream, CUhostFn function, void* user_data) = nullptr;
  CUresult (*cuEventCreate)(CUevent* event, unsigned flags) = nullptr;
  CUresult (*cuEventDestroy_v2)(CUevent event) = nullptr;
  CUresult (*cuEventRecord)(CUevent event, CUstream stream) = nullptr;
  CUresult (*cuEventQuery)(CUevent event) = nullptr;
  CUresult (*cuEventSynchronize)(CUevent event) = nullptr;
  CUresult (*cuEventElapsedTime)(float* milliseconds, CUevent start, CUevent end) = nullptr;

  // Kernels.
  CUresult (*cuModuleLoadDataEx)(CUmodule* module, const void* image, unsigned options, CUjit_option* names,
                                 void** values) = nullptr;
  CUresult (*cuModuleUnload)(CUmodule module) = nullptr;
  CUresult (*cuModuleGetFunction)(CUfunction* function, CUmodule module, const char* name) = nullptr;
  CUresult (*cuFuncSetAttribute)(CUfunction function, CUfunction_attribute attribute, int value) = nullptr;
  CUresult (*cuLaunchKernel)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                             void** arguments, void** extra) = nullptr;
};

// Calls visit(symbol, pointer) for each function of the table.
template <class Table, class Visit>
void for_each_function(Table& table, const Visit& visit) {
  visit("cuInit", table.cuInit);
  visit("cuDriverGetVersion", table.cuDriverGetVersion);
  visit("cuGetErrorName", table.cuGetErrorName);
  visit("cuDeviceGetCount", table.cuDeviceGetCount);
  visit("cuDeviceGet", table.cuDeviceGet);
  visit("cuDeviceGetName", table.cuDeviceGetName);
  visit("cuDeviceTotalMem_v2", table.cuDeviceTotalMem_v2);
  visit("cuDeviceGetAttribute", table.cuDeviceGetAttribute);
  visit("cuDevicePrimaryCtxRetain", table.cuDevicePrimaryCtxRetain);
  visit("cuDevicePrimaryCtxRelease_v2", table.cuDevicePrimaryCtxRelease_v2);
  visit("cuCtxSetCurrent", table.cuCtxSetCurrent);
  visit("cuCtxSynchronize", table.cuCtxSynchronize);
  visit("cuMemGetInfo_v2", table.cuMemGetInfo_v2);
  visit("cuMemAlloc_v2", table.cuMemAlloc_v2);
  visit("cuMemFree_v2", table.cuMemFree_v2);
  visit("cuMemHostAlloc", table.cuMemHostAlloc);
  visit("cuMemFreeHost", table.cuMemFreeHost);
  visit("cuMemcpyHtoD_v2", table.cuMemcpyHtoD_v2);
  visit("cuMemcpyDtoH_v2", table.cuMemcpyDtoH_v2);
  visit("cuMemcpyHtoDAsync_v2", table.cuMemcpyHtoDAsync_v2);
  visit("cuMemcpyDtoHAsync_v2", table.cuMemcpyDtoHAsync_v2);
  visit("cuMemcpyDtoDAsync_v2", table.cuMemcpyDtoDAsync_v2);
  visit("cuMemcpyPeerAsync", table.cuMemcpyPeerAsync);
  visit("cuMemsetD8Async", table.cuMemsetD8Async);
  visit("cuStreamCreate", table.cuStreamCreate);
  visit("cuStreamDestroy_v2", table.cuStreamDestroy_v2);
  visit("cuStreamSynchronize", table.cuStreamSynchronize);
  visit("cuStreamQuery", table.cuStreamQuery);
  visit("cuStreamWaitEvent", table.cuStreamWaitEvent);
  visit("cuLaunchHostFunc", table.cuLaunchHostFunc);
  visit("cuEventCreate", table.cuEventCreate);
  visit("cuEventDestroy_v2", table.cuEventDestroy_v2);
  visit("cuEventRecord", table.cuEventRecord);
  visit("cuEventQuery", table.cuEventQuery);
  visit("cuEventSynchronize", table.cuEventSynchronize);
  visit("cuEventElapsedTime", table.cuEventElapsedTime);
  visit("cuModuleLoadDataEx", table.cuModuleLoadDataEx);
  visit("cuModuleUnload", table.cuModuleUnload);
  visit("cuModuleGetFunction", table.cuModuleGetFunction);
  visit("cuFuncSetAttribute", table.cuFuncSetAttribute);
  visit("cuLaunchKernel", table.cuLaunchKernel);
}

}  // namespace xrun::cuda
