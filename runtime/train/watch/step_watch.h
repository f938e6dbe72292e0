// Compares the first steps of a run with the prediction, and finds the instructions that explain a difference.
#pragma once

#include <optional>
#include <vector>

#include "runtime/executor/step_profile.h"
#include "runtime/train/events/run_events.h"
#include "runtime/train/events/step_events.h"

namespace xrun::runtime {

// Returns the profile row that explains most of the `excess`, the time by which a step exceeds its prediction: the
// slowest row of computation if it explains half of the excess, else the row that explains most, which may be a row of
// waiting. Nullopt if no row is slower than predicted.
std::optional<ProfileRow> slowest_row(const std::vector<ProfileRow>& rows, Seconds excess);

// Threads: one.
class StepWatch {
 public:
  static constexpr int64_t kWarmUp = 5;
  static constexpr int64_t kMeasured = 20;

  //   predicted_step  predicted duration of a step; 0: unknown
  StepWatch(StepProfile profile, Seconds predicted_step)
      : profile_(std::move(profile)), predicted_step_(predicted_step) {}

  // Counts the next step, and returns whether to call `add` after it.
  bool wants_step() { return ++steps_ > kWarmUp && steps_ <= kWarmUp + kMeasured; }
  // Adds a measured step. Returns warnings once, after kMeasured steps: XG0811, with device and instruction, if steps
  // are 15 % slower than predicted; XG0812 if steps wait for data.
  std::vector<WarnEvent> add(const StepReport& report, std::span<const Timing> timings, const StepTimes& times);

 private:
  WarnEvent explain(Seconds step) const;

  StepProfile profile_;
  Seconds predicted_step_;
  int64_t steps_ = 0;
  Seconds measured_ = 0;
  Seconds waited_ = 0;
  Seconds on_devices_ = 0;  // time from the start of a step to its last instruction
};

}  // namespace xrun::runtime
