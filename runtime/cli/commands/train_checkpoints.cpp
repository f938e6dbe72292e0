#include "runtime/cli/commands/train_checkpoints.h"

#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <memory>

#include "planner/program/rows_on_disk.h"
#include "planner/program/run_memory.h"
#include "runtime/checkpoint/class_rows/class_row_space.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/model/trained_model.h"
#include "runtime/device/libraries.h"
#include "runtime/train/clock/run_clock.h"

namespace xrun::cli {
namespace {

// For a batch that grows, a function that returns the number of samples after a number of steps; otherwise null.
std::function<int64_t(int64_t steps)> samples_after(const TrainSpec& train, int64_t samples) {
  if (!train.growth) {
    return nullptr;
  }
  return [clock = runtime::RunClock(train, samples)](int64_t steps) { return clock.samples_after(steps); };
}

}  // namespace

std::string checkpoint_directory(const GlobalOptions& options, const TrainSpec& train) {
  const std::filesystem::path base = options.directory.empty() ? "." : options.directory;
  return (base / (train.checkpoint_dir.empty() ? "ckpt/" + train.name : train.checkpoint_dir))
      .lexically_normal()
      .string();
}

runtime::CheckpointOptions store_options(const PlannedModel& planned, const GlobalOptions& options,
                                         const TrainArgs& args, const Job& job, int64_t samples) {
  const TrainSpec& train = planned.prepared.training.train;
  const RunSpec& run = planned.model.file.run;
  const auto file = std::make_shared<const lang::CheckedFile>(planned.model.file);
  return {.directory = checkpoint_directory(options, train),
          .keep = train.checkpoint_keep,
          .resume = args.resume,
          .overwrite = args.overwrite,
          .on_aside =
              [&options](const std::string& from, const std::string& to) {
                Console(options).note(fmt::format("note: the run that was in {} is now in {}\n", from, to));
              },
          .math_digest = planned.prepared.training.math_digest,
          .compare = [file](const runtime::CheckpointInfo& info) { return difference_from(info, *file); },
          .extend = args.extend,
          .isa = planned.plan.isa,
          .deterministic = train.deterministic,
          .seed = train.seed,
          .classes = {},
          .moved_classes = planned.prepared.training.data.moved_classes,
          .version = XRUN_VERSION,
          .epoch_samples = samples,
          .batch = train.batch,
          .samples_after = samples_after(train, samples),
          .libraries = runtime::library_versions(),
          .model = text_of(planned),
          .moved = run.moved,
          .writers = planner::writers_of_rank(planned.plan.training, job.rank()),
          .staging = train.checkpoint_async ? planner::save_staging(planned.plan.training) : 0,
          .copy = run.copy,
          .rank_hosts = job.options.rank_nodes,
          .peers = job.world.get()};
}

Status check_disk(const PlannedModel& planned, const std::string& directory, int64_t samples) {
  std::vector<runtime::RowsRoom> needed;
  for (const planner::RowsOnDisk& one :
       planner::rows_on_disk(planned.prepared.training, planned.plan.training, samples)) {
    needed.push_back({.head = one.head, .rows = one.rows, .undo = one.undo});
  }
  return runtime::check_room(directory, needed);
}

std::string flags_of_one_start(const TrainArgs& args) {
  return args.resume == "auto" ? "" : "--resume " + args.resume + (args.overwrite ? " --overwrite" : "");
}

}  // namespace xrun::cli
