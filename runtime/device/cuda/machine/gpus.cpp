// Tests: tests/cuda/gpus_test.cpp
#include "runtime/device/cuda/machine/gpus.h"

#include <array>
#include <cstdlib>
#include <fmt/format.h>

#include "runtime/device/cuda/driver/context.h"
#include "runtime/device/cuda/driver/driver_errors.h"

namespace xrun::cuda {

namespace {

std::string text_of(const Error& error) {
  return error.help.empty() ? error.message : error.message + "; " + error.help;
}

Result<Gpu> detect(const DriverTable& driver, int ordinal) {
  const std::string place = fmt::format("cuda:{}", ordinal);
  CUdevice device = 0;
  XRUN_TRY(to_status(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet", place));
  std::array<char, 256> name{};  // the last byte stays 0, also if a driver ends a long name without one
  XRUN_TRY(to_status(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device), "cuDeviceGetName",
                     place));
  size_t bytes = 0;
  XRUN_TRY(to_status(driver.cuDeviceTotalMem_v2(&bytes, device), "cuDeviceTotalMem_v2", place));
  XRUN_ASSIGN(const int capability, capability_of(driver, device, place));
  return Gpu{.name = name.data(),
             .memory = static_cast<Bytes>(bytes),
             .capability = fmt::format("{}.{}", capability / 10, capability % 10)};
}

// Calls visit(gpu, count) for each run of equal GPUs.
template <class Visit>
void for_each_kind(const Gpus& gpus, const Visit& visit) {
  for (size_t i = 0; i < gpus.found.size();) {
    size_t end = i;
    while (end < gpus.found.size() && gpus.found[end] == gpus.found[i]) {
      ++end;
    }
    visit(gpus.found[i], end - i);
    i = end;
  }
}

}  // namespace

Gpus detect_gpus(const std::string& library) {
  const auto driver = find_driver(library);
  return driver.ok() ? detect_gpus(*driver) : Gpus{.found = {}, .driver = "", .error = text_of(driver.error())};
}

Gpus detect_gpus(const DriverTable& driver) {
  Gpus gpus;
  int version = 0;
  if (driver.cuDriverGetVersion(&version) == CUDA_SUCCESS && version != 0) {
    gpus.driver = version_text(version);
  }
  const auto started = start_driver(driver);
  if (!started.ok()) {
    gpus.error = text_of(started.error());
    return gpus;
  }
  int count = 0;
  if (const Status counted = to_status(driver.cuDeviceGetCount(&count), "cuDeviceGetCount", "counting GPUs");
      !counted.ok()) {
    gpus.error = text_of(counted.error());
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto gpu = detect(driver, ordinal);
    if (gpu.ok()) {
      gpus.found.push_back(std::move(gpu).value());
    } else if (gpus.error.empty()) {
      gpus.error = text_of(gpu.error());
    }
  }
  return gpus;
}

bool is_usable(const Gpu& gpu) { return std::atof(gpu.capability.c_str()) >= 8; }

std::vector<std::string> describe(const Gpus& gpus) {
  std::vector<std::string> lines;
  for_each_kind(gpus, [&](const Gpu& gpu, size_t count) {
    lines.push_back(fmt::format("{} x {}, {}, compute capability {}{}", count, gpu.name, format_bytes(gpu.memory),
                                gpu.capability, is_usable(gpu) ? "" : ": too low, the kernels need 8.0 or more"));
  });
  if (!gpus.error.empty()) {
    lines.push_back((lines.empty() ? "none: " : "some are missing: ") + gpus.error);
  } else if (lines.empty()) {
    lines.emplace_back("none");
  }
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr && !gpus.found.empty()) {
    lines.push_back(fmt::format("CUDA_VISIBLE_DEVICES is \"{}\" and hides all other GPUs", visible));
  }
  const std::string driver = gpus.driver.empty() ? "" : "driver for CUDA " + gpus.driver + "; ";
  lines.push_back(driver + (gpus.found.empty() ? "" : "without `--devices cuda`, ") + "devices are CPU cores");
  return lines;
}

std::string names_of(const Gpus& gpus) {
  std::string names;
  for_each_kind(gpus, [&](const Gpu& gpu, size_t count) {
    names += fmt::format("{}{} x {}", names.empty() ? "" : ", ", count, gpu.name);
  });
  return names;
}

}  // namespace xrun::cuda
