// The results of `xrun simulate --wall`, as text, CSV and JSON (docs/reference/command/simulate.md, "By the clock").
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/base/units.h"

namespace xrun::cli {

// A step. All times are those of the plan: seconds of the clock divided by WallReport::slow.
struct WallStepTimes {
  Seconds simulated = 0;  // prediction of the simulator, with the noise of this step
  Seconds measured = 0;   // time by the clock
};

struct WallDevice {
  double predicted = 0;  // fraction of a step in which the device computes, predicted without noise
  double measured = 0;   // the same by the clock, over all steps
};

struct WallReport {
  std::string model;
  std::string machine;  // Machine::name
  // Numbers and words of the plan, as names and values: "stages", "replicas", "micro_batches", "pipeline".
  std::vector<std::pair<std::string, std::string>> settings;
  size_t instructions = 0;
  double slow = 1;
  double noise = 0;
  int64_t seed = 1;
  Seconds predicted = 0;  // prediction of the simulator, without noise
  std::vector<WallStepTimes> steps;
  std::vector<WallDevice> devices;
};

// The smallest, the median and the largest of some values. REQUIRES: there are some.
struct Spread {
  double low = 0;
  double median = 0;
  double high = 0;
};
Spread spread_of(std::vector<double> values);

// Lines are at most `columns` wide, except for longer words; 0: no limit.
std::string wall_text(const WallReport& report, int columns);
// A row for each step, with a header row; in seconds.
std::string wall_csv(const WallReport& report);
std::string wall_json(const WallReport& report);

}  // namespace xrun::cli
