// A training run, from its first step to its last. trainer.cpp has the loop over its steps, run_start.cpp prepares the
// first step, and run_evaluation.cpp evaluates.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/check.h"
#include "runtime/train/clock/run_clock.h"
#include "runtime/train/knn/knn_graphs.h"
#include "runtime/train/records.h"
#include "runtime/train/saves.h"
#include "runtime/train/step_reports.h"
#include "runtime/train/trainer.h"

namespace xrun::runtime {

class TrainingRun {
 public:
  TrainingRun(const TrainRequest& request, std::unique_ptr<Session> session)
      : request_(request),
        train_(request.module.train),
        session_(std::move(session)),
        samples_(request.batches.samples()),
        clock_(train_, samples_),
        total_(clock_.steps()),
        records_(request.run, clock_),
        reports_(request, clock_, *session_),
        graphs_(*session_, samples_, request.session.isa, request.stop, request.events),
        saves_(train_, request.run, request.checkpoints, clock_, *session_, graphs_, request.events,
               [this] { return seconds(); }) {
    XRUN_CHECK(std::ssize(request.smaller) == (train_.growth ? train_.growth->times - 1 : 0),
               "a growing batch has a program for each of its sizes");
  }

  Result<TrainOutcome> run();

 private:
  using Clock = std::chrono::steady_clock;

  static Seconds since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
  Seconds seconds() const { return since(begin_); }

  // The start of the run.
  Status prepare();
  void initialise(const std::function<bool(const StateTensor&)>& wanted);
  Status start_from(const std::string& path);
  void follow_clock();
  void report_start();

  // The loop over the steps.
  Status steps_within_memory();
  Status run_steps();
  const SmallerStep* smaller() const;
  const StepPrediction& prediction() const { return smaller() == nullptr ? request_.predicted : smaller()->predicted; }
  Status take_size();
  Status start_batches();
  Status run_step(bool last);
  void note_scale(const LossScale& before);
  bool told_to_stop() const { return request_.stop != nullptr && request_.stop->load(std::memory_order_relaxed); }
  bool measures_mass() const;
  bool due(const TrainSpan& every) const { return clock_.is_due(every, done_); }
  Status save();
  Status look_after_saves(bool now);

  // Evaluation.
  // The time between two evaluations. Without `eval`, the metrics are evaluated at the end of each epoch.
  TrainSpan eval_span() const { return train_.eval_every.value_or(TrainSpan{1, TrainSpan::kEpochs}); }
  Status evaluate_now();
  Status make_evaluator();
  Status follow(const std::vector<Measured>& metrics);

  // The end of the run.
  std::vector<Bytes> host_sent() const;
  void report_end(const TrainOutcome& outcome, const Status& status);

  const TrainRequest& request_;
  const TrainSpec& train_;
  std::unique_ptr<const Module> module_;  // the module of `session_` if the batch grows; null: request_.module
  std::unique_ptr<Session> session_;
  std::unique_ptr<const Module> former_module_;  // the module of the previous session, only inside take_size
  std::unique_ptr<Session> former_session_;
  std::unique_ptr<Session> evaluator_;  // created at the first evaluation
  int64_t samples_;
  RunClock clock_;
  int64_t total_;
  Records records_;
  StepReports reports_;
  ClassGraphs graphs_;
  Saves saves_;
  int64_t done_ = 0;
  int64_t first_ = 0;          // number of steps done before this start
  Bytes evaluation_sent_ = 0;  // bytes sent for evaluations, from Peers::sent_to_hosts
  bool whole_ = false;         // whether the state is exactly that after `done_` steps; false during a step
  bool resumed_ = false;
  bool interrupted_ = false;
  bool stopped_ = false;  // whether `stop_when` ended the run
  Clock::time_point begin_;
};

}  // namespace xrun::runtime
