// A run: load or initialise the state; report the start; then repeat for each step: change the size of the batch if it
// grows, wait for the data and for the graphs of classes, run the step, report it, save and evaluate if that is due. At
// the end, or when the run is stopped or fails between two steps, save the state and report the end. All ranks make the
// same decisions at the same steps; if only one rank can decide, it sends its decision to the others.
#include "runtime/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <utility>

#include "graph/base/check.h"
#include "graph/layouts/compression.h"
#include "graph/passes/pipeline.h"
#include "graph/settings/group_rules.h"
#include "graph/settings/reader_def.h"
#include "runtime/device/host.h"
#include "runtime/train/clock/run_clock.h"
#include "runtime/train/evaluation/inference.h"
#include "runtime/train/knn/knn_graphs.h"
#include "runtime/train/records.h"
#include "runtime/train/saves.h"
#include "runtime/train/session/broken_samples.h"
#include "runtime/train/step_reports.h"

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One run, from its first step to its last.
class Run {
 public:
  Run(const TrainRequest& request, std::unique_ptr<Session> session)
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
               [this] { return since(begin_); }) {
    XRUN_CHECK(std::ssize(request.smaller) == (train_.growth ? train_.growth->times - 1 : 0),
               "a growing batch has a program for each of its sizes");
  }

  Result<TrainOutcome> run() {
    begin_ = Clock::now();
    Status status = steps_within_memory();
    request_.batches.stop();
    if (!status.ok() && whole_ && !saves_.has(done_)) {
      (void)save();  // keep the progress despite unreadable data; the first error is the one to report
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
    const double loss = reports_.loss();
    TrainOutcome outcome{.step = done_, .loss = loss, .interrupted = interrupted_};
    request_.events.on(WorkEvent{.work = Work::kPrepare, .subject = "the digest of the weights"});
    // The weights of a failed run are not a result.
    if (status.ok()) {
      auto weights = session_->weights_digest();
      outcome.weights = weights.ok() ? *weights : "";
      status = weights.ok() ? Status() : std::move(weights).error();
    }
    request_.events.on(EndEvent{.step = done_,
                                .steps = total_,
                                .loss = loss,
                                .weights = outcome.weights,
                                .exit = !status.ok()   ? exit_code(status.error().kind)
                                        : interrupted_ ? exit_code(ErrorKind::kInterrupted)
                                                       : 0,
                                .saved = saves_.path(),
                                .leave_out = request_.leave_out,
                                .seconds = since(begin_),
                                .bad_samples = request_.batches.bad_samples(),
                                .timed_steps = reports_.timed_steps(),
                                .devices = reports_.device_sums(),
                                .host_sent = status.ok() ? host_sent() : std::vector<Bytes>(),
                                .arenas = session_->memory() + (evaluator_ == nullptr ? 0 : evaluator_->memory()),
                                .peak_before_arenas = session_->peak_before(),
                                .peak_resident = peak_resident()});
    if (!status.ok()) {
      return std::move(status).error();
    }
    return outcome;
  }

 private:
  // Computes EndEvent::host_sent. All ranks call it.
  std::vector<Bytes> host_sent() const {
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

  // Runs the steps, and turns std::bad_alloc, for example from an evaluation, into an error, so that the progress is
  // saved.
  Status steps_within_memory() {
    try {
      return run_steps();
    } catch (const std::bad_alloc&) {
      return session_->agree(
          Error{ErrorKind::kWorld, "", "out of memory", "close other programs, or train a smaller model"});
    }
  }

  Status run_steps() {
    XRUN_TRY(session_->agree(prepare()));
    const int64_t end = request_.steps < 0 ? total_ : std::min(total_, request_.steps);
    request_.events.on(StartEvent{.model = request_.module.model,
                                  .plan = request_.plan_id,
                                  .devices = request_.training.devices,
                                  .first_step = done_,
                                  .steps = total_,
                                  .steps_per_epoch = (samples_ + train_.unit() - 1) / train_.unit(),
                                  .epochs = clock_.epochs(),
                                  .samples = samples_,
                                  .all_samples = clock_.samples_after(total_),
                                  .synthetic = synthetic_sources(request_.module.data),
                                  .batch = train_.unit(),
                                  .last_batch = train_.growth ? train_.batch : 0,
                                  .predicted_step = prediction().step,
                                  .memory = session_->memory(),
                                  .memory_planned = request_.memory_planned,
                                  .memory_usable = request_.memory_usable,
                                  .ranks = request_.training.ranks,
                                  .hosts = request_.hosts});
    if (done_ < end) {
      XRUN_TRY(start_batches());
    }
    const int64_t first = done_;
    saves_.begin(done_);
    whole_ = true;
    // Evaluates again after resuming, since a checkpoint does not record whether the evaluation after it was completed.
    if (resumed_ && (done_ == total_ || due(eval_span()))) {
      XRUN_TRY(evaluate_now());
    }
    reports_.line().begin();
    while (done_ < end && !interrupted_ && !stopped_) {
      const bool last = done_ + 1 == end;
      if (Status stepped = run_step(last); !stepped.ok()) {
        // If the run was asked to stop while it waited for data, the state is complete, and the progress is saved.
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
        request_.events.on(InterruptEvent{});  // another rank was interrupted
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
    // A run of no steps saves its initial values.
    const bool begins = done_ == 0 && !resumed_ && !interrupted_;
    if (begins || (interrupted_ && !saves_.has(done_))) {
      XRUN_TRY(save());
    }
    if (done_ > first) {
      reports_.finish();
    }
    return {};
  }

  Status prepare() {
    TrainState& state = session_->state();
    if (request_.checkpoints != nullptr && request_.resume) {
      request_.events.on(WorkEvent{.work = Work::kLoad, .subject = "the latest checkpoint"});
      XRUN_ASSIGN(const auto resumed, request_.checkpoints->resume(state));
      if (resumed) {
        resumed_ = true;
        done_ = first_ = resumed->step;
        saves_.resumed_from(resumed->path);
        if (done_ > total_) {
          return Error{ErrorKind::kContent, "XG0815",
                       resumed->path + " has done " + format_count(done_) + " steps, but the whole run has " +
                           format_count(total_),
                       "train longer than that: raise `epochs` or `steps`", train_.span};
        }
        records_.restore(resumed->records, done_);
        XRUN_TRY(request_.checkpoints->remember(records_.all()));
        request_.events.on(ResumeEvent{done_, resumed->path});
        for (const WarnEvent& warning : resumed->warnings) {
          request_.events.on(warning);
        }
      }
    }
    if (!resumed_ && request_.checkpoints != nullptr) {
      XRUN_TRY(request_.checkpoints->make_rows(state));
    }
    if (!resumed_ && !train_.init_checkpoint.empty()) {
      XRUN_TRY(start_from(std::filesystem::path(train_.directory) / train_.init_checkpoint));
    } else if (!resumed_) {
      initialise({});
    }
    if (!resumed_ && train_.ema > 0) {
      session_->state().begin_means();
    }
    follow_clock();
    XRUN_TRY(graphs_.begin(done_));
    return session_->weights_changed();
  }

  void initialise(const std::function<bool(const StateTensor&)>& wanted) {
    request_.events.on(WorkEvent{.work = Work::kPrepare, .subject = "the initial weights"});
    session_->state().initialise(train_.seed, wanted, request_.run.moved);
  }

  // Starts from the checkpoint of `init = checkpoint(path)`.
  Status start_from(const std::string& path) {
    XRUN_CHECK(request_.checkpoints != nullptr, "a run begins from a checkpoint, and no store reads it");
    request_.events.on(WorkEvent{.work = Work::kLoad, .subject = path});
    XRUN_ASSIGN(const auto started, request_.checkpoints->start_from(path, request_.run.init_skip, session_->state()));
    const std::vector<FreshPart>& fresh = started.fresh;
    const auto name_of = [](const auto& part) {
      return std::string(part.head ? "the head `" : "the layer `") + part.path + "`";
    };
    for (const FreshPart& part : fresh) {
      request_.events.on(
          WarnEvent{"XG0813", name_of(part) + " is not in " + path + " with these classes: it starts from the seed"});
    }
    for (const MatchedPart& part : started.matched) {
      request_.events.on(NoteEvent{
          name_of(part) + ": " + format_count(part.matched) + " of " + format_count(part.classes) + " classes are in " +
          path + (part.by_name ? " by name" : " by number") + " and start from its rows" +
          (part.matched < part.classes ? ", " + format_count(part.classes - part.matched) + " start from the seed"
                                       : "")});
    }
    initialise([&](const StateTensor& tensor) {
      const auto holds = [&](const std::string& path_of_part) { return is_below(path_of_part, tensor.name); };
      return tensor.role == StateTensor::Role::kOptimizer || tensor.role == StateTensor::Role::kResidual ||
             std::any_of(
                 fresh.begin(), fresh.end(),
                 [&](const FreshPart& part) { return part.head ? tensor.head == part.path : holds(part.path); }) ||
             std::any_of(request_.run.init_skip.begin(), request_.run.init_skip.end(), holds);
    });
    return {};
  }

  // Sets everything in the session that depends on the progress of the run.
  void follow_clock() {
    session_->follow([this](int64_t step) { return clock_.rate(step); }, done_);
    if (const CompressSpec& compress = train_.compress; compress.warmup) {
      session_->compress_by([this, &compress, units = compress.warmup->steps(samples_, train_.unit())](int64_t step) {
        return density_at(compress, units, clock_.sizes().begin_of(step));
      });
    }
  }

  // The program for the size of the next step; null if the step has the full size.
  const SmallerStep* smaller() const {
    const int64_t units = clock_.sizes().units_of(done_);
    return units <= std::ssize(request_.smaller) ? &request_.smaller[static_cast<size_t>(units - 1)] : nullptr;
  }
  const StepPrediction& prediction() const { return smaller() == nullptr ? request_.predicted : smaller()->predicted; }

  // If the next step has another size than the last one, creates the session of its program, which takes over the
  // memory of the previous session. The batch source is stopped meanwhile.
  Status take_size() {
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
    // Keeps the former session in members until nothing refers to it any more, even if an exception leaves this
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

  Status start_batches() {
    if (train_.growth) {
      XRUN_TRY(take_size());
      request_.batches.resize({done_, session_->program().batch, clock_.samples_after(done_)});
    }
    return session_->agree(request_.batches.start(done_, session_->ring()));
  }

  Status run_step(bool last) {
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
      XRUN_TRY(graphs_.before_step(done_));  // reports its own work
      request_.events.on(WorkEvent{.work = Work::kStep, .done = done_, .total = total_});
    }
    reports_.graphs_are_here();
    const double rate = clock_.rate(done_);
    whole_ = false;
    const auto slot = static_cast<int>(done_ % static_cast<int64_t>(session_->ring().size()));
    XRUN_TRY(session_->step(done_, rate, slot, request_.stop));
    request_.batches.release(done_);
    return reports_.read(done_ + 1, rate);
  }

  bool told_to_stop() const { return request_.stop != nullptr && request_.stop->load(std::memory_order_relaxed); }

  // The softmax share of the active classes is measured once before a graph is built anew, when its lists are oldest,
  // and once an epoch if classes are drawn at random. It takes a pass over all classes.
  bool measures_mass() const {
    const ActiveSpec& active = train_.active_classes;
    const TrainSpan every = active.kind == ActiveSpec::kKnn ? active.rebuild : TrainSpan{1, TrainSpan::kEpochs};
    return active.kind != ActiveSpec::kAll && clock_.is_due(every, done_ + 1);
  }

  bool due(const TrainSpan& every) const { return clock_.is_due(every, done_); }

  // The time between two evaluations. Without `eval`, the metrics are evaluated at the end of each epoch.
  TrainSpan eval_span() const { return train_.eval_every.value_or(TrainSpan{1, TrainSpan::kEpochs}); }

  Status evaluate_now() {
    if (request_.inference == nullptr || request_.eval_sources.empty() || train_.measured().empty()) {
      return {};
    }
    const CountedAs counted(reports_.line(), LineMeans::Activity::kEvaluation);
    const auto start = Clock::now();
    if (evaluator_ == nullptr) {
      request_.events.on(WorkEvent{.work = Work::kPrepare, .subject = "the evaluation"});
      XRUN_TRY(session_->agree(make_evaluator()));
    }
    evaluator_->state().copy_from(session_->state());
    XRUN_TRY(session_->agree(evaluator_->weights_changed()));
    Peers* const peers = request_.session.peers;
    const Bytes before = peers == nullptr ? 0 : peers->sent_to_hosts();
    auto evaluated = evaluate(*evaluator_, request_.eval_sources, &request_.events, request_.stop);
    evaluation_sent_ += peers == nullptr ? 0 : peers->sent_to_hosts() - before;
    if (!evaluated.ok() && evaluated.error().kind == ErrorKind::kInterrupted) {
      interrupted_ = true;
      return {};
    }
    XRUN_ASSIGN(Evaluation evaluation, std::move(evaluated));
    request_.events.on(EvalEvent{.step = done_,
                                 .metrics = evaluation.metrics,
                                 .sources = std::move(evaluation.sources),
                                 .seconds = since(start)});
    return follow(evaluation.metrics);
  }

  Status make_evaluator() {
    XRUN_ASSIGN(evaluator_,
                Session::create(*request_.inference_module, *request_.inference, request_.devices, request_.session));
    return evaluator_->state().share_rows(session_->state());
  }

  // Handles the results of an evaluation: saves the step if it is among the best and not saved yet, and checks
  // `stop_when`.
  Status follow(const std::vector<Measured>& metrics) {
    records_.add(done_, metrics);
    if (records_.is_best(done_) && !saves_.has(done_)) {
      XRUN_TRY(save());
    }
    if (request_.checkpoints != nullptr && !records_.empty()) {
      XRUN_TRY(session_->agree(request_.checkpoints->remember(records_.all())));
    }
    if (const auto reason = records_.stop_reason(done_, metrics)) {
      stopped_ = true;
      request_.events.on(StopEvent{.step = done_, .reason = *reason});
    }
    return {};
  }

  Status save() {
    const CountedAs counted(reports_.line(), LineMeans::Activity::kSave);
    return saves_.save(done_);
  }

  // Called between two steps: checks how far the background save is, and saves if a save is due, or if `now` is true.
  Status look_after_saves(bool now) {
    const CountedAs counted(reports_.line(), LineMeans::Activity::kSave);
    XRUN_TRY(saves_.look());
    XRUN_ASSIGN(const bool due, saves_.due(done_));
    return now || due ? save() : Status();
  }

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
  int64_t first_ = 0;          // steps done before this start
  Bytes evaluation_sent_ = 0;  // from Peers::sent_to_hosts
  bool whole_ = false;         // whether the state is that after `done_` steps; false during a step
  bool resumed_ = false;
  bool interrupted_ = false;
  bool stopped_ = false;  // whether `stop_when` ended the run
  Clock::time_point begin_;
};

}  // namespace

Result<TrainOutcome> train(const TrainRequest& request) {
  request.events.on(WorkEvent{.work = Work::kPrepare, .subject = "kernels and memory"});
  auto made = Session::create(request.module, request.training, request.devices, request.session);
  if (request.session.peers != nullptr) {
    XRUN_TRY(request.session.peers->agree(made.ok() ? Status() : Status(made.error())));
  }
  XRUN_ASSIGN(auto session, std::move(made));
  warn_if_interpreted(request.events);
  return Run(request, std::move(session)).run();
}

}  // namespace xrun::runtime
