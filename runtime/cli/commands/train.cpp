// `xrun train`: executes a plan. Shows progress, evaluates and saves checkpoints during the run, and ends cleanly after
// a signal.
// Tests: tests/runtime/cli/commands/command_test.cpp
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <variant>

#include "planner/cost/graph_builds.h"
#include "planner/program/run_memory.h"
#include "runtime/checkpoint/store.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/commands/train_checkpoints.h"
#include "runtime/cli/job/job.h"
#include "runtime/cli/job/job_watch.h"
#include "runtime/cli/job/run_command.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/model/plan_session.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/model/stored_norm_rows.h"
#include "runtime/cli/progress/progress.h"
#include "runtime/cli/progress/run_log.h"
#include "runtime/cli/sources/run_classes.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/cluster/launcher.h"
#include "runtime/cluster/rank_exits.h"
#include "runtime/cluster/sleeping_launcher.h"
#include "runtime/cluster/stop_signals.h"
#include "runtime/data/sample_rows.h"
#include "runtime/device/cuda/machine/gpu_probe.h"
#include "runtime/train/clock/large_batch.h"
#include "runtime/train/clock/rate.h"
#include "runtime/train/knn/knn_graphs.h"
#include "runtime/train/trainer.h"

namespace xrun::cli {
namespace {

// Ends the process because a read does not return, for example from a server that is gone. The run is already saved.
void leave_stuck(const std::string& source) {
  std::fprintf(stderr, "xrun: a read of the source `%s` does not end; the run ends without waiting for it\n",
               source.c_str());
  std::fflush(nullptr);
  std::_Exit(exit_code(ErrorKind::kInterrupted));
}

struct Run {
  PlannedModel planned;
  std::unique_ptr<runtime::BatchSource> batches;
  std::vector<std::unique_ptr<runtime::RowSource>> eval;
  std::unique_ptr<runtime::CheckpointStore> checkpoints;
};

Result<Run> open_run(PlannedModel planned, const GlobalOptions& options, const TrainArgs& args,
                     runtime::EventSink& events, const Job& job) {
  const Module& module = planned.prepared.training;
  const TrainSpec& train = module.train;
  events.on(runtime::WorkEvent{.work = runtime::Work::kOpen, .subject = "train"});
  XRUN_ASSIGN(auto rows, runtime::SampleRows::open(module.data, "train", module.graph, &StopSignals::requested()));
  XRUN_TRY(runtime::check_curve(train, rows->samples()));
  XRUN_TRY(runtime::check_graphs(train, rows->samples()));
  warn_of(*rows, events);
  if (const auto large = runtime::warn_of_large_batch(train, rows->samples())) {
    events.on(runtime::WarnEvent{large->code, large->message + "; " + large->help});
  }
  DataMemory memory;
  memory.add(*rows, module.data);
  memory.readers += runtime::SampleSequence::memory(train.order, rows->samples());
  runtime::CheckpointOptions store = store_options(planned, options, args, job, rows->samples());
  // If there can be no checkpoint, the training source decides the classes. Faults of `class_weights` are reported
  // before a directory is made.
  const bool may_go_on = args.resume != "never" &&
                         (args.resume != "auto" || !store.copy.empty() || runtime::is_checkpoint(store.directory));
  std::optional<std::vector<int32_t>> classes_of_samples;
  if (!may_go_on) {
    XRUN_ASSIGN(classes_of_samples, use_classes(*rows, module, rows->classes(), &StopSignals::requested()));
  }
  // An earlier run that is renamed keeps its row files, which take space as well.
  XRUN_TRY(check_disk(planned, store.directory + (store.overwrite ? ".1" : ""), rows->samples()));
  XRUN_ASSIGN(auto checkpoints, runtime::make_checkpoint_store(std::move(store)));
  XRUN_ASSIGN(const auto trained, checkpoints->classes());
  XRUN_ASSIGN(const runtime::ClassTables classes, settle_classes(*rows, trained, module, args.extend, events));
  checkpoints->keep_classes(classes);
  XRUN_ASSIGN(const auto known, checkpoints->scales());
  std::vector<Error> warnings;
  XRUN_ASSIGN(const runtime::InputScales scales, rows->settle_scales(known, warnings, &StopSignals::requested()));
  for (const Error& warning : warnings) {
    events.on(runtime::WarnEvent{warning.code, warning.message});
  }
  checkpoints->keep_scales(scales);
  Facts facts;
  if (job.world != nullptr) {
    add_facts(*rows, facts);
  }
  if (may_go_on || trained) {
    XRUN_ASSIGN(classes_of_samples, use_classes(*rows, module, classes, &StopSignals::requested()));
  }
  const BadSampleTold warn = [&events](const std::string& message) {
    events.on(runtime::WarnEvent{"XG0412", message});
  };
  const runtime::RowTasks::Patience patience{.stop = &StopSignals::requested(), .on_stuck = leave_stuck};
  XRUN_ASSIGN(auto batches,
              runtime::make_loader(std::move(rows), {.batch = train.unit(),
                                                     .seed = train.seed,
                                                     .order = train.order,
                                                     .classes = std::move(*classes_of_samples),
                                                     .max_bad = module.data.max_bad,
                                                     .sums_loss = train.reduce_sum,
                                                     .workers = planned.workers(),
                                                     .on_bad = warn,
                                                     .on_warning =
                                                         [&events](const Error& warning) {
                                                           events.on(runtime::WarnEvent{warning.code, warning.message});
                                                         },
                                                     .patience = patience}));
  std::vector<std::string> names;
  if (train.eval_every || !train.metrics.empty()) {
    names = measured_sources(module);
  }
  XRUN_ASSIGN(auto eval, open_row_sources(planned, names, {classes, scales}, events,
                                          {.stop = &StopSignals::requested(),
                                           .on_bad = warn,
                                           .memory = &memory,
                                           .facts = job.world == nullptr ? nullptr : &facts,
                                           .patience = patience}));
  XRUN_TRY(hold_alike(job, facts, "reads other data than rank 0", "give all hosts the same files"));
  XRUN_TRY(check_memory(planned, memory));
  return Run{std::move(planned), std::move(batches), std::move(eval), std::move(checkpoints)};
}

// Makes a sink that also reports to the watch what this rank is doing.
template <typename Sink>
class Watched final : public Sink {
 public:
  template <typename... Arguments>
  explicit Watched(HangWatch* hangs, Arguments&&... arguments)
      : Sink(std::forward<Arguments>(arguments)...), hangs_(hangs) {}

  void on(const runtime::Event& event) override {
    const auto* const work = std::get_if<runtime::WorkEvent>(&event);
    if (work != nullptr && hangs_ != nullptr) {
      hangs_->begin(*work);
    }
    Sink::on(event);
  }

 private:
  HangWatch* hangs_;
};

// Makes the sink of the run's events. Only rank 0 shows the run and writes its log.
std::unique_ptr<runtime::EventSink> make_sink(const Job& job, const Console& console, const std::string& directory,
                                              const TrainSpec& train) {
  HangWatch* const hangs = job.hangs.get();
  if (!job.leads()) {
    return std::make_unique<Watched<runtime::NullSink>>(hangs);
  }
  return std::make_unique<Watched<LoggedProgress>>(
      hangs, make_progress(job.options.progress, console),
      LogOptions{.directory = directory, .tensorboard = train.log_tensorboard, .prometheus = train.log_prometheus});
}

template <typename T>
Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

// A training run in one process of a job. Its failure is printed before the object is destroyed, since that may wait
// for a read that does not return.
class Training {
 public:
  Training(Job& job, const GlobalOptions& given, const TrainArgs& args)
      : job_(job), given_(given), args_(args), console_(job.options) {}

  // Trains. Returns the exit code.
  Outcome<int> run() {
    std::optional<cuda::GpuProbe> probe;
    if (may_name_gpus()) {
      probe.emplace();  // it runs while the plan is made
    }
    XRUN_ASSIGN(PlannedModel planned, plan());
    announce(planned);
    if (probe && !planned.plan.machine.has_gpus()) {
      name_gpus(*probe);
    }
    probe.reset();
    XRUN_TRY(open(std::move(planned)));
    return train();
  }

 private:
  // Compares the commands of the ranks, measures their network, and makes the plan.
  Outcome<PlannedModel> plan();
  // Makes the sink of the events and reports the plan.
  void announce(const PlannedModel& planned);
  // Whether a note about GPUs of this machine would be shown and could be followed.
  bool may_name_gpus() const {
    return job_.world == nullptr && given_.devices == 0 && !given_.gpus && !given_.quiet && given_.progress != "none" &&
           !is_plan_file(args_.file);
  }
  // Notes that this machine has GPUs which the run does not use.
  void name_gpus(cuda::GpuProbe& probe);
  // Starts the devices and opens the data and the checkpoints.
  Outcome<void> open(PlannedModel planned);
  Outcome<int> train();

  // Turns an error into the failure with which this rank ends.
  Outcome<void> in_job(const Status& status) const {
    return status.ok() ? Outcome<void>() : fail_job(job_, status.error(), sources_);
  }

  Job& job_;
  const GlobalOptions& given_;
  const TrainArgs& args_;
  const Console console_;
  SourceMap sources_;  // sources of the model, once it is planned
  std::unique_ptr<runtime::EventSink> progress_;
  std::optional<StopSignals> signals_;
  std::unique_ptr<runtime::DeviceSet> devices_;
  std::optional<WatchedWork> watched_;
  std::optional<Run> run_;
};

Outcome<PlannedModel> Training::plan() {
  const GlobalOptions& options = job_.options;
  const auto place = [&](const TrainSpec& train) {
    return args_.resume == "auto" ? checkpoint_directory(options, train) : args_.resume;
  };
  XRUN_TRY(in_job(hold_alike(job_, facts_of_command(given_, args_), "was started with another command than rank 0",
                             "give all ranks the same file and the same flags")));
  XRUN_TRY(in_job(is_plan_file(args_.file) ? Status() : measure_network(job_)));
  const bool resumes = args_.resume != "never" && !is_plan_file(args_.file) && job_.leads();
  return plan_of_job(job_, args_.file, resumes ? with_stored_norm_rows(args_.file, options, place, console_) : options,
                     console_);
}

void Training::announce(const PlannedModel& planned) {
  const TrainSpec& train = planned.prepared.training.train;
  sources_ = planned.model.sources;
  job_.checkpoints = checkpoint_directory(job_.options, train);
  job_.leave_out = flags_of_one_start(args_);
  progress_ = make_sink(job_, console_, job_.checkpoints, train);
  if (job_.unwatched) {
    progress_->on(runtime::WarnEvent{
        job_.unwatched->code, job_.unwatched->message + ": a rank that hangs is not seen; " + job_.unwatched->help});
  }
  if (const auto other = other_calibration(planned.prepared.training, planned.prepared)) {
    progress_->on(runtime::WarnEvent{other->code, other->message + ": " + other->help});
  }
  progress_->on(runtime::PlanEvent{.plan = planned.plan.id, .file = is_plan_file(args_.file) ? args_.file : ""});
  signals_.emplace([this] { progress_->on(runtime::InterruptEvent{}); });
}

void Training::name_gpus(cuda::GpuProbe& probe) {
  constexpr Seconds kMostDetection = 2;  // without an answer, the run starts without the note
  cuda::Gpus gpus = probe.wait(kMostDetection);
  std::erase_if(gpus.found, [](const cuda::Gpu& gpu) { return !cuda::is_usable(gpu); });
  if (!gpus.found.empty()) {
    progress_->on(runtime::NoteEvent{fmt::format(
        "the run uses CPUs, and this machine has {}; to train on GPUs, add `--devices cuda`", cuda::names_of(gpus))});
  }
}

Outcome<void> Training::open(PlannedModel planned) {
  Phase phase(console_);
  auto devices = start_devices(planned, planned.plan.training, job_.rank(), job_.neighbours);
  XRUN_TRY(in_job(job_.agree(status_of(devices))));
  devices_ = std::move(devices).value();
  watched_.emplace(job_.hangs.get(), args_.step_timeout, *devices_, job_.leads() ? progress_.get() : nullptr);
  auto run = open_run(std::move(planned), job_.options, args_, *progress_, job_);
  Status opened = status_of(run);
  if (run.ok()) {
    run_ = std::move(run).value();
  }
  progress_->on(runtime::WorkEvent{});
  XRUN_TRY(in_job(job_.agree(std::move(opened))));
  planner::Plan& plan = run_->planned.plan;
  plan.samples = run_->batches->samples();
  if (const auto slow = planner::slow_graphs(plan, run_->planned.prepared.training)) {
    progress_->on(runtime::WarnEvent{slow->code, slow->message + ": " + slow->fixes[0].title});
  }
  phase.done("data", format_count(plan.samples) +
                         " samples to train on; sources to evaluate on: " + std::to_string(run_->eval.size()));
  return {};
}

Outcome<int> Training::train() {
  const PlannedModel& planned = run_->planned;
  const planner::Plan& plan = planned.plan;
  std::vector<runtime::RowSource*> eval;
  for (const auto& source : run_->eval) {
    eval.push_back(source.get());
  }
  const planner::RunMemory needed = planner::run_memory(planned.prepared.training, plan.training, plan.inference);
  const auto outcome =
      runtime::train({.module = planned.prepared.training,
                      .training = plan.training,
                      .run = planned.model.file.run,
                      .inference_module = &planned.prepared.inference,
                      .inference = eval.empty() ? nullptr : &plan.inference,
                      .devices = *devices_,
                      .batches = *run_->batches,
                      .eval_sources = eval,
                      .checkpoints = run_->checkpoints.get(),
                      .events = *progress_,
                      .session = session_options(job_, planned, *devices_),
                      .plan_id = plan.id,
                      .predicted = predicted_step(plan),
                      .smaller = smaller_steps(plan),
                      .memory_planned = needed.sum(),
                      .memory_usable = plan.machine.memory + plan.machine.devices * plan.machine.device_memory,
                      .hosts = job_.world == nullptr ? "" : job_.world->spread(),
                      .resume = args_.resume != "never",
                      .leave_out = job_.leave_out,
                      .profile = args_.profile,
                      .steps = args_.steps.value_or(-1),
                      .stop = &StopSignals::requested()});
  progress_->on(runtime::WorkEvent{});
  XRUN_TRY(in_job(status_of(outcome)));
  return outcome->interrupted ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace

Outcome<int> run_train(const GlobalOptions& given, const TrainArgs& args) {
  const auto found = find_launch([](const char* name) { return std::getenv(name); });
  const Launch launch = found.ok() ? *found : Launch();
  bool wakes = false;
  report_begin(launch);
  const int exit = run_in_job(
      given, "train",
      [&](Job& job) {
        const auto training = std::make_shared<Training>(job, given, args);
        job.work = training;
        return training->run();
      },
      [&](const Job& job) { wakes = wakes_launcher(job); });
  report_exit(exit);
  if (wakes) {
    wake_launcher(launch, StopSignals::requested());
  }
  return exit;
}

}  // namespace xrun::cli
