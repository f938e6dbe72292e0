// A run: load or initialise the state; report the start; then repeat for each step: change the size of the batch if it
// grows, wait for the data and for the graphs of classes, run the step, report it, save and evaluate if that is due. At
// the end, or when the run is stopped or fails between two steps, save the state and report the end. All ranks make the
// same decisions at the same steps; if only one rank can decide, it sends its decision to the others.
#include "runtime/train/trainer.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <new>
#include <utility>

#include "graph/base/units.h"
#include "graph/passes/pipeline.h"
#include "runtime/device/host.h"
#include "runtime/train/session/broken_samples.h"
#include "runtime/train/training_run.h"

namespace xrun::runtime {

Result<TrainOutcome> TrainingRun::run() {
  begin_ = Clock::now();
  Status status = steps_within_memory();
  request_.batches.stop();
  if (!status.ok() && whole_ && !saves_.has(done_)) {
    (void)save();  // keep the progress although data is unreadable; the first error is the one to report
  }
  if (Status last_save = saves_.finish(); status.ok()) {
    status = std::move(last_save);
  }
  if (Status last_copy = saves_.finish_copies(); status.ok()) {
    status = std::move(last_copy);
  }
  if (status.ok() && request_.checkpoints != nullptr) {
    status = session_->agree(request_.checkpoints->finish());
  }
  TrainOutcome outcome{.step = done_, .loss = reports_.loss(), .interrupted = interrupted_};
  request_.events.on(WorkEvent{.work = Work::kPrepare, .subject = "the digest of the weights"});
  // The weights of a failed run are not a result.
  if (status.ok()) {
    auto weights = session_->weights_digest();
    outcome.weights = weights.ok() ? *weights : "";
    status = weights.ok() ? Status() : std::move(weights).error();
  }
  report_end(outcome, status);
  if (status.ok()) {
    return outcome;
  }
  Error error = std::move(status).error();
  if (error.kind == ErrorKind::kWorld && !whole_ && request_.session.peers == nullptr) {
    // A device has failed in a step, whose changes of weights are lost.
    error.notes.push_back(saves_.path().empty()
                              ? "no checkpoint was saved yet: the same command begins anew"
                              : "the last checkpoint is " + saves_.path() + ": the same command continues from it");
  }
  return error;
}

// Computes EndEvent::host_sent. All ranks call it.
std::vector<Bytes> TrainingRun::host_sent() const {
  const std::vector<int>& nodes = request_.session.rank_nodes;
  Peers* const peers = request_.session.peers;
  if (peers == nullptr || nodes.empty() || std::ranges::max(nodes) == 0 || done_ == first_) {
    return {};
  }
  const auto texts = peers->gather(std::to_string(peers->sent_to_hosts() - evaluation_sent_));
  std::vector<Bytes> sent(texts.ok() ? static_cast<size_t>(std::ranges::max(nodes)) + 1 : 0, 0);
  for (size_t rank = 0; texts.ok() && rank < nodes.size(); ++rank) {
    sent[static_cast<size_t>(nodes[rank])] += std::atoll((*texts)[rank].c_str());
  }
  for (Bytes& bytes : sent) {
    bytes /= done_ - first_;
  }
  return sent;
}

// Reports the end of the run; `status` is the outcome of its steps and saves. All ranks call it.
void TrainingRun::report_end(const TrainOutcome& outcome, const Status& status) {
  request_.events.on(EndEvent{.step = done_,
                              .steps = total_,
                              .loss = outcome.loss,
                              .weights = outcome.weights,
                              .exit = !status.ok()   ? exit_code(status.error().kind)
                                      : interrupted_ ? exit_code(ErrorKind::kInterrupted)
                                                     : 0,
                              .saved = saves_.path(),
                              .leave_out = request_.leave_out,
                              .seconds = seconds(),
                              .bad_samples = request_.batches.bad_samples(),
                              .timed_steps = reports_.timed_steps(),
                              .devices = reports_.device_sums(),
                              .host_sent = status.ok() ? host_sent() : std::vector<Bytes>(),
                              .arenas = session_->memory() + (evaluator_ == nullptr ? 0 : evaluator_->memory()),
                              .peak_before_arenas = session_->peak_before(),
                              .peak_resident = peak_resident()});
}

// Runs the steps. Turns std::bad_alloc, for example from an evaluation, into an error, so that the progress can be
// saved.
Status TrainingRun::steps_within_memory() {
  try {
    return run_steps();
  } catch (const std::bad_alloc&) {
    return session_->agree(
        Error{ErrorKind::kWorld, "", "out of memory", "close other programs, or train a smaller model"});
  }
}

Status TrainingRun::run_steps() {
  XRUN_TRY(session_->agree(prepare()));
  const int64_t end = request_.steps < 0 ? total_ : std::min(total_, request_.steps);
  report_start();
  if (done_ < end) {
    XRUN_TRY(start_batches());
  }
  const int64_t first = done_;
  saves_.begin(done_);
  whole_ = true;
  // Evaluates again after resuming, since a checkpoint does not record whether the evaluation after it had completed.
  if (resumed_ && (done_ == total_ || due(eval_span()))) {
    XRUN_TRY(evaluate_now());
  }
  reports_.line().begin();
  while (done_ < end && !interrupted_ && !stopped_) {
    const bool last = done_ + 1 == end;
    if (Status stepped = run_step(last); !stepped.ok()) {
      // If the run was asked to stop while it waited for data, the state is complete, so the progress is saved.
      if (stepped.error().kind != ErrorKind::kInterrupted || !whole_) {
        return stepped;
      }
      interrupted_ = true;
      break;
    }
    ++done_;
    whole_ = true;
    interrupted_ = !last && session_->stops();
    if (interrupted_ && !told_to_stop()) {
      request_.events.on(InterruptEvent{});  // this rank stops because another rank was interrupted
    }
    XRUN_TRY(reports_.tell(done_));
    XRUN_TRY(look_after_saves(last || interrupted_));
    if (!interrupted_ && (done_ == total_ || due(eval_span()))) {
      XRUN_TRY(evaluate_now());
    }
    if ((interrupted_ || stopped_) && !saves_.has(done_)) {
      XRUN_TRY(save());
    }
  }
  // Saves the initial values, so that a run without steps also has a checkpoint.
  const bool begins = done_ == 0 && !resumed_ && !interrupted_;
  if (begins || (interrupted_ && !saves_.has(done_))) {
    XRUN_TRY(save());
  }
  if (done_ > first) {
    reports_.finish();
  }
  return {};
}

// Returns the program for the size of the next step; null if the step has the full size.
const SmallerStep* TrainingRun::smaller() const {
  const int64_t units = clock_.sizes().units_of(done_);
  return units <= std::ssize(request_.smaller) ? &request_.smaller[static_cast<size_t>(units - 1)] : nullptr;
}

// If the size of the next step differs from the last one, creates a session for its program, which takes over the
// memory of the previous session. The batch source is stopped meanwhile.
Status TrainingRun::take_size() {
  const planner::Program& program = smaller() == nullptr ? request_.training : *smaller()->program;
  if (session_->program().batch == program.batch) {
    return {};
  }
  XRUN_TRY(graphs_.wait_for_builds());
  {
    const CountedAs counted(reports_.line(), LineMeans::Activity::kSave);
    XRUN_TRY(saves_.finish());
  }
  request_.events.on(WorkEvent{.work = Work::kPrepare, .subject = "steps of another size"});
  request_.batches.stop();
  auto module = std::make_unique<const Module>(with_batch(request_.module, program.batch));
  auto made = Session::create(*module, program, request_.devices, request_.session, session_.get());
  XRUN_TRY(session_->agree(made.ok() ? Status() : Status(made.error())));
  // Members own the former session until nothing refers to it any more, even if an exception leaves this
  // function.
  former_module_ = std::exchange(module_, std::move(module));
  former_session_ = std::exchange(session_, std::move(made).value());
  follow_clock();
  graphs_.move_to(*session_);
  saves_.move_to(*session_);
  reports_.move_to(*session_, prediction());
  former_session_ = nullptr;
  former_module_ = nullptr;
  return session_->agree(session_->weights_changed());
}

Status TrainingRun::start_batches() {
  if (train_.growth) {
    XRUN_TRY(take_size());
    request_.batches.resize({done_, session_->program().batch, clock_.samples_after(done_)});
  }
  return session_->agree(request_.batches.start(done_, session_->ring()));
}

Status TrainingRun::run_step(bool last) {
  if (session_->program().batch != clock_.sizes().units_of(done_) * train_.unit()) {
    XRUN_TRY(start_batches());
  }
  const bool mass = measures_mass();
  reports_.begin(last || mass || clock_.is_due(train_.log_every, done_ + 1), mass);
  if (!request_.batches.ready(done_)) {
    request_.events.on(WorkEvent{.work = Work::kData, .done = done_, .total = total_});
  }
  XRUN_TRY(wait_for_batch(request_.batches, done_, request_.session.peers));
  request_.events.on(WorkEvent{.work = Work::kStep, .done = done_, .total = total_});
  reports_.data_is_here();
  if (graphs_.change_before(done_)) {
    saves_.before_graphs_change();
    XRUN_TRY(graphs_.before_step(done_));  // it reports its own work events
    request_.events.on(WorkEvent{.work = Work::kStep, .done = done_, .total = total_});
  }
  reports_.graphs_are_here();
  const double rate = clock_.rate(done_);
  whole_ = false;
  const auto slot = static_cast<int>(done_ % static_cast<int64_t>(session_->ring().size()));
  const LossScale scale = session_->state().loss_scale();
  XRUN_TRY(session_->step(done_, rate, slot, request_.stop));
  request_.batches.release(done_);
  note_scale(scale);
  return reports_.read(done_ + 1, rate);
}

// Reports a change of the scale of the loss in the step that has just run; `before` is that of the step.
void TrainingRun::note_scale(const LossScale& before) {
  const LossScale& now = session_->state().loss_scale();
  if (now.skipped_steps > before.skipped_steps) {
    request_.events.on(NoteEvent{fmt::format(
        "step {} made no update, since a gradient was too large for f16: the scale of the loss is now {:.0f}",
        done_ + 1, now.scale)});
  } else if (now.scale != before.scale) {
    request_.events.on(
        NoteEvent{fmt::format("the scale of the loss is {:.0f} from step {} on, after {} steps without an "
                              "overflow",
                              now.scale, done_ + 2, format_count(kStepsToDouble))});
  }
}

// The softmax share of the active classes is measured once before a graph is built anew, when its lists are oldest, and
// once an epoch if active classes are drawn at random. The measurement takes a pass over all classes.
bool TrainingRun::measures_mass() const {
  const ActiveSpec& active = train_.active_classes;
  const TrainSpan every = active.kind == ActiveSpec::kKnn ? active.rebuild : TrainSpan{1, TrainSpan::kEpochs};
  return active.kind != ActiveSpec::kAll && clock_.is_due(every, done_ + 1);
}

Status TrainingRun::save() {
  const CountedAs counted(reports_.line(), LineMeans::Activity::kSave);
  return saves_.save(done_);
}

// Called between two steps: checks the progress of the background save, and saves if a save is due or `now` is true.
Status TrainingRun::look_after_saves(bool now) {
  const CountedAs counted(reports_.line(), LineMeans::Activity::kSave);
  XRUN_TRY(saves_.look());
  XRUN_ASSIGN(const bool due, saves_.due(done_));
  return now || due ? save() : Status();
}

Result<TrainOutcome> train(const TrainRequest& request) {
  request.events.on(WorkEvent{.work = Work::kPrepare, .subject = "kernels and memory"});
  auto made = Session::create(request.module, request.training, request.devices, request.session);
  if (request.session.peers != nullptr) {
    XRUN_TRY(request.session.peers->agree(made.ok() ? Status() : Status(made.error())));
  }
  XRUN_ASSIGN(auto session, std::move(made));
  warn_if_interpreted(request.events);
  return TrainingRun(request, std::move(session)).run();
}

}  // namespace xrun::runtime
