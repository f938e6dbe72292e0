#include "runtime/bench/command/machine_name.h"

#include <fmt/format.h>

#include "runtime/device/cuda/machine/gpu_probe.h"

namespace xrun::cli {

std::string machine_name(const runtime::Host& host, std::string_view instruction_set) {
  constexpr Seconds kMostDetection = 2;  // the benchmark is done, and only its report waits
  std::string name = fmt::format("{}, {} {}", host.cpu, host.cores, host.cores == 1 ? "core" : "cores");
  for (const std::string& part :
       {std::string(instruction_set), cuda::names_of(cuda::GpuProbe().wait(kMostDetection))}) {
    name += part.empty() ? "" : ", " + part;
  }
  return name;
}

}  // namespace xrun::cli
