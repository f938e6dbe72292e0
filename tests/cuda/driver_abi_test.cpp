// Compares our declarations of CUDA's driver library with `cuda.h`, where the toolkit is installed.
#include <gtest/gtest.h>
#include <string_view>
#include <type_traits>

#include "runtime/device/cuda/driver/driver_table.h"

namespace xrun::cuda {

// Macros of cuda.h have the names of these.
constexpr unsigned kPortable = CU_MEMHOSTALLOC_PORTABLE;
constexpr uintptr_t kEnd = CU_LAUNCH_PARAM_END;
constexpr uintptr_t kPointer = CU_LAUNCH_PARAM_BUFFER_POINTER;
constexpr uintptr_t kSize = CU_LAUNCH_PARAM_BUFFER_SIZE;

}  // namespace xrun::cuda

#if __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#define XRUN_HAS_CUDA_HEADER
#endif

namespace xrun::cuda {
namespace {

#ifdef XRUN_HAS_CUDA_HEADER

// The table has names of symbols; cuda.h of CUDA 13 renames this function, whose type is unchanged.
#undef cuEventElapsedTime

// Our type for a type of cuda.h.
template <class Theirs>
struct Ours {
  using type = Theirs;
};
template <class Theirs>
struct Ours<Theirs*> {
  using type = typename Ours<Theirs>::type*;
};
template <>
struct Ours<::CUctx_st> {
  using type = CUctx_st;
};
template <>
struct Ours<::CUmod_st> {
  using type = CUmod_st;
};
template <>
struct Ours<::CUfunc_st> {
  using type = CUfunc_st;
};
template <>
struct Ours<::CUstream_st> {
  using type = CUstream_st;
};
template <>
struct Ours<::CUevent_st> {
  using type = CUevent_st;
};
template <>
struct Ours<::CUresult> {
  using type = CUresult;
};
template <>
struct Ours<::CUdevice_attribute> {
  using type = CUdevice_attribute;
};
template <>
struct Ours<::CUfunction_attribute> {
  using type = CUfunction_attribute;
};
template <>
struct Ours<::CUjit_option> {
  using type = CUjit_option;
};
template <class Value, class... Parameters>
struct Ours<Value(Parameters...)> {
  using type = typename Ours<Value>::type(typename Ours<Parameters>::type...);
};

template <class Member, class Theirs>
constexpr bool kSame = std::is_same_v<Member, typename Ours<Theirs>::type>;

#define XRUN_SAME_FUNCTION(symbol, theirs) \
  static_assert(kSame<decltype(DriverTable::symbol), decltype(&::theirs)>, #symbol " has another type in cuda.h")

XRUN_SAME_FUNCTION(cuInit, cuInit);
XRUN_SAME_FUNCTION(cuDriverGetVersion, cuDriverGetVersion);
XRUN_SAME_FUNCTION(cuGetErrorName, cuGetErrorName);
XRUN_SAME_FUNCTION(cuDeviceGetCount, cuDeviceGetCount);
XRUN_SAME_FUNCTION(cuDeviceGet, cuDeviceGet);
XRUN_SAME_FUNCTION(cuDeviceGetName, cuDeviceGetName);
XRUN_SAME_FUNCTION(cuDeviceTotalMem_v2, cuDeviceTotalMem_v2);
XRUN_SAME_FUNCTION(cuDeviceGetAttribute, cuDeviceGetAttribute);
XRUN_SAME_FUNCTION(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain);
XRUN_SAME_FUNCTION(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease_v2);
XRUN_SAME_FUNCTION(cuCtxSetCurrent, cuCtxSetCurrent);
XRUN_SAME_FUNCTION(cuCtxSynchronize, cuCtxSynchronize);
XRUN_SAME_FUNCTION(cuMemGetInfo_v2, cuMemGetInfo_v2);
XRUN_SAME_FUNCTION(cuMemAlloc_v2, cuMemAlloc_v2);
XRUN_SAME_FUNCTION(cuMemFree_v2, cuMemFree_v2);
XRUN_SAME_FUNCTION(cuMemHostAlloc, cuMemHostAlloc);
XRUN_SAME_FUNCTION(cuMemFreeHost, cuMemFreeHost);
XRUN_SAME_FUNCTION(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2);
XRUN_SAME_FUNCTION(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2);
XRUN_SAME_FUNCTION(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2);
XRUN_SAME_FUNCTION(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2);
XRUN_SAME_FUNCTION(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2);
XRUN_SAME_FUNCTION(cuMemcpyPeerAsync, cuMemcpyPeerAsync);
XRUN_SAME_FUNCTION(cuMemsetD8Async, cuMemsetD8Async);
XRUN_SAME_FUNCTION(cuStreamCreate, cuStreamCreate);
XRUN_SAME_FUNCTION(cuStreamDestroy_v2, cuStreamDestroy_v2);
XRUN_SAME_FUNCTION(cuStreamSynchronize, cuStreamSynchronize);
XRUN_SAME_FUNCTION(cuStreamQuery, cuStreamQuery);
XRUN_SAME_FUNCTION(cuStreamWaitEvent, cuStreamWaitEvent);
XRUN_SAME_FUNCTION(cuLaunchHostFunc, cuLaunchHostFunc);
XRUN_SAME_FUNCTION(cuEventCreate, cuEventCreate);
XRUN_SAME_FUNCTION(cuEventDestroy_v2, cuEventDestroy_v2);
XRUN_SAME_FUNCTION(cuEventRecord, cuEventRecord);
XRUN_SAME_FUNCTION(cuEventQuery, cuEventQuery);
XRUN_SAME_FUNCTION(cuEventSynchronize, cuEventSynchronize);
XRUN_SAME_FUNCTION(cuEventElapsedTime, cuEventElapsedTime_v2);
XRUN_SAME_FUNCTION(cuModuleLoadDataEx, cuModuleLoadDataEx);
XRUN_SAME_FUNCTION(cuModuleUnload, cuModuleUnload);
XRUN_SAME_FUNCTION(cuModuleGetFunction, cuModuleGetFunction);
XRUN_SAME_FUNCTION(cuFuncSetAttribute, cuFuncSetAttribute);
XRUN_SAME_FUNCTION(cuLaunchKernel, cuLaunchKernel);

#define XRUN_SAME_VALUE(name) static_assert(static_cast<unsigned>(name) == static_cast<unsigned>(::name), #name)

XRUN_SAME_VALUE(CUDA_SUCCESS);
XRUN_SAME_VALUE(CUDA_ERROR_INVALID_VALUE);
XRUN_SAME_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
XRUN_SAME_VALUE(CUDA_ERROR_NOT_INITIALIZED);
XRUN_SAME_VALUE(CUDA_ERROR_DEINITIALIZED);
XRUN_SAME_VALUE(CUDA_ERROR_STUB_LIBRARY);
XRUN_SAME_VALUE(CUDA_ERROR_DEVICE_UNAVAILABLE);
XRUN_SAME_VALUE(CUDA_ERROR_NO_DEVICE);
XRUN_SAME_VALUE(CUDA_ERROR_INVALID_DEVICE);
XRUN_SAME_VALUE(CUDA_ERROR_INVALID_IMAGE);
XRUN_SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
XRUN_SAME_VALUE(CUDA_ERROR_NO_BINARY_FOR_GPU);
XRUN_SAME_VALUE(CUDA_ERROR_ECC_UNCORRECTABLE);
XRUN_SAME_VALUE(CUDA_ERROR_INVALID_PTX);
XRUN_SAME_VALUE(CUDA_ERROR_NVLINK_UNCORRECTABLE);
XRUN_SAME_VALUE(CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
XRUN_SAME_VALUE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
XRUN_SAME_VALUE(CUDA_ERROR_JIT_COMPILATION_DISABLED);
XRUN_SAME_VALUE(CUDA_ERROR_OPERATING_SYSTEM);
XRUN_SAME_VALUE(CUDA_ERROR_INVALID_HANDLE);
XRUN_SAME_VALUE(CUDA_ERROR_NOT_FOUND);
XRUN_SAME_VALUE(CUDA_ERROR_NOT_READY);
XRUN_SAME_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
XRUN_SAME_VALUE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
XRUN_SAME_VALUE(CUDA_ERROR_LAUNCH_TIMEOUT);
XRUN_SAME_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
XRUN_SAME_VALUE(CUDA_ERROR_ASSERT);
XRUN_SAME_VALUE(CUDA_ERROR_HARDWARE_STACK_ERROR);
XRUN_SAME_VALUE(CUDA_ERROR_ILLEGAL_INSTRUCTION);
XRUN_SAME_VALUE(CUDA_ERROR_MISALIGNED_ADDRESS);
XRUN_SAME_VALUE(CUDA_ERROR_INVALID_ADDRESS_SPACE);
XRUN_SAME_VALUE(CUDA_ERROR_INVALID_PC);
XRUN_SAME_VALUE(CUDA_ERROR_LAUNCH_FAILED);
XRUN_SAME_VALUE(CUDA_ERROR_NOT_PERMITTED);
XRUN_SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);
XRUN_SAME_VALUE(CUDA_ERROR_SYSTEM_NOT_READY);
XRUN_SAME_VALUE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
XRUN_SAME_VALUE(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
XRUN_SAME_VALUE(CUDA_ERROR_UNKNOWN);
XRUN_SAME_VALUE(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
XRUN_SAME_VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
XRUN_SAME_VALUE(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
XRUN_SAME_VALUE(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
XRUN_SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
XRUN_SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
XRUN_SAME_VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
XRUN_SAME_VALUE(CU_JIT_ERROR_LOG_BUFFER);
XRUN_SAME_VALUE(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
XRUN_SAME_VALUE(CU_STREAM_NON_BLOCKING);
XRUN_SAME_VALUE(CU_EVENT_DEFAULT);
XRUN_SAME_VALUE(CU_EVENT_DISABLE_TIMING);

static_assert(kPortable == CU_MEMHOSTALLOC_PORTABLE && kEnd == CU_LAUNCH_PARAM_END_AS_INT);
static_assert(kPointer == CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT && kSize == CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);
static_assert(sizeof(CUresult) == sizeof(::CUresult) && sizeof(CUjit_option) == sizeof(::CUjit_option));
static_assert(sizeof(CUdevice_attribute) == sizeof(::CUdevice_attribute));
static_assert(sizeof(CUfunction_attribute) == sizeof(::CUfunction_attribute));
static_assert(std::is_same_v<CUdevice, ::CUdevice> && std::is_same_v<CUdeviceptr, ::CUdeviceptr>);
static_assert(std::is_same_v<CUhostFn, ::CUhostFn>);

#endif

TEST(DriverAbi, DeclarationsAreThoseOfCudasHeader) {
#ifdef XRUN_HAS_CUDA_HEADER
  SUCCEED() << "the compiler has compared them with version " << CUDA_VERSION;
#else
  GTEST_SKIP() << "no /usr/local/cuda/include/cuda.h to compare with";
#endif
}

// The members have the symbols that the driver library exports. A symbol without a version may be a function of CUDA 3.
TEST(DriverAbi, EverySymbolHasItsMember) {
  DriverTable table;
  int functions = 0;
  for_each_function(table, [&](const char* symbol, auto& function) {
    EXPECT_EQ(function, nullptr) << symbol;
    EXPECT_TRUE(std::string_view(symbol).starts_with("cu")) << symbol;
    ++functions;
  });
  EXPECT_EQ(static_cast<size_t>(functions) * sizeof(void*), sizeof(DriverTable));
}

}  // namespace
}  // namespace xrun::cuda
