// The rates that `xrun bench --calibrate` has measured on a machine: the group `calibration` of a cluster's node.
// Predicted times follow from them instead of from formulas (planner/cost/calibrated_times.h).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/units.h"
#include "graph/settings/gpu_def.h"

namespace xrun {

// A measured call of a kernel on one core: its work by the formulas of its operator, and its time.
struct CallTime {
  Flops flops = 0;
  double bytes = 0;
  Seconds time = 0;
};

// The time of an exchange between devices: `start` for each other member, and its bytes at `rate`.
struct ExchangeTime {
  Seconds start = 0;
  double rate = 0;  // bytes a second; 0: not measured
};

// The measured calls of a kind of operator: "conv1x1_dx" (docs/reference/calibration.md).
using CallTimes = std::map<std::string, std::vector<CallTime>>;

struct Calibration {
  std::string instructions;  // the instruction set: "amx"
  CallTimes f32;             // calls whose first operand is f32
  CallTimes bf16;            // calls whose first operand is bf16
  Flops head_f32 = 0;        // operations a second of the products of heads on one core; 0: not measured
  Flops head_bf16 = 0;
  double update = 0;              // bytes a second that an update reads and writes on one core; 0: not measured
  std::vector<double> bandwidth;  // bytes a second of 1, 2, ... threads together
  std::vector<double> slow_down;  // time of products on 1, 2, ... cores relative to one core
  ExchangeTime copy;
  ExchangeTime all_gather;
  ExchangeTime reduce_scatter;
  std::optional<Seconds> hand_over;  // time to hand a task to another thread
  Seconds decode = 0;                // time to decode a pixel of a JPEG on one core; 0: not measured

  // The element for a count of threads or cores: that of the largest measured count, if `count` is larger. `fallback`
  // if the list is empty.
  static double of_count(const std::vector<double>& list, int count, double fallback) {
    const auto last = static_cast<int>(list.size());
    return list.empty() ? fallback : list[static_cast<size_t>(std::max(1, std::min(count, last)) - 1)];
  }
};

// The figures of a cluster's nodes that its text states or that were measured there.
struct ClusterFigures {
  std::optional<GpuDef> device;            // the group `device`
  std::optional<Calibration> calibration;  // the group `calibration`
};

}  // namespace xrun
