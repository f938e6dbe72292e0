#include "runtime/executor/median_times.h"

#include <algorithm>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

MedianTimes::MedianTimes(const planner::Program& program, DeviceRange own, int64_t most) {
  for (const planner::Instruction& one : program.instructions) {
    own_.push_back(one.device == planner::kHost || (one.device >= own.first && one.device < own.first + own.count));
  }
  times_.reserve(own_.size() * static_cast<size_t>(most));
  steps_.reserve(static_cast<size_t>(most));
}

void MedianTimes::add(std::span<const Timing> timings, double step) {
  XRUN_CHECK(timings.size() == own_.size() && times_.size() + own_.size() <= times_.capacity(), "a step too many");
  for (size_t i = 0; i < own_.size(); ++i) {
    times_.push_back(own_[i] ? MedianTime{timings[i].begin, timings[i].end} : MedianTime());
  }
  steps_.push_back(step);
}

std::vector<MedianTime> MedianTimes::instructions() const {
  std::vector<MedianTime> medians(own_.size());
  std::vector<double> begins(steps_.size());
  std::vector<double> ends(steps_.size());
  for (size_t i = 0; i < own_.size(); ++i) {
    for (size_t s = 0; s < steps_.size(); ++s) {
      begins[s] = times_[s * own_.size() + i].begin;
      ends[s] = times_[s * own_.size() + i].end;
    }
    const double begin = median(begins);
    medians[i] = {begin, std::max(begin, median(ends))};
  }
  return medians;
}

double MedianTimes::step() const { return median(steps_); }

}  // namespace xrun::runtime
