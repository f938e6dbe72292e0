// Reports the steps of a run: losses, times and profiles. The loss and the metrics are read after every step, for the
// means in progress lines; instructions are timed only in the steps for which an event sink, a watch or the profile
// needs the times.
#pragma once

#include <chrono>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/median_times.h"
#include "runtime/executor/step_profile.h"
#include "runtime/train/clock/run_clock.h"
#include "runtime/train/trainer.h"
#include "runtime/train/watch/mass_watch.h"
#include "runtime/train/watch/step_watch.h"
#include "runtime/train/watch/straggler_watch.h"

namespace xrun::runtime {

// Calls for each step, in this order: `begin`, `data_is_here`, `graphs_are_here`, the session's step, `read`, `tell`.
// Threads: the trainer's.
class StepReports {
 public:
  // All arguments outlive the object.
  StepReports(const TrainRequest& request, const RunClock& clock, Session& session);
  // Switches to `session`, in which later steps run with another size. Reports the measurements of the steps so far;
  // the straggler watch begins a new window.
  void move_to(Session& session, const StepPrediction& predicted);

  // Call when the next step begins to wait for its data. Asks the sink, the watches and the profile whether they want
  // to measure the step, and makes the session time it if any of them does.
  //   due   the argument `due` of EventSink::wants_step
  //   mass  the step measures the softmax share of the active classes
  void begin(bool due, bool mass = false);
  void data_is_here();
  // Call when the graphs for the step are ready. The time since data_is_here is not counted as part of the step,
  // because the events of graphs report it.
  void graphs_are_here();
  // Reads the results of `step`; the first step is 1. Errors: those of reading.
  Status read(int64_t step, double lr);
  // Reports the step to the sink, the watches and the profile if they asked for it. Errors: the error of any rank.
  Status tell(int64_t step);
  // Call after the last step of the run: reports the profile, even if it is incomplete.
  void finish();

  LineMeans& line() { return line_; }
  double loss() const { return report_.loss; }  // loss of the last step that was read; NaN: no step yet
  int64_t timed_steps() const { return timed_steps_; }
  const std::vector<DeviceTimes>& device_sums() const { return device_sums_; }  // sums over the steps that were timed

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kProfiled = 10;  // steps in a profile, if the run has this many steps after its warm-up

  bool anybody() const { return sink_looks_ || watch_looks_ || profile_looks_ || mass_looks_; }
  void share_results();
  void begin_medians();
  Status read_results();
  void read_active();
  Result<double> mean_of(ValueId value);
  Result<double> mean_of_metric(size_t metric);
  void note_times();
  Status look_for_stragglers();
  void add_to_profile(int64_t step);
  void report_profile();

  const TrainRequest& request_;
  const TrainSpec& train_;
  const RunClock& clock_;
  Session* session_;
  Seconds predicted_step_;  // predicted duration of steps of the current size
  bool due_ = false;
  bool sink_looks_ = false;
  bool watch_looks_ = false;
  bool profile_looks_ = false;
  bool mass_looks_ = false;
  bool stragglers_look_ = false;  // whether the straggler watch needs the times of the step but not its results
  int64_t steps_ = 0;             // number of steps begun
  double scale_ = 1;              // scale of the loss in the step
  Clock::time_point begin_;
  // The report of the last step, without its times if nobody asked for it.
  StepReport report_{.loss = std::numeric_limits<double>::quiet_NaN()};
  LineMeans line_;
  std::vector<ValueId> metric_values_;      // values of the metrics in report_.metrics
  std::vector<std::string> metric_labels_;  // partial label of each metric; empty: not a partial label
  std::vector<float> rows_;
  int64_t timed_steps_ = 0;
  std::vector<DeviceTimes> device_sums_;
  StepProfile profile_;                 // profile of the steps for `--profile`
  std::optional<MedianTimes> medians_;  // times of the profiled steps, if they run the program of the plan
  bool told_profile_ = false;
  ProfileEvent profiled_;           // sums over the profiled steps
  std::optional<StepWatch> watch_;  // watches steps of the first batch size
  MassWatch mass_watch_;
  StragglerWatch stragglers_;
};

}  // namespace xrun::runtime
