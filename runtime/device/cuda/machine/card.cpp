// Tests: tests/cuda/machine/card_test.cpp
#include "runtime/device/cuda/machine/card.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "runtime/device/cuda/driver/context.h"
#include "runtime/device/cuda/driver/driver_errors.h"

namespace xrun::cuda {
namespace {

// Assumed if a driver reports no clocks, as those of some integrated GPUs.
constexpr double kUsualClock = 1e9;
constexpr double kUsualBandwidth = 100e9;

constexpr double kPcie = 32e9;     // bytes a second of PCIe 4.0 with 16 lanes, in each direction
constexpr Seconds kLaunch = 3e-6;  // like the kinds of graph/settings/gpu_def.cpp

// The names of SXM modules, for which the published figures of a kind hold.
constexpr std::array<std::string_view, 2> kModules{"NVIDIA H100 80GB HBM3", "NVIDIA H200"};

// Returns the words of a name: "NVIDIA H100-PCIe" has NVIDIA, H100 and PCIe.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of(" -"), name.size());
    words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

// Returns the kind of a card. A part of a GPU (MIG) has other figures than the kind.
const GpuDef* kind_of(const Card& card) {
  const auto words = words_of(card.name);
  const auto has = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  return has("MIG") ? nullptr : has("H100") ? find_gpu("h100") : has("H200") ? find_gpu("h200") : nullptr;
}

// Returns the products and sums in f32 that a multiprocessor computes in a cycle, and those in bf16 of its tensor
// cores. Sources: NVIDIA, "CUDA C++ Programming Guide", "Throughput of Native Arithmetic Instructions"; the peak rates
// of NVIDIA's architecture white papers, divided by multiprocessors and clock. Drivers name consumer cards "GeForce";
// their tensor cores add in f32 at half the rate.
std::pair<double, double> flops_of_cycle(const Card& card) {
  switch (card.capability) {
    case 80:
      return {128, 2048};
    case 90:
      return {256, 4096};
    case 100:
    case 103:
      return {256, 8192};
    default:
      return {256, card.name.find("GeForce") != std::string::npos ? 512 : 1024};
  }
}

}  // namespace

Result<Card> read_card(const DriverTable& driver, int number) {
  const std::string place = fmt::format("cuda:{}", number);
  Card card{.number = number};
  CUdevice device = 0;
  XRUN_TRY(to_status(driver.cuDeviceGet(&device, number), "cuDeviceGet", place));
  std::array<char, 256> name{};  // the last byte stays 0, also if a driver ends a long name without one
  XRUN_TRY(to_status(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device), "cuDeviceGetName",
                     place));
  card.name = name.data();
  XRUN_ASSIGN(card.capability, capability_of(driver, device, place));
  // A driver that does not know an attribute refuses the call.
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? std::max(value, 0) : 0;
  };
  card.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  card.clock = 1e3 * attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  card.memory_clock = 1e3 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  card.bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  return card;
}

CardFigures figures_of(const Card& card) {
  if (const GpuDef* kind = kind_of(card)) {
    const bool published = std::ranges::find(kModules, card.name) != kModules.end();
    return {*kind,
            published ? "" : fmt::format("planned as {}, with the published figures of the SXM module", kind->name)};
  }
  const auto [f32, bf16] = flops_of_cycle(card);
  const double cycles = std::max(card.multiprocessors, 1) * (card.clock > 0 ? card.clock : kUsualClock);
  const double bandwidth = 2 * card.memory_clock * card.bus_bits / 8;
  GpuDef gpu{.name = card.name,
             .memory = 0,
             .bytes_per_second = bandwidth > 0 ? bandwidth : kUsualBandwidth,
             .flops_per_second_f32 = f32 * cycles,
             .flops_per_second_bf16 = bf16 * cycles,
             .launch = kLaunch,
             .link_rate = kPcie,
             .host_rate = kPcie};
  std::string assumption =
      fmt::format("planned with rates from its driver: {:.1f} TFLOPS in f32, {:.1f} in bf16, {:.0f} GB/s",
                  gpu.flops_per_second_f32 / 1e12, gpu.flops_per_second_bf16 / 1e12, gpu.bytes_per_second / 1e9);
  return {std::move(gpu), std::move(assumption)};
}

}  // namespace xrun::cuda
