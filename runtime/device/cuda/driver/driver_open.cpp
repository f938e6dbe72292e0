// Tests: tests/cuda/driver_open_test.cpp
#include "runtime/device/cuda/driver/driver_open.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>

#include "runtime/device/cuda/driver/driver_errors.h"

namespace xrun::cuda {

namespace {

constexpr const char* kInstall =
    "install NVIDIA's driver (Debian 12: add `contrib non-free non-free-firmware` to its sources, then `apt install "
    "nvidia-driver libcuda1`; Ubuntu: `ubuntu-drivers install`) and restart the machine; start a container with "
    "`--gpus all`";

Error too_old(std::string message) {
  return {.kind = ErrorKind::kWorld,
          .code = "XG0851",
          .message = std::move(message),
          .help = fmt::format("install version 525 or newer of NVIDIA's driver, which supports CUDA {}",
                              version_text(kLeastDriver))};
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Result<DriverTable> find_driver(const std::string& library) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const reason = dlerror();
    return Error{.kind = ErrorKind::kWorld,
                 .code = "XG0850",
                 .message = fmt::format("the GPU driver cannot be opened: {}", reason != nullptr ? reason : library),
                 .help = kInstall};
  }
  DriverTable driver;
  std::string missing;
  for_each_function(driver, [&]<class Function>(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(opened, symbol));
    if (function == nullptr && missing.empty()) {
      missing = symbol;
    }
  });
  if (!missing.empty()) {
    return too_old(fmt::format("the GPU driver, {}, lacks the function `{}`", library, missing));
  }
  return driver;
}

Result<int> start_driver(const DriverTable& driver) {
  int version = 0;
  XRUN_TRY(to_status(driver.cuDriverGetVersion(&version), "cuDriverGetVersion", "asking the driver for its version"));
  if (version < kLeastDriver) {
    return too_old(fmt::format("the GPU driver supports CUDA {}, and xrun needs {}", version_text(version),
                               version_text(kLeastDriver)));
  }
  const CUresult started = driver.cuInit(0);
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (started == CUDA_ERROR_NO_DEVICE && visible != nullptr) {
    return Error{.kind = ErrorKind::kWorld,
                 .code = "XG0852",
                 .message = fmt::format("the driver may use no GPU: CUDA_VISIBLE_DEVICES is \"{}\"", visible),
                 .help =
                     "unset CUDA_VISIBLE_DEVICES, or name GPUs of `nvidia-smi -L` in it: "
                     "CUDA_VISIBLE_DEVICES=0"};
  }
  XRUN_TRY(to_status(started, "cuInit", "starting the GPU driver"));
  return version;
}

Result<DriverTable> open_driver(const std::string& library) {
  XRUN_ASSIGN(const DriverTable driver, find_driver(library));
  XRUN_TRY([&]() -> Status {
    auto version = start_driver(driver);
    return version.ok() ? Status() : Status(std::move(version).error());
  }());
  return driver;
}

}  // namespace xrun::cuda
