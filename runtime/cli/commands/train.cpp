// `xrun train`: executes a plan. Shows progress, evaluates and saves checkpoints during the run, and ends cleanly after
// a signal.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "planner/cost/graph_builds.h"
#include "planner/program/run_memory.h"
#include "runtime/checkpoint/store.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/commands/train_checkpoints.h"
#include "runtime/cli/job/job.h"
#include "runtime/cli/job/job_watch.h"
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
  events.on_work({.work = runtime::Work::kOpen, .subject = "train"});
  XRUN_ASSIGN(auto rows, runtime::SampleRows::open(module.data, "train", module.graph, &StopSignals::requested()));
  XRUN_TRY(runtime::check_curve(train, rows->samples()));
  XRUN_TRY(runtime::check_graphs(train, rows->samples()));
  warn_of(*rows, events);
  if (const auto large = runtime::warn_of_large_batch(train, rows->samples())) {
    events.on_warn({large->code, large->message + "; " + large->help});
  }
  Facts facts;
  if (job.world != nullptr) {
    add_facts(*rows, facts);
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
  if (may_go_on || trained) {
    XRUN_ASSIGN(classes_of_samples, use_classes(*rows, module, classes, &StopSignals::requested()));
  }
  const BadSampleTold warn = [&events](const std::string& message) { events.on_warn({"XG0412", message}); };
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
                                                           events.on_warn({warning.code, warning.message});
                                                         },
                                                     .patience = patience}));
  std::vector<std::string> names;
  if (train.eval_every || !train.metrics.empty()) {
    names = measured_sources(module);
  }
  XRUN_ASSIGN(auto eval, open_row_sources(planned, names, classes, events,
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

  void on_work(const runtime::WorkEvent& event) override {
    if (hangs_ != nullptr) {
      hangs_->begin(event);
    }
    Sink::on_work(event);
  }

 private:
  HangWatch* hangs_;
};

// Makes the sink of the run's events. Only rank 0 shows the run and writes its log.
std::unique_ptr<runtime::EventSink> make_sink(const Job& job, const Console& console, const std::string& directory,
                                              const TrainSpec& train) {
  HangWatch* const hangs = job.hangs.get();
  if (!job.leads()) {
    return std::make_unique<Watched<runtime::EventSink>>(hangs);
  }
  return std::make_unique<Watched<LoggedProgress>>(
      hangs, make_progress(job.options.progress, console),
      LogOptions{.directory = directory, .tensorboard = train.log_tensorboard, .prometheus = train.log_prometheus});
}

template <typename T>
Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

// Does the work of run_train as one of the processes of a job.
int train_in(Job& job, const GlobalOptions& given, const TrainArgs& args) {
  const GlobalOptions& options = job.options;
  const Console console(options);
  int exit = 0;
  const auto place = [&](const TrainSpec& train) {
    return args.resume == "auto" ? checkpoint_directory(options, train) : args.resume;
  };
  const Status asked = hold_alike(job, facts_of_command(given, args), "was started with another command than rank 0",
                                  "give all ranks the same file and the same flags");
  if (!asked.ok()) {
    return fail_job(job, asked.error(), console, {});
  }
  if (const Status measured = is_plan_file(args.file) ? Status() : measure_network(job); !measured.ok()) {
    return fail_job(job, measured.error(), console, {});
  }
  const bool resumes = args.resume != "never" && !is_plan_file(args.file) && job.leads();
  auto planned = plan_of_job(
      job, args.file, resumes ? with_stored_norm_rows(args.file, options, place, console) : options, console, exit);
  if (!planned) {
    return exit;
  }
  const SourceMap sources = planned->model.sources;
  const TrainSpec& train = planned->prepared.training.train;
  const auto progress = make_sink(job, console, checkpoint_directory(options, train), train);
  job.checkpoints = checkpoint_directory(options, train);
  job.leave_out = flags_of_one_start(args);
  if (job.unwatched) {
    progress->on_warn(
        {job.unwatched->code, job.unwatched->message + ": a rank that hangs is not seen; " + job.unwatched->help});
  }
  progress->on_plan({.plan = planned->plan.id, .file = is_plan_file(args.file) ? args.file : ""});
  const StopSignals signals([&] { progress->on_interrupt(); });
  Phase phase(console);
  const auto devices = start_devices(planned->plan.training, job.rank(), job.neighbours);
  if (const Status started = job.agree(status_of(devices)); !started.ok()) {
    return fail_job(job, started.error(), console, sources);
  }
  const WatchedWork watched(job.hangs.get(), args.step_timeout, **devices, job.leads() ? progress.get() : nullptr);
  auto run = open_run(std::move(*planned), options, args, *progress, job);
  progress->on_work({});
  if (const Status opened = job.agree(status_of(run)); !opened.ok()) {
    return fail_job(job, opened.error(), console, sources);
  }
  run->planned.plan.samples = run->batches->samples();
  const planner::Plan& plan = run->planned.plan;
  if (const auto slow = planner::slow_graphs(plan, run->planned.prepared.training)) {
    progress->on_warn({slow->code, slow->message + ": " + slow->fixes[0].title});
  }
  phase.done("data", format_count(run->batches->samples()) +
                         " samples to train on; sources to evaluate on: " + std::to_string(run->eval.size()));
  std::vector<runtime::RowSource*> eval;
  for (const auto& source : run->eval) {
    eval.push_back(source.get());
  }
  const planner::RunMemory needed = planner::run_memory(run->planned.prepared.training, plan.training, plan.inference);
  const auto outcome = runtime::train({.module = run->planned.prepared.training,
                                       .training = plan.training,
                                       .run = run->planned.model.file.run,
                                       .inference_module = &run->planned.prepared.inference,
                                       .inference = eval.empty() ? nullptr : &plan.inference,
                                       .devices = **devices,
                                       .batches = *run->batches,
                                       .eval_sources = eval,
                                       .checkpoints = run->checkpoints.get(),
                                       .events = *progress,
                                       .session = session_options(job, run->planned, **devices),
                                       .plan_id = plan.id,
                                       .predicted = predicted_step(plan),
                                       .smaller = smaller_steps(plan),
                                       .memory_planned = needed.sum(),
                                       .memory_usable = plan.machine.memory,
                                       .hosts = job.world == nullptr ? "" : job.world->spread(),
                                       .resume = args.resume != "never",
                                       .leave_out = job.leave_out,
                                       .profile = args.profile,
                                       .steps = args.steps.value_or(-1),
                                       .stop = &StopSignals::requested()});
  progress->on_work({});
  if (!outcome.ok()) {
    return fail_job(job, outcome.error(), console, sources);
  }
  return outcome->interrupted ? exit_code(ErrorKind::kInterrupted) : 0;
}

struct JobEnd {
  int exit = 0;
  bool wakes_launcher = false;
};

JobEnd run_job(const GlobalOptions& given, const TrainArgs& args) {
  auto joined = join_job(given, "train");
  if (!joined.ok()) {
    return {.exit = fail_job({}, joined.error(), Console(given), {})};
  }
  Job job = std::move(joined).value();
  const int exit = train_in(job, given, args);
  return {.exit = exit, .wakes_launcher = wakes_launcher(job)};
}

}  // namespace

int run_train(const GlobalOptions& given, const TrainArgs& args) {
  const auto found = find_launch([](const char* name) { return std::getenv(name); });
  const Launch launch = found.ok() ? *found : Launch();
  report_begin(launch);
  const JobEnd end = run_job(given, args);
  report_exit(end.exit);
  if (end.wakes_launcher) {
    wake_launcher(launch, StopSignals::requested());
  }
  return end.exit;
}

}  // namespace xrun::cli
