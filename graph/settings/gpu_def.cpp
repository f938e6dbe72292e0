#include "graph/settings/gpu_def.h"

#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace xrun {
namespace {

// The time in which a stream starts small kernels one after the other, in round numbers.
constexpr Seconds kLaunch = 3e-6;

// Memory, bandwidths and rates are those of NVIDIA's data sheets "Tesla V100", "H100 Tensor Core GPU" and "H200 Tensor
// Core GPU" for the SXM modules. They give the rates of bf16 with sparsity, and those of NVLink and of PCIe for both
// directions together; all of these are halved here. A V100 has no tensor cores for bf16, so it computes bf16 as f32.
const GpuDef kGpus[] = {
    {"v100_16g", 16'000'000'000, 0.9e12, 15.7e12, 15.7e12, kLaunch, 150e9, 16e9},
    {"v100_32g", 32'000'000'000, 0.9e12, 15.7e12, 15.7e12, kLaunch, 150e9, 16e9},
    {"h100", 80'000'000'000, 3.35e12, 67e12, 989.5e12, kLaunch, 450e9, 64e9},
    {"h200", 141'000'000'000, 4.8e12, 67e12, 989.5e12, kLaunch, 450e9, 64e9},
};

}  // namespace

std::span<const GpuDef> gpu_defs() { return kGpus; }

const GpuDef* find_gpu(std::string_view name) {
  for (const GpuDef& gpu : kGpus) {
    if (gpu.name == (name == "h100_80g" ? "h100" : name)) {
      return &gpu;
    }
  }
  return nullptr;
}

std::string print_gpu(const GpuDef& gpu) {
  return fmt::format("{};{};{};{};{};{};{};{}", gpu.memory, gpu.bytes_per_second, gpu.flops_per_second_f32,
                     gpu.flops_per_second_bf16, gpu.launch, gpu.link_rate, gpu.host_rate, gpu.name);
}

std::optional<GpuDef> parse_gpu(std::string_view text) {
  GpuDef gpu;
  const auto read = [&](auto& number) {
    const size_t end = std::min(text.find(';'), text.size());
    const auto [stop, error] = std::from_chars(text.data(), text.data() + end, number);
    const bool whole = error == std::errc() && stop == text.data() + end && end < text.size();
    text.remove_prefix(std::min(end + 1, text.size()));
    return whole && number > 0 && std::isfinite(static_cast<double>(number));
  };
  const bool sound = read(gpu.memory) && read(gpu.bytes_per_second) && read(gpu.flops_per_second_f32) &&
                     read(gpu.flops_per_second_bf16) && read(gpu.launch) && read(gpu.link_rate) && read(gpu.host_rate);
  gpu.name = text;
  return sound && !gpu.name.empty() ? std::optional(std::move(gpu)) : std::nullopt;
}

}  // namespace xrun
