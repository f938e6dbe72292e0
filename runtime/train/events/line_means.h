// Summarises the work of a run since its last progress line in the log (docs/reference/command/progress.md,
// "Progress"): means of losses and metrics, and samples per second without the time of evaluations and saves.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/units.h"
#include "graph/os/clock.h"

namespace xrun::runtime {

using NamedValues = std::vector<std::pair<std::string, double>>;

// Describes the steps since the last progress line, or for the first line all steps since this start of the run.
struct LineReport {
  double loss = 0;                // mean over the samples, or over the steps with `reduce = sum`
  NamedValues metrics;            // means of the metrics over the samples
  double samples_per_second = 0;  // in real time, without evaluations and saves
  Seconds step = 0;               // mean duration of the steps, from the wait for data until the results are read
  Seconds data_wait = 0;          // mean of the waits for data, which `step` includes
  Seconds evaluation = 0;         // time that evaluations took
  Seconds saves = 0;              // how long the run waited between steps for saves
  // Since the first step of this start of the run, without evaluations and saves.
  int64_t run_samples = 0;
  Seconds run_seconds = 0;
};

// Threads: the trainer's.
class LineMeans {
 public:
  enum class Activity : uint8_t { kSteps, kEvaluation, kSave };

  //   unit  number of samples in the smallest step (TrainSpec::unit)
  //   sums  whether the losses of steps are sums over their samples
  LineMeans(int64_t unit, bool sums, const Clock& clock = system_clock()) : unit_(unit), sums_(sums), clock_(clock) {}

  // Call when the first step begins: time and work before it are not counted.
  void begin();
  // From now on counts time as time of `activity`. Returns the previous activity.
  Activity turn_to(Activity activity);
  // Adds a step that has ended.
  void add(double loss, const NamedValues& metrics, int64_t samples, Seconds step, Seconds data_wait);
  // Returns the report of the steps since the last progress line. REQUIRES: at least one step was added since then.
  LineReport report();
  // Begins the next progress line; its steps are those after the step that was added last.
  void end_line();

 private:
  void count_time();

  int64_t unit_;
  bool sums_;
  const Clock& clock_;
  Activity activity_ = Activity::kSteps;
  Seconds counted_ = 0;  // all time before this point in time has been counted
  Seconds seconds_ = 0;  // duration of the steps of this line, with all time between them
  double weight_ = 0;    // total weight of the losses
  int64_t steps_ = 0;
  int64_t samples_ = 0;
  LineReport sums_of_;  // report of this line, with sums in place of means
};

// Counts time as time of `activity` while the object exists.
class CountedAs {
 public:
  CountedAs(LineMeans& line, LineMeans::Activity activity) : line_(line), before_(line.turn_to(activity)) {}
  ~CountedAs() { line_.turn_to(before_); }
  CountedAs(const CountedAs&) = delete;
  CountedAs& operator=(const CountedAs&) = delete;

 private:
  LineMeans& line_;
  LineMeans::Activity before_;
};

}  // namespace xrun::runtime
