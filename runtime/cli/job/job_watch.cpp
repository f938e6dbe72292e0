// Tests: tests/runtime/cluster/mpi_command_test.cpp
#include "runtime/cli/job/job_watch.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/cluster/stop_signals.h"
#include "runtime/comm/ranks/rank_meeting.h"

namespace xrun::cli {
namespace {

constexpr Seconds kMeeting = 10;
constexpr std::chrono::seconds kStart(60);

// `directory`: the checkpoint directory; empty if it is not known. `leave_out`: see EndEvent.
Error loss_error(const runtime::World& world, const runtime::LostRank& lost, const std::string& directory,
                 const std::string& leave_out = "") {
  const std::string without = leave_out.empty() ? "" : " without `" + leave_out + "`";
  std::string help = "start the same command again" + without + ": it continues from the last checkpoint";
  if (!directory.empty()) {
    const auto newest = runtime::newest_in(directory);
    help = newest.ok() && *newest
               ? fmt::format("start the same command again{}: it continues from {}/{}", without, directory, **newest)
               : "start the same command again: it has saved nothing yet";
  }
  const std::string name = world.name(lost.rank);
  return error_of(ErrorKind::kInterrupted, "XG0840",
                  lost.rank == world.rank() && !lost.hangs
                      ? Text("{} was given up by the other ranks: {}", name, lost.how)
                      : Text("{} is lost: {}", name, lost.how),
                  help);
}

int teller_of(const runtime::LostRank& lost) { return lost.rank == 0 ? 1 : 0; }

bool tells(const runtime::World& world, const runtime::LostRank& lost) {
  return (lost.rank == world.rank() && !lost.hangs) || world.rank() == teller_of(lost);
}

std::optional<runtime::LostRank> lost_of(const Job& job) {
  return job.watch == nullptr ? std::nullopt : job.watch->lost();
}

// Whether the rank that prints the loss is on the same host as this rank.
bool near_teller(const Job& job, const runtime::LostRank& lost) {
  const std::vector<int>& nodes = job.options.rank_nodes;
  return nodes.empty() || nodes[static_cast<size_t>(job.rank())] == nodes[static_cast<size_t>(teller_of(lost))];
}

[[noreturn]] void end_now(int exit) {
  std::fflush(nullptr);
  std::_Exit(exit);
}

}  // namespace

// Rank 0 prints the error. The other ranks wait two seconds longer, so that they print it only if rank 0 is missing.
StartLimit::StartLimit(const GlobalOptions& options, int rank, int count)
    : thread_([this, options, rank, count] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, kStart + std::chrono::seconds(rank == 0 ? 0 : 2), [&] { return over_; })) {
          return;
        }
        end_now(Console(options).fail(world_error(
            "XG0842",
            {"not all ranks{} had started after {} s", count > 0 ? fmt::format(" ({})", count) : "", kStart.count()},
            "check which of their processes hangs and whether their hosts reach each other; then start the "
            "same command again")));
      }) {}

StartLimit::~StartLimit() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Status watch_ranks(Job& job) {
  runtime::World& world = *job.world;
  auto connections = runtime::meet_ranks(world, kMeeting);
  if (!connections.ok()) {
    return std::move(connections).error();
  }
  runtime::WatchOptions options;
  // The process ends at once. This loses nothing, since a checkpoint cannot be saved without the lost rank.
  options.on_stuck = [&world, console = job.options](const runtime::LostRank& lost) {
    const Error error = loss_error(world, lost, "");
    if (tells(world, lost)) {
      (void)Console(console).fail(error);
    }
    end_now(exit_code(error.kind));
  };
  job.hangs = std::make_unique<HangWatch>(world);
  options.work = [hangs = job.hangs.get()] { return hangs->look(); };
  options.describe = HangWatch::describe;
  options.on_late = [hangs = job.hangs.get()](int rank, const runtime::WorkReport& report) {
    hangs->note_late(rank, report);
  };
  auto watch = runtime::RankWatch::start(
      world.rank(), std::move(connections).value(),
      [&world](const runtime::LostRank& lost) { world.network().lose(loss_error(world, lost, "")); }, options);
  XRUN_TRY(world.agree(watch.ok() ? Status() : Status(watch.error())));
  job.watch = std::move(watch).value();
  return {};
}

std::optional<Error> loss_of(const Job& job) {
  const auto lost = lost_of(job);
  return lost ? std::optional(loss_error(*job.world, *lost, job.checkpoints, job.leave_out)) : std::nullopt;
}

bool tells_loss(const Job& job) {
  const auto lost = lost_of(job);
  return lost && tells(*job.world, *lost);
}

bool waits_in_vain(const Job& job) {
  const auto lost = lost_of(job);
  if (!lost || !(lost->hangs || near_teller(job, *lost))) {
    return false;
  }
  const bool gave_up_itself = lost->rank == job.world->rank();
  const auto wait = std::chrono::milliseconds(1000 + (gave_up_itself ? 300 * job.world->rank() : 0));
  const auto end = std::chrono::steady_clock::now() + wait;
  while (!StopSignals::requested().load()) {
    if (std::chrono::steady_clock::now() >= end) {
      return gave_up_itself;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

bool wakes_launcher(const Job& job) {
  const auto lost = lost_of(job);
  return lost && !lost->hangs && (tells(*job.world, *lost) || !near_teller(job, *lost));
}

}  // namespace xrun::cli
