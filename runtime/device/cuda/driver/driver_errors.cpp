// Tests: tests/cuda/driver_errors_test.cpp
#include "runtime/device/cuda/driver/driver_errors.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

namespace xrun::cuda {

namespace {

constexpr std::string_view kUnknown = "CUDA_ERROR";  // the name of results without a row in kTexts
constexpr std::string_view kReport = "report this with the command and the output of `xrun doctor`";
constexpr std::string_view kRestart = "start the command again: it continues from the last checkpoint";
constexpr std::string_view kCheckGpu = "read the log of the system (`dmesg`, lines with Xid), and restart the machine";
constexpr std::string_view kInstall = "install the driver again, and restart the machine";
constexpr std::string_view kUpdate = "install a newer driver";
constexpr std::string_view kNoDevice =
    "check that `nvidia-smi -L` lists the GPU, and that CUDA_VISIBLE_DEVICES, if set, names it; start a container with "
    "`--gpus all`";

// Sources: CUDA Driver API, "CUresult"; CUDA Compatibility, "Forward Compatibility", for 803 and 804.
constexpr std::array<std::pair<CUresult, ResultText>, 37> kTexts{{
    {CUDA_ERROR_INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "an argument is wrong", kReport, "XG0853"}},
    {CUDA_ERROR_OUT_OF_MEMORY,
     {"CUDA_ERROR_OUT_OF_MEMORY", "not enough memory is free",
      "end other programs on this GPU (`nvidia-smi` lists them), or plan for less memory", "XG0854"}},
    {CUDA_ERROR_NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "the driver was not started", kReport, "XG0853"}},
    {CUDA_ERROR_DEINITIALIZED, {"CUDA_ERROR_DEINITIALIZED", "the driver is shutting down", kReport, "XG0853"}},
    {CUDA_ERROR_STUB_LIBRARY,
     {"CUDA_ERROR_STUB_LIBRARY", "the library is a stub of CUDA's toolkit and not the driver",
      "remove the folder `stubs` from LD_LIBRARY_PATH", "XG0850"}},
    {CUDA_ERROR_DEVICE_UNAVAILABLE,
     {"CUDA_ERROR_DEVICE_UNAVAILABLE", "another process uses the GPU exclusively",
      "end that process, or allow several processes: `nvidia-smi -c DEFAULT`", "XG0852"}},
    {CUDA_ERROR_NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "the driver finds no GPU", kNoDevice, "XG0852"}},
    {CUDA_ERROR_INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "there is no such GPU", kNoDevice, "XG0852"}},
    {CUDA_ERROR_INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "the kernels are damaged", kReport, "XG0855"}},
    {CUDA_ERROR_INVALID_CONTEXT,
     {"CUDA_ERROR_INVALID_CONTEXT", "the context is not current in this thread", kReport, "XG0853"}},
    {CUDA_ERROR_NO_BINARY_FOR_GPU,
     {"CUDA_ERROR_NO_BINARY_FOR_GPU", "the kernels were not compiled for this GPU",
      "use a GPU of compute capability 8.0 or more", "XG0855"}},
    {CUDA_ERROR_ECC_UNCORRECTABLE,
     {"CUDA_ERROR_ECC_UNCORRECTABLE", "the memory of the GPU has an error that cannot be corrected", kCheckGpu,
      "XG0856"}},
    {CUDA_ERROR_INVALID_PTX, {"CUDA_ERROR_INVALID_PTX", "the driver does not accept the kernels", kReport, "XG0855"}},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE,
     {"CUDA_ERROR_NVLINK_UNCORRECTABLE", "a link between GPUs has an error that cannot be corrected", kCheckGpu,
      "XG0856"}},
    {CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
     {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "the driver's compiler is missing",
      "install the package with libnvidia-ptxjitcompiler.so.1", "XG0855"}},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
     {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the kernels need a newer driver", kUpdate, "XG0855"}},
    {CUDA_ERROR_JIT_COMPILATION_DISABLED,
     {"CUDA_ERROR_JIT_COMPILATION_DISABLED", "the driver may not compile kernels", "unset CUDA_DISABLE_PTX_JIT",
      "XG0855"}},
    {CUDA_ERROR_OPERATING_SYSTEM,
     {"CUDA_ERROR_OPERATING_SYSTEM", "the system refused a call of the driver",
      "raise `ulimit -v` and `ulimit -l`, and check that /dev/nvidia* can be opened", "XG0853"}},
    {CUDA_ERROR_INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "a handle is wrong", kReport, "XG0853"}},
    {CUDA_ERROR_NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "there is no kernel with this name", kReport, "XG0855"}},
    {CUDA_ERROR_NOT_READY, {"CUDA_ERROR_NOT_READY", "the work has not ended", kReport, "XG0853"}},
    {CUDA_ERROR_ILLEGAL_ADDRESS,
     {"CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel accessed an address outside its memory", kReport, "XG0856"}},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
     {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "a kernel needs more registers or memory than the GPU has", kReport,
      "XG0855"}},
    {CUDA_ERROR_LAUNCH_TIMEOUT,
     {"CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran for longer than the system allows",
      "use a GPU that shows no desktop, or set the option Interactive of its X driver to off", "XG0856"}},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED,
     {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context was destroyed", kReport, "XG0853"}},
    {CUDA_ERROR_ASSERT, {"CUDA_ERROR_ASSERT", "an assertion of a kernel failed", kReport, "XG0856"}},
    {CUDA_ERROR_HARDWARE_STACK_ERROR,
     {"CUDA_ERROR_HARDWARE_STACK_ERROR", "the stack of a kernel is damaged", kReport, "XG0856"}},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION,
     {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "a kernel has an instruction that the GPU does not know", kReport, "XG0856"}},
    {CUDA_ERROR_MISALIGNED_ADDRESS,
     {"CUDA_ERROR_MISALIGNED_ADDRESS", "a kernel accessed a misaligned address", kReport, "XG0856"}},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE,
     {"CUDA_ERROR_INVALID_ADDRESS_SPACE", "a kernel accessed an address of another state space", kReport, "XG0856"}},
    {CUDA_ERROR_INVALID_PC,
     {"CUDA_ERROR_INVALID_PC", "a kernel jumped to an address without instructions", kReport, "XG0856"}},
    {CUDA_ERROR_LAUNCH_FAILED, {"CUDA_ERROR_LAUNCH_FAILED", "a kernel failed", kReport, "XG0856"}},
    {CUDA_ERROR_NOT_PERMITTED, {"CUDA_ERROR_NOT_PERMITTED", "the call is not permitted here", kReport, "XG0853"}},
    {CUDA_ERROR_NOT_SUPPORTED,
     {"CUDA_ERROR_NOT_SUPPORTED", "the GPU or the driver does not support the call", kUpdate, "XG0853"}},
    {CUDA_ERROR_SYSTEM_NOT_READY,
     {"CUDA_ERROR_SYSTEM_NOT_READY", "services of the driver are not running",
      "start them: `systemctl start nvidia-fabricmanager nvidia-persistenced`", "XG0852"}},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
     {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the driver's library and its kernel module have different versions",
      "restart the machine, or install the driver again", "XG0850"}},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
     {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "the driver's library needs a newer kernel module on this GPU",
      kInstall, "XG0850"}},
}};

}  // namespace

ResultText text_of(CUresult result) {
  const auto* const found =
      std::ranges::find(kTexts, result, [](const std::pair<CUresult, ResultText>& one) { return one.first; });
  return found != kTexts.end() ? found->second
                               : ResultText{kUnknown, "the driver returned a result that xrun does not know",
                                            "look up the number in CUDA's documentation, \"CUresult\"", "XG0853"};
}

bool is_permanent(CUresult result) { return text_of(result).code == "XG0856"; }

Error driver_error(CUresult result, std::string_view symbol, const std::string& place, const DriverTable* driver) {
  const ResultText text = text_of(result);
  const char* name = nullptr;
  if (text.name == kUnknown && driver != nullptr) {
    driver->cuGetErrorName(result, &name);
  }
  std::string message = fmt::format("{}: {} ({} returned {}, {})", place, text.cause, symbol,
                                    name != nullptr ? name : text.name, static_cast<uint32_t>(result));
  std::string help(text.fix);
  if (is_permanent(result)) {
    message += "; the GPU reports this late, so an earlier call may be the cause";
    help = help == kReport ? fmt::format("{}; if the error occurs again, {}", kRestart, kReport) : help;
  }
  return {.kind = ErrorKind::kWorld, .code = std::string(text.code), .message = message, .help = help};
}

Status to_status(CUresult result, std::string_view symbol, const std::string& place) {
  if (result == CUDA_SUCCESS) {
    return {};
  }
  return driver_error(result, symbol, place);
}

}  // namespace xrun::cuda
