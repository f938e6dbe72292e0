// Reports of the steps of a run: losses, times and profiles. The loss and the metrics of each step are read, for the
// means of a line; instructions are timed only where somebody asks for a step.
#pragma once

#include <chrono>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/step_profile.h"
#include "runtime/train/mass_watch.h"
#include "runtime/train/run_clock.h"
#include "runtime/train/step_watch.h"
#include "runtime/train/straggler_watch.h"
#include "runtime/train/trainer.h"

namespace xrun::runtime {

// For each step, in this order: `begin`, `data_is_here`, `graphs_are_here`, the session's step, `read`, `tell`. The
// trainer's thread calls.
class StepReports {
 public:
  // All outlive the object.
  StepReports(const TrainRequest& request, const RunClock& clock, Session& session);
  // From the next step on, steps are those of `session`, of another size. What was measured of the former steps is
  // told, and the watch for stragglers begins a new window.
  void move_to(Session& session, const StepPrediction& predicted);

  // The next step begins, with its wait for data; `due`: a sink is told of it whatever it wants; `mass`: it measures
  // the share of the active classes. Asks who looks at the step and has the session time it.
  void begin(bool due, bool mass = false);
  void data_is_here();
  // What came since the data is no part of the step: events of graphs tell how long steps waited for them.
  void graphs_are_here();
  // `step` is done, the first one is 1: reads its results. Errors: those of reading.
  Status read(int64_t step, double lr);
  // Tells those who look. Errors: that of any rank.
  Status tell(int64_t step);
  // After the last step that was done: the profile as far as it has come.
  void finish();

  LineMeans& line() { return line_; }
  double loss() const { return report_.loss; }  // of the last step that was read; NaN: none
  int64_t timed_steps() const { return timed_steps_; }
  const std::vector<DeviceTimes>& device_sums() const { return device_sums_; }  // over the steps that were timed

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kProfiled = 10;  // steps of a profile, where the run has as many after its warm-up

  bool anybody() const { return sink_looks_ || watch_looks_ || profile_looks_ || mass_looks_; }
  void share_results();
  Status read_results();
  void read_active();
  Result<double> mean_of(ValueId value);
  Result<double> mean_of_metric(size_t metric);
  void note_times();
  Status look_for_stragglers();
  void add_to_profile(int64_t step);
  void tell_profile();

  const TrainRequest& request_;
  const TrainSpec& train_;
  const RunClock& clock_;
  Session* session_;
  Seconds predicted_step_;  // of steps of this size
  bool due_ = false;
  bool sink_looks_ = false;
  bool watch_looks_ = false;
  bool profile_looks_ = false;
  bool mass_looks_ = false;
  bool stragglers_look_ = false;  // they need the times of the step and not its results
  int64_t steps_ = 0;             // that were begun
  Clock::time_point begin_;
  // The report of the last step, without its times where nobody looked at it.
  StepReport report_{.loss = std::numeric_limits<double>::quiet_NaN()};
  LineMeans line_;
  std::vector<ValueId> metric_values_;      // of report_.metrics
  std::vector<std::string> metric_labels_;  // the partial label of each; empty: none
  std::vector<float> rows_;
  int64_t timed_steps_ = 0;
  std::vector<DeviceTimes> device_sums_;
  StepProfile profile_;  // of the steps that `--profile` asks for
  bool told_profile_ = false;
  ProfileEvent profiled_;           // their sums
  std::optional<StepWatch> watch_;  // of the size of the first steps
  MassWatch mass_watch_;
  StragglerWatch stragglers_;
};

}  // namespace xrun::runtime
