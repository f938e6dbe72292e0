#include "graph/settings/gpu_def.h"

namespace xrun {
namespace {

// The time in which a stream starts small kernels one after the other, in round numbers.
constexpr Seconds kLaunch = 3e-6;

// Memory, bandwidths and rates are those of NVIDIA's data sheets "Tesla V100", "H100 Tensor Core GPU" and "H200 Tensor
// Core GPU" for the SXM modules. They give the rates of bf16 with sparsity, and those of NVLink and of PCIe for both
// directions together; all of these are halved here. A V100 has no tensor cores for bf16, so it computes bf16 as f32.
constexpr GpuDef kGpus[] = {
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

}  // namespace xrun
