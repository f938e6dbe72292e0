// Finds the device that is slow against the others. It compares ratios of measured to predicted time, so that a device
// with more work is not taken for a slow one. Several ranks watch the whole run together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/step_profile.h"

namespace xrun::runtime {

struct DevicePace {
  int device = 0;
  Seconds busy = 0;  // of a step: it computes
  Seconds predicted = 0;
  std::string what;    // the instructions that exceed their prediction most: "backward of stage 1 (block.conv .. fc)"
  Seconds excess = 0;  // by so much

  bool operator==(const DevicePace&) const = default;
};

// What a rank tells the others at the end of a window.
struct PaceReport {
  int64_t window = 0;  // steps that the next window should have, by this rank's clock
  std::vector<DevicePace> paces;

  bool operator==(const PaceReport&) const = default;
};

// As text: the window, then a line for each device. Text of another form gives the lines before the first wrong one.
std::string to_text(const PaceReport& report);
PaceReport pace_report(const std::string& text);

struct Straggler {
  DevicePace pace;
  double factor = 1;  // of its ratio to the median of the others'
};

// The device with the largest factor, if the factor is at least kSlow and the device loses at least a millisecond a
// step: the times of shorter work are mostly noise. None where no two devices have predictions.
std::optional<Straggler> slowest_of(const std::vector<DevicePace>& paces);

// Times five steps of each window, spread over it. The ranks have the same windows.
// Threads: one.
class StragglerWatch {
 public:
  static constexpr double kSlow = 1.5;
  static constexpr int64_t kWarmUp = 5;
  static constexpr int64_t kLooks = 5;
  static constexpr int64_t kLeast = 10;  // steps of a window
  static constexpr int64_t kQuiet = 60;  // windows after which a device that was told is told again

  explicit StragglerWatch(StepProfile profile) : empty_(std::move(profile)), profile_(empty_) {}

  // Counts the next step, and says whether `add` is to be called for it.
  bool wants_step();
  void add(std::span<const Timing> timings, const StepTimes& times);
  // Whether the step that was added ends a window: `judge` is then to be called with the paces of all ranks.
  bool ends() const { return at_ == window_; }
  // Of the devices of this rank in the window.
  std::vector<DevicePace> paces() const;
  // The slow device, unless it was told already. Begins the next window.
  std::optional<Straggler> judge(const std::vector<DevicePace>& paces);

  int64_t window() const { return window_; }
  // The number of steps in windows after this one. A window of a second or more hides short interruptions of a core.
  void set_window(int64_t steps) { next_window_ = std::max(steps, kLeast); }

 private:
  StepProfile empty_;
  StepProfile profile_;                     // of this window
  std::vector<std::vector<Seconds>> busy_;  // by device, of the steps of this window that were looked at
  int64_t steps_ = 0;                       // that were counted
  int64_t at_ = 0;                          // of the window
  int64_t window_ = kLeast;
  int64_t next_window_ = kLeast;
  int64_t windows_ = 0;             // that have ended
  std::map<int, int64_t> slow_in_;  // by device: the last window in which it was slow
};

}  // namespace xrun::runtime
