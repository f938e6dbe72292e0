// Tests: tests/lang/lower/placement/device_group_test.cpp, tests/ops/facts/gpu_facts_test.cpp
#include "graph/settings/gpu_def.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <vector>

namespace xrun {
namespace {

constexpr Bytes kGB = 1'000'000'000;

struct Entry {
  GpuDef gpu;
  std::string_view link;  // what joins two of them
};

constexpr std::string_view kNvlink = "NVLink";
constexpr std::string_view kPcie = "PCIe";
constexpr std::string_view kIci = "the links of TPUs";

// Memory, bandwidths and rates of products without sparsity, and those of links in one direction.
//
// NVIDIA: the data sheets "Tesla P40", "Tesla P100" (SXM2), "Tesla V100" (SXM2), "A100 Tensor Core GPU" (SXM4), "L40S",
// "H100 Tensor Core GPU" (SXM5), "H200 Tensor Core GPU" (SXM5) and "DGX B200" (divided by its eight GPUs), and the
// white paper "Ada GPU Architecture" (RTX 4090). Newer sheets give the rates of bf16 with sparsity, and those of NVLink
// and of PCIe for both directions together; all of these are halved here. Cards before the A100 have no tensor cores
// for bf16, so they compute bf16 as f32. The rate of bf16 of an RTX 4090 is that with sums in f32.
//
// Google: Jouppi et al., "A Domain-Specific Supercomputer for Training Deep Neural Networks", CACM 63(7), 2020,
// table 3. A device is one of the two cores of a chip, with half of the chip's memory and rates, and the rate of one of
// the chip's four links. Hosts reach TPUs over PCIe 3.0 x16.
const Entry kGpus[] = {
    {{"tpu_v2", 8 * kGB, 0.35e12, 1.5e12, 23e12, kUsualLaunch, 62e9, 16e9}, kIci},
    {{"tpu_v3", 16 * kGB, 0.45e12, 2e12, 61.5e12, kUsualLaunch, 82e9, 16e9}, kIci},
    {{"p100", 16 * kGB, 0.732e12, 10.6e12, 10.6e12, kUsualLaunch, 80e9, 16e9}, kNvlink},
    {{"v100_16g", 16 * kGB, 0.9e12, 15.7e12, 15.7e12, kUsualLaunch, 150e9, 16e9}, kNvlink},
    {{"p40", 24 * kGB, 0.346e12, 12e12, 12e12, kUsualLaunch, 16e9, 16e9}, kPcie},
    {{"rtx_4090", 24 * kGB, 1.008e12, 82.6e12, 165.2e12, kUsualLaunch, 32e9, 32e9}, kPcie},
    {{"v100_32g", 32 * kGB, 0.9e12, 15.7e12, 15.7e12, kUsualLaunch, 150e9, 16e9}, kNvlink},
    {{"a100_40g", 40 * kGB, 1.555e12, 19.5e12, 312e12, kUsualLaunch, 300e9, 32e9}, kNvlink},
    {{"l40s", 48 * kGB, 0.864e12, 91.6e12, 362e12, kUsualLaunch, 32e9, 32e9}, kPcie},
    {{"a100_80g", 80 * kGB, 2.039e12, 19.5e12, 312e12, kUsualLaunch, 300e9, 32e9}, kNvlink},
    {{"h100", 80 * kGB, 3.35e12, 67e12, 989.5e12, kUsualLaunch, 450e9, 64e9}, kNvlink},
    {{"h200", 141 * kGB, 4.8e12, 67e12, 989.5e12, kUsualLaunch, 450e9, 64e9}, kNvlink},
    {{"b200", 180 * kGB, 8e12, 75e12, 2250e12, kUsualLaunch, 900e9, 64e9}, kNvlink},
};

const Entry* find_entry(std::string_view name) {
  const auto found = std::ranges::find_if(
      kGpus, [&](const Entry& entry) { return entry.gpu.name == (name == "h100_80g" ? "h100" : name); });
  return found != std::end(kGpus) ? found : nullptr;
}

}  // namespace

std::span<const GpuDef> gpu_defs() {
  static const std::vector<GpuDef> all = [] {
    std::vector<GpuDef> list;
    for (const Entry& entry : kGpus) {
      list.push_back(entry.gpu);
    }
    return list;
  }();
  return all;
}

const GpuDef* find_gpu(std::string_view name) {
  const Entry* entry = find_entry(name);
  return entry != nullptr ? &entry->gpu : nullptr;
}

std::string_view link_of_gpu(std::string_view name) {
  const Entry* entry = find_entry(name);
  return entry != nullptr ? entry->link : std::string_view();
}

std::string why_only_planned(std::string_view name) {
  if (name == kStatedDevice) {
    return "its cluster states the figures of devices and does not name a kind of GPU";
  }
  return link_of_gpu(name) == kIci ? "xrun has no programs for TPUs" : "";
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
