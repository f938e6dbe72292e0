// Finds a device that is slow compared with the other devices. It compares ratios of measured to predicted time, so
// that a device with more work is not mistaken for a slow one. The ranks of a run watch all devices together.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executor/step_profile.h"

namespace xrun::runtime {

struct DevicePace {
  int device = 0;
  Seconds busy = 0;  // time per step during which the device computes
  Seconds predicted = 0;
  std::string what;    // instructions that exceed their prediction most: "backward of stage 1 (block.conv .. fc)"
  Seconds excess = 0;  // time by which these instructions exceed their prediction

  bool operator==(const DevicePace&) const = default;
};

// Measurements that a rank sends to the other ranks at the end of a window.
struct PaceReport {
  Seconds seconds = 0;  // duration of the window on this rank
  std::vector<DevicePace> paces;

  bool operator==(const PaceReport&) const = default;
};

// Converts a report to text and back. The text has a line with the seconds, then a line for each device. `pace_report`
// ignores the first malformed line and all lines after it.
std::string to_text(const PaceReport& report);
PaceReport pace_report(const std::string& text);

struct Straggler {
  DevicePace pace;
  double factor = 1;  // ratio of the device divided by the median ratio of the others
};

// Returns the devices that have a prediction, with their factors. The factor is 1 for a device that loses less than a
// millisecond a step, because the times of shorter work are mostly noise. Empty if fewer than two devices have
// predictions.
std::vector<Straggler> compare(const std::vector<DevicePace>& paces);

// Divides the steps of a run into windows, which are equal on all ranks, and measures five steps of each window, spread
// evenly over the window.
//
// A single window cannot distinguish a slow device from one whose core is busy with other work for some seconds. So
// each window adds or removes evidence, and a device whose evidence reaches kEnough is slow (a cumulative sum test,
// Page 1954). With x = log(factor / kSlow), each second of a window adds kWeight * x^3 if x > 0 and otherwise subtracts
// -x; the sum does not fall below 0. A window of a second or more adds kMost at most; a shorter one adds at most kMost
// times its seconds. So a device that is 4 times as slow as the others is reported after 1.5 seconds, one that is 3
// times as slow after 1.6 seconds, 2 times as slow after 22 seconds, and 1.6 times as slow after half an hour. A device
// is reported only at the end of a window, and after at least two windows.
//
// Threads: one.
class StragglerWatch {
 public:
  static constexpr double kSlow = 1.5;
  static constexpr double kEnough = 0.8;
  static constexpr double kMost = 0.55;   // less than kEnough: a device is never reported after one window
  static constexpr double kWeight = 1.5;  // a core that runs at half speed for nine seconds must not be reported
  static constexpr int64_t kWarmUp = 5;
  static constexpr int64_t kLooks = 5;
  static constexpr int64_t kLeast = kLooks;  // smallest number of steps in a window
  static constexpr Seconds kWindow = 0.5;    // least duration of a window's steps, without the time between steps
  static constexpr int64_t kQuiet = 120;     // number of windows after which a reported device is reported again

  explicit StragglerWatch(StepProfile profile) : empty_(std::move(profile)), profile_(empty_) {}
  // Continues with steps of another size: begins with a new warm-up, and keeps the evidence about devices.
  void move_to(StepProfile profile);

  // Counts the next step, and returns whether to call `add` for it.
  bool wants_step();
  void add(std::span<const Timing> timings, const StepTimes& times);
  // Whether the step that was added last ends a window; if so, call `judge` with the paces of all ranks.
  bool ends() const { return at_ == window_; }
  // Returns the report of this rank about the window. REQUIRES: ends().
  PaceReport report() const;
  // Returns the slow devices that were not reported in the last kQuiet windows. Begins the next window, whose number of
  // steps is chosen so that they take kWindow.
  //   seconds  duration of the last window, equal on all ranks
  std::vector<Straggler> judge(const std::vector<DevicePace>& paces, Seconds seconds);

  int64_t window() const { return window_; }

 private:
  void begin_window(int64_t steps);

  struct Evidence {
    double sum = 0;
    std::vector<double> factors;                            // the last factors above kSlow, since the evidence was 0
    int64_t slow_in = std::numeric_limits<int64_t>::min();  // number of the last window in which the device was slow
  };

  StepProfile empty_;
  StepProfile profile_;                     // profile of this window
  std::vector<std::vector<Seconds>> busy_;  // index: device; busy time in each measured step of this window
  Seconds looked_ = 0;                      // total duration of the measured steps
  int64_t steps_ = 0;                       // number of steps of this size that were counted
  int64_t at_ = 0;                          // number of steps of this window so far
  int64_t window_ = kLeast;
  int64_t windows_ = 0;               // number of windows that have ended
  std::map<int, Evidence> evidence_;  // key: device
};

}  // namespace xrun::runtime
