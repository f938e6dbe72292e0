// Watches the first steps of a run: whether they take as long as was predicted, and where the difference is.
#pragma once

#include <optional>
#include <vector>

#include "runtime/executor/step_profile.h"
#include "runtime/train/events.h"

namespace xrun::runtime {

// The row that explains most of a step that is slower by `excess`: of what computes, if that explains half of it; else
// of what waits. None where no row is slower than predicted.
std::optional<ProfileRow> slowest_row(const std::vector<ProfileRow>& rows, Seconds excess);

// Threads: one.
class StepWatch {
 public:
  static constexpr int64_t kWarmUp = 5;
  static constexpr int64_t kMeasured = 20;

  //   predicted_step  0: not known
  StepWatch(StepProfile profile, Seconds predicted_step)
      : profile_(std::move(profile)), predicted_step_(predicted_step) {}

  // Counts the next step, and says whether the watch is to be told of it.
  bool wants_step() { return ++steps_ > kWarmUp && steps_ <= kWarmUp + kMeasured; }
  // Tells the watch of a step that it wants. Once, when enough of them have been measured: XG0811, steps are 15 %
  // slower than predicted, with device and instruction; XG0812, they wait for data.
  std::vector<WarnEvent> add(const StepReport& report, std::span<const Timing> timings, const StepTimes& times);

 private:
  WarnEvent explain(Seconds step) const;

  StepProfile profile_;
  Seconds predicted_step_;
  int64_t steps_ = 0;
  Seconds measured_ = 0;
  Seconds waited_ = 0;
  Seconds on_devices_ = 0;  // from the start of a step to its last instruction
};

}  // namespace xrun::runtime
