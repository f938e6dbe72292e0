// Finds the device that is slow against the others. It compares ratios of measured to predicted time, so that a device
// with more work is not taken for a slow one. Several ranks watch the whole run together.
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
  Seconds busy = 0;  // of a step: it computes
  Seconds predicted = 0;
  std::string what;    // the instructions that exceed their prediction most: "backward of stage 1 (block.conv .. fc)"
  Seconds excess = 0;  // by so much

  bool operator==(const DevicePace&) const = default;
};

// What a rank tells the others at the end of a window.
struct PaceReport {
  Seconds seconds = 0;  // that the window took on this rank
  std::vector<DevicePace> paces;

  bool operator==(const PaceReport&) const = default;
};

// As text: the seconds, then a line for each device. Text of another form gives the lines before the first wrong one.
std::string to_text(const PaceReport& report);
PaceReport pace_report(const std::string& text);

struct Straggler {
  DevicePace pace;
  double factor = 1;  // of its ratio to the median of the others'
};

// The devices that have a prediction, with their factors. The factor is 1 for a device that loses less than a
// millisecond a step, because the times of shorter work are mostly noise. Empty where no two devices have predictions.
std::vector<Straggler> compare(const std::vector<DevicePace>& paces);

// Times five steps of each window, spread over it. The ranks have the same windows.
//
// A single window cannot tell a slow device from one whose core other work has for some seconds. So each window gives
// evidence, and a device whose evidence adds up to kEnough is slow (a cumulative sum test, Page 1954). With x =
// log(factor / kSlow), each second of a window adds kWeight * x^3 if x > 0 and else takes -x away; the sum does not
// fall below 0. A window adds kMost at most, and in proportion less if it is shorter than a second. So a device that is
// 4 times as slow as the others is named after 1.5 seconds, one that is 3 times as slow after 1.6, 2 times after 22,
// and 1.6 times after half an hour, at the end of a window and of two at least.
//
// Threads: one.
class StragglerWatch {
 public:
  static constexpr double kSlow = 1.5;
  static constexpr double kEnough = 0.8;
  static constexpr double kMost = 0.55;   // less than kEnough: a device is never named after one window
  static constexpr double kWeight = 1.5;  // a core that has half its speed for nine seconds is not named
  static constexpr int64_t kWarmUp = 5;
  static constexpr int64_t kLooks = 5;
  static constexpr int64_t kLeast = kLooks;  // steps of a window
  static constexpr Seconds kWindow = 0.5;    // at least, in steps, without the time between them
  static constexpr int64_t kQuiet = 120;     // windows after which a device that was told is told again

  explicit StragglerWatch(StepProfile profile) : empty_(std::move(profile)), profile_(empty_) {}
  // Goes on with steps of another size: begins with their warm-up, and keeps what it knows of the devices.
  void move_to(StepProfile profile);

  // Counts the next step, and says whether `add` is to be called for it.
  bool wants_step();
  void add(std::span<const Timing> timings, const StepTimes& times);
  // Whether the step that was added ends a window: `judge` is then to be called with the paces of all ranks.
  bool ends() const { return at_ == window_; }
  // Of this rank, for the window. REQUIRES: ends().
  PaceReport report() const;
  // The slow devices that were not told already. Begins the next window, of as many steps as take kWindow.
  //   seconds  of the window, the same for all ranks
  std::vector<Straggler> judge(const std::vector<DevicePace>& paces, Seconds seconds);

  int64_t window() const { return window_; }

 private:
  void begin_window(int64_t steps);

  struct Evidence {
    double sum = 0;
    std::vector<double> factors;                            // of the last slow windows, since the sum was 0
    int64_t slow_in = std::numeric_limits<int64_t>::min();  // the last window in which the device was slow
  };

  StepProfile empty_;
  StepProfile profile_;                     // of this window
  std::vector<std::vector<Seconds>> busy_;  // by device, of the steps of this window that were looked at
  Seconds looked_ = 0;                      // of these steps together
  int64_t steps_ = 0;                       // that were counted, of this size
  int64_t at_ = 0;                          // of the window
  int64_t window_ = kLeast;
  int64_t windows_ = 0;               // that have ended
  std::map<int, Evidence> evidence_;  // by device
};

}  // namespace xrun::runtime
