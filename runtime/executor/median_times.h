// The times of each instruction over several steps, as medians: a step that the system has interrupted does not change
// them.
#pragma once

#include <span>
#include <vector>

#include "planner/program/program.h"
#include "runtime/executor/step_times.h"

namespace xrun::runtime {

// Seconds from the start of the step; negative: the instruction belongs to another rank.
struct MedianTime {
  double begin = -1;
  double end = -1;
};

// Threads: one.
class MedianTimes {
 public:
  // Collects at most `most` steps of a program.
  MedianTimes(const planner::Program& program, DeviceRange own, int64_t most);

  // Adds a step. Allocates nothing. REQUIRES: fewer than `most` steps were added.
  void add(std::span<const Timing> timings, double step);

  // Return the medians over the steps. REQUIRES: a step was added.
  std::vector<MedianTime> instructions() const;
  double step() const;

 private:
  std::vector<bool> own_;          // index: instruction
  std::vector<MedianTime> times_;  // one step after the other
  std::vector<double> steps_;
};

}  // namespace xrun::runtime
