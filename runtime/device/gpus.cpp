#include "runtime/device/gpus.h"

#include <fmt/format.h>

#ifdef XRUN_CUDA
#include <cuda_runtime_api.h>
#endif

namespace xrun::runtime {

#ifdef XRUN_CUDA

namespace {

// CUDA represents version 13.0 as 13000, and an unknown version as 0.
std::string version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::optional<Gpus> detect_gpus() {
  Gpus gpus;
  const auto works = [&](cudaError_t status) {
    if (status != cudaSuccess && gpus.error.empty()) {
      gpus.error = fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
    }
    return status == cudaSuccess;
  };
  int version = 0;
  if (works(cudaRuntimeGetVersion(&version))) {
    gpus.runtime = version_text(version);
  }
  if (works(cudaDriverGetVersion(&version))) {
    gpus.driver = version_text(version);
  }
  int count = 0;
  if (!works(cudaGetDeviceCount(&count))) {
    return gpus;
  }
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (works(cudaGetDeviceProperties(&properties, device))) {
      gpus.found.push_back({.name = properties.name,
                            .memory = static_cast<Bytes>(properties.totalGlobalMem),
                            .capability = fmt::format("{}.{}", properties.major, properties.minor)});
    }
  }
  return gpus;
}

#else

std::optional<Gpus> detect_gpus() { return std::nullopt; }

#endif

std::vector<std::string> describe(const std::optional<Gpus>& gpus) {
  if (!gpus) {
    return {
        "built without CUDA: devices are CPU cores; to build with it: cmake --preset cuda && cmake --build --preset "
        "cuda"};
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < gpus->found.size();) {
    const Gpu& gpu = gpus->found[i];
    size_t end = i;
    while (end < gpus->found.size() && gpus->found[end] == gpu) {
      ++end;
    }
    lines.push_back(
        fmt::format("{} x {}, {}, compute capability {}", end - i, gpu.name, format_bytes(gpu.memory), gpu.capability));
    i = end;
  }
  if (!gpus->error.empty()) {
    lines.push_back((lines.empty() ? "none: " : "some are missing: ") + gpus->error);
  } else if (lines.empty()) {
    lines.emplace_back("none");
  }
  lines.push_back(fmt::format("{}, runtime of CUDA {}; nothing runs on a GPU yet: devices are CPU cores",
                              gpus->driver.empty() ? "no driver" : "driver for CUDA " + gpus->driver, gpus->runtime));
  return lines;
}

}  // namespace xrun::runtime
