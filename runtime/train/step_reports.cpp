// Tests: tests/cases/lines_of_a_run_test.cpp, tests/runtime/train/trainer_test.cpp
#include "runtime/train/step_reports.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <span>
#include <string>

#include "graph/layouts/partial_labels.h"
#include "graph/layouts/verification_spec.h"
#include "runtime/device/host.h"
#include "runtime/train/evaluation/mean_of_rows.h"

namespace xrun::runtime {

StepReports::StepReports(const TrainRequest& request, const RunClock& clock, Session& session)
    : request_(request),
      train_(request.module.train),
      clock_(clock),
      session_(&session),
      predicted_step_(request.predicted.step),
      line_(request.module.train.unit(), request.module.train.reduce_sum),
      rows_(static_cast<size_t>(session.program().batch)),
      profile_(session.program(), request.module.graph, request.predicted.instructions, session.own_devices()),
      watch_(StepWatch(profile_, request.predicted.step)),
      mass_watch_(train_.active_classes, clock.steps()),
      stragglers_(profile_) {
  for (const MetricSpec& metric : train_.metrics) {
    if (!compares_samples(request.module.graph, metric) && session.has_rows(metric.value)) {
      report_.metrics.emplace_back(metric.name, 0);
      metric_values_.push_back(metric.value);
      metric_labels_.push_back(label_of(request.module.graph, request.module.data, metric.value));
    }
  }
  share_results();
  begin_medians();
}

void StepReports::begin_medians() {
  const planner::Program& program = session_->program();
  const bool planned =
      program.batch == request_.training.batch && program.instructions.size() == request_.training.instructions.size();
  medians_.reset();
  if (request_.profile >= 0 && planned && !told_profile_) {
    medians_.emplace(program, session_->own_devices(), kProfiled);
  }
}

void StepReports::move_to(Session& session, const StepPrediction& predicted) {
  if (profiled_.steps > 0 && profiled_.steps < kProfiled) {
    report_profile();
  }
  session_ = &session;
  rows_.resize(static_cast<size_t>(session.program().batch));
  profile_ = StepProfile(session.program(), session.module().graph, predicted.instructions, session.own_devices());
  predicted_step_ = predicted.step;
  profiled_ = {};
  watch_ = steps_ == 0 ? std::optional(StepWatch(profile_, predicted.step)) : std::nullopt;
  stragglers_.move_to(profile_);
  share_results();
  begin_medians();
}

void StepReports::share_results() {
  std::vector<ValueId> values = metric_values_;
  for (const LossTerm& term : train_.loss) {
    values.push_back(term.rows);
  }
  session_->share(values);
}

void StepReports::begin(bool due, bool mass) {
  ++steps_;
  session_->measure_mass(mass);
  scale_ = session_->state().loss_scale().scale;
  const int64_t profiled = request_.profile < 0 ? 0 : steps_ - request_.profile;
  due_ = due;
  const Peers* peers = request_.session.peers;
  mass_looks_ = mass && mass_watch_.looks() && (peers == nullptr || peers->rank() == 0);
  sink_looks_ = request_.events.wants_step(due);
  watch_looks_ = watch_ && watch_->wants_step();
  profile_looks_ = profiled >= 1 && profiled <= kProfiled;
  stragglers_look_ = request_.session.peers != nullptr && stragglers_.wants_step();
  session_->measure(anybody() || stragglers_look_);
  begin_ = Clock::now();
}

void StepReports::data_is_here() { report_.data_wait = std::chrono::duration<double>(Clock::now() - begin_).count(); }

void StepReports::graphs_are_here() {
  begin_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(report_.data_wait));
}

Status StepReports::read(int64_t step, double lr) {
  XRUN_TRY(read_results());
  if (anybody()) {
    note_times();
    read_active();
  }
  report_.step = step;
  report_.epoch = clock_.epochs_after(step);
  report_.lr = lr;
  report_.batch = std::ssize(rows_);
  report_.batch_grows = train_.growth.has_value();
  report_.predicted_step = predicted_step_;
  report_.grad_norm = session_->grad_norm();
  report_.loss_scale = train_.loss_scale.is_on() ? scale_ : 0;
  report_.skipped_steps = session_->state().loss_scale().skipped_steps;
  report_.memory = session_->memory();
  report_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  line_.add(report_.loss, report_.metrics, report_.batch, report_.seconds, report_.data_wait);
  return {};
}

Status StepReports::tell(int64_t step) {
  if (sink_looks_) {
    report_.resident = resident();
    report_.line = line_.report();
    request_.events.on(StepEvent{report_, due_});
  }
  if (due_) {
    line_.end_line();
  }
  if (mass_looks_) {
    if (const auto warning = mass_watch_.add(step, report_.active)) {
      request_.events.on(*warning);
    }
  }
  if (watch_looks_) {
    for (const WarnEvent& warning : watch_->add(report_, session_->timings(), session_->times())) {
      request_.events.on(warning);
    }
  }
  if (profile_looks_) {
    add_to_profile(step);
  }
  return stragglers_look_ ? look_for_stragglers() : Status();
}

Status StepReports::look_for_stragglers() {
  stragglers_.add(session_->timings(), session_->times());
  if (!stragglers_.ends()) {
    return {};
  }
  Peers& peers = *request_.session.peers;
  XRUN_ASSIGN(const auto texts, peers.gather(to_text(stragglers_.report())));
  std::vector<DevicePace> paces;
  for (const std::string& text : texts) {
    const PaceReport theirs = pace_report(text);
    paces.insert(paces.end(), theirs.paces.begin(), theirs.paces.end());
  }
  // All ranks use the window's duration on rank 0, so that their next windows have the same steps.
  for (const auto& [pace, factor] : stragglers_.judge(paces, pace_report(texts[0]).seconds)) {
    request_.events.on(WarnEvent{
        "XG0843",
        fmt::format("cpu {} of {} takes {:.1f} times as long as the other devices: {} of each step, where {} is "
                    "expected at their pace; most of the difference is in {}",
                    pace.device, peers.name(request_.training.rank_of(pace.device)), factor, format_seconds(pace.busy),
                    format_seconds(pace.busy / factor), pace.what)});
  }
  return {};
}

void StepReports::finish() {
  if (request_.profile >= 0 && profiled_.steps == 0 && !told_profile_) {
    request_.events.on(WarnEvent{"XG0814", "the run ended after " + format_count(steps_) + " steps: `--profile " +
                                               std::to_string(request_.profile) +
                                               "` leaves out that many, so no step is left to measure"});
  } else if (profiled_.steps > 0 && profiled_.steps < kProfiled) {
    report_profile();
  }
}

Status StepReports::read_results() {
  report_.loss = 0;
  for (const LossTerm& term : train_.loss) {
    XRUN_ASSIGN(const double mean, mean_of(term.rows));
    report_.loss += term.factor * (train_.reduce_sum ? mean * static_cast<double>(rows_.size()) : mean);
  }
  for (size_t m = 0; m < metric_values_.size(); ++m) {
    XRUN_ASSIGN(report_.metrics[m].second, mean_of_metric(m));
  }
  return {};
}

void StepReports::read_active() {
  report_.active.clear();
  for (size_t h = 0; h < request_.training.heads.size(); ++h) {
    if (request_.training.heads[h].active > 0) {
      report_.active.push_back(session_->active(static_cast<int>(h)));
    }
  }
}

// The mean over the rows, added in f64 and in row order (docs/internals/determinism.md, "Scalars"). It is finite,
// because the executor has checked each row.
Result<double> StepReports::mean_of(ValueId value) {
  XRUN_TRY(session_->read_rows(value, std::as_writable_bytes(std::span(rows_))));
  return std::accumulate(rows_.begin(), rows_.end(), 0.0) / static_cast<double>(rows_.size());
}

// The mean of a metric over the rows. For a partial label it is the mean over the labels of the step; 0 if there are no
// labels.
Result<double> StepReports::mean_of_metric(size_t metric) {
  const ValueId value = metric_values_[metric];
  const auto labels = request_.batches.labelled(metric_labels_[metric]);
  const bool is_loss = std::ranges::find(train_.loss, value, &LossTerm::rows) != train_.loss.end();
  if (labels.empty() || (is_loss && !train_.reduce_sum)) {  // the rows already contain the factors of a mean loss
    return mean_of(value);
  }
  XRUN_TRY(session_->read_rows(value, std::as_writable_bytes(std::span(rows_))));
  MeanOfRows mean;
  mean.add(rows_, labels);
  return mean.value();
}

void StepReports::note_times() {
  const StepTimes& times = session_->times();
  const DeviceRange own = session_->own_devices();
  report_.devices.assign(times.devices.begin() + own.first, times.devices.begin() + own.first + own.count);
  report_.compute = report_.exposed_comm = report_.bubble = 0;
  ++timed_steps_;
  device_sums_.resize(report_.devices.size());
  for (size_t d = 0; d < report_.devices.size(); ++d) {
    const DeviceTimes& one = report_.devices[d];
    report_.compute = std::max(report_.compute, one.busy);
    report_.exposed_comm = std::max(report_.exposed_comm, one.exposed_comm);
    report_.bubble = std::max(report_.bubble, one.idle);
    device_sums_[d].busy += one.busy;
    device_sums_[d].exposed_comm += one.exposed_comm;
    device_sums_[d].idle += one.idle;
  }
}

void StepReports::add_to_profile(int64_t step) {
  const StepTimes& times = session_->times();
  profile_.add(session_->timings(), times);
  if (medians_) {
    medians_->add(session_->timings(), report_.seconds);
  }
  profiled_.first_step = profiled_.steps == 0 ? step : profiled_.first_step;
  profiled_.step += report_.seconds;
  profiled_.data_wait += report_.data_wait;
  profiled_.outside += report_.seconds - report_.data_wait - times.seconds;
  if (++profiled_.steps == kProfiled) {
    report_profile();
  }
}

void StepReports::report_profile() {
  told_profile_ = true;
  const auto count = static_cast<double>(profiled_.steps);
  const bool timed = medians_.has_value();
  request_.events.on(ProfileEvent{.first_step = profiled_.first_step,
                                  .steps = profiled_.steps,
                                  .step = profiled_.step / count,
                                  .data_wait = profiled_.data_wait / count,
                                  .outside = profiled_.outside / count,
                                  .predicted_step = predicted_step_,
                                  .rows = profile_.rows(),
                                  .median_step = timed ? medians_->step() : 0,
                                  .instructions = timed ? medians_->instructions() : std::vector<MedianTime>()});
}

}  // namespace xrun::runtime
