// The catalogue: the kinds of accelerators that a cluster can name, with the figures that their vendors have published.
// Plans for them are made on any machine, without a driver. Other GPUs have the figures that their driver reports
// (runtime/device/cuda/machine/card.h) or that a cluster states (`device { ... }`).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/units.h"

namespace xrun {

struct GpuDef {
  std::string name;  // "h100"; for a GPU that is in no table, the name that its driver reports
  // The memory that a plan may use. The card has a few GiB more than the published number of bytes, which are left to
  // the driver.
  Bytes memory = 0;
  double bytes_per_second = 0;  // bandwidth of this memory
  Flops flops_per_second_f32 = 0;
  Flops flops_per_second_bf16 = 0;  // dense products with sums in f32
  Seconds launch = 0;               // time to start a kernel, an estimate: vendors publish none
  double link_rate = 0;             // bytes a second between two GPUs of a node, in each direction
  double host_rate = 0;             // bytes a second between the GPU and its host, in each direction

  bool operator==(const GpuDef&) const = default;
};

// The times and rates that are assumed where a cluster states no figure: the start of a kernel, and PCIe 4.0 x16.
inline constexpr Seconds kUsualLaunch = 3e-6;
inline constexpr double kUsualLinkRate = 32e9;
// GpuDef::name of devices whose figures a cluster states.
inline constexpr std::string_view kStatedDevice = "device";

// All kinds, in the order of their memory.
std::span<const GpuDef> gpu_defs();
// Returns the kind with a name, or with another name of it ("h100_80g"); null if there is none.
const GpuDef* find_gpu(std::string_view name);
// Returns what joins two devices of a kind, "NVLink", "PCIe" or "the links of TPUs"; empty if the kind is in no table.
std::string_view link_of_gpu(std::string_view name);
// Returns why no program of xrun runs on a kind of device; empty if programs may run there.
std::string why_only_planned(std::string_view name);

// The figures as one line, and the figures of such a line; nullopt if the text has another form. Equal figures give
// equal lines.
std::string print_gpu(const GpuDef& gpu);
std::optional<GpuDef> parse_gpu(std::string_view text);

}  // namespace xrun
