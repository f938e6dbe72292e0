// The processes of a run: a single one, or the ranks that a launcher started together. Ranks first check that their
// builds and commands are equal; then all execute the plan of rank 0.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/console/console.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"
#include "runtime/cli/job/hang_watch.h"
#include "runtime/cli/job/rank_facts.h"
#include "runtime/cli/model/planned.h"
#include "runtime/comm/ranks/rank_watch.h"
#include "runtime/comm/ranks/world.h"
#include "runtime/train/session/session.h"

namespace xrun::cli {

// Ends the world when it is destroyed, while the ranks are still watched. The end waits for all ranks in MPI; without
// the watch a frozen rank would block the others for ever.
class WorldEnd {
 public:
  explicit WorldEnd(runtime::World& world) : world_(world) {}
  WorldEnd(const WorldEnd&) = delete;
  WorldEnd& operator=(const WorldEnd&) = delete;
  ~WorldEnd() { world_.end(); }

 private:
  runtime::World& world_;
};

struct Job {
  std::unique_ptr<runtime::World> world;  // null: the run has one process
  GlobalOptions options;             // with the cores and memory of all hosts; ranks other than 0 print only errors
  std::vector<int> neighbours;       // ranks on the same processors of this host, including this rank
  std::string checkpoints;           // the checkpoint directory, once it is known
  std::string leave_out;             // flags that the command to continue must leave out (EndEvent)
  std::optional<Error> unwatched;    // reason why the ranks cannot be watched
  std::unique_ptr<HangWatch> hangs;  // null if `watch` is null; `watch` uses it
  std::unique_ptr<runtime::RankWatch> watch;  // null: one process, or ranks that cannot be watched
  std::unique_ptr<WorldEnd> end;              // declared after `watch`, so that it is destroyed before `watch`
  std::shared_ptr<void> work;                 // the work of the command, which uses the members above

  int rank() const { return world == nullptr ? 0 : world->rank(); }
  int count() const { return world == nullptr ? 1 : world->count(); }
  int hosts() const { return options.rank_nodes.empty() ? 1 : std::ranges::max(options.rank_nodes) + 1; }
  bool leads() const { return rank() == 0; }
  Status agree(Status mine) const { return world == nullptr ? std::move(mine) : world->agree(std::move(mine)); }
};

// Joins the world and compares the builds of the ranks. Errors: those of join_world; XG0833 the builds differ.
Result<Job> join_job(const GlobalOptions& options, const std::string& command);
// Measures the network between the hosts of a job, which rank 0 needs to plan. All ranks call it. Does nothing if all
// ranks are on one host. Errors: XG0834.
Status measure_network(Job& job);

// Checks that all ranks have equal facts. Each rank calls it with its own facts, or with the error that it met. The
// result is the same on all ranks. Errors: XG0833 with the differences; the error of a rank. `cause` completes the
// message "rank 2 ...": "reads other data than rank 0".
Status hold_alike(const Job& job, const Result<Facts>& mine, const std::string& cause, const std::string& help);
// Plans on rank 0 (plan_from) and sends the plan to the other ranks. If another rank was given a plan file, it checks
// that the file holds the same plan. If a rank fails, all fail with its exit code, and the failure is silent on the
// other ranks. `path_options`: the options of rank 0.
Outcome<PlannedModel> plan_of_job(Job& job, const std::string& path, const GlobalOptions& path_options,
                                  const Console& console);

// Checks that `count` ranks on `hosts` hosts can run the plan. Errors: kUsage XG0832.
Status check_ranks(const planner::Plan& plan, int count, int hosts = 1);

// The options of this rank's session. REQUIRES: job, plan and devices outlive the session.
runtime::SessionOptions session_options(const Job& job, const PlannedModel& planned, const runtime::DeviceSet& devices);

// Ends the run with an error: notifies the other ranks, and returns the failure that this rank prints. If the loss of a
// rank caused the error, the failure is that loss. The failure is silent if another rank prints it.
Failure fail_job(const Job& job, const Error& error, const SourceMap& sources = {});

}  // namespace xrun::cli
