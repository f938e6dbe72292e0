// The processes of a run: one, or the ranks that a launcher started together. They are held to be alike before anything
// begins, and get one plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/console.h"
#include "runtime/cli/options.h"
#include "runtime/cli/planned.h"
#include "runtime/cli/run_sources.h"
#include "runtime/comm/ranks/rank_watch.h"
#include "runtime/comm/ranks/world.h"

namespace xrun::cli {

// Ends a world while its ranks are still watched: MPI waits for all of them, and one that is frozen by then would keep
// the others for ever.
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
  std::unique_ptr<runtime::World> world;      // null: one process
  GlobalOptions options;                      // with what the hosts have together; ranks but 0 print errors alone
  std::vector<int> neighbours;                // the ranks of this host, where they share its processors
  std::string checkpoints;                    // their directory, once it is known
  std::optional<Error> unwatched;             // why ranks cannot be watched
  std::unique_ptr<runtime::RankWatch> watch;  // null: one process, or ranks that cannot be watched
  std::unique_ptr<WorldEnd> end;              // last, so that it is destroyed before the watch

  int rank() const { return world == nullptr ? 0 : world->rank(); }
  int count() const { return world == nullptr ? 1 : world->count(); }
  bool leads() const { return rank() == 0; }
  Status agree(Status mine) const { return world == nullptr ? std::move(mine) : world->agree(std::move(mine)); }
};

// Waits for all ranks that a launcher has started with this process; null: it runs alone. `direct`: as World::join.
// Errors: XG0832 no way to the others; XG0834.
Result<std::unique_ptr<runtime::World>> join_world(const GlobalOptions& options, bool direct = true);
// The same, and compares the ranks. Errors: as above; XG0833 they are not alike.
Result<Job> join_job(const GlobalOptions& options);

// What a rank has and is, as it tells the others.
struct RankFacts {
  std::string host;
  int cores = 1;
  std::string cpus;  // that it may run on
  Bytes memory = 0;
  Facts build;  // "instruction set" and so on
};

// "samples of the source `train`: 60 on rank 0, 59 on rank 2", for all facts in which ranks are not like rank 0.
// `facts`: by rank, each in one order; `first`: the lowest rank that is not alike.
std::vector<std::string> differences(const std::vector<Facts>& facts, size_t& first);
// XG0833 with the differences of the builds.
Status check_alike(const std::vector<RankFacts>& ranks);
// All ranks call it. Errors: XG0833 with the differences, the same on all ranks. `cause` is what is not as on rank 0:
// "reads other data"; `mine` may be an error of this rank.
Status hold_alike(const Job& job, const Result<Facts>& mine, const std::string& cause, const std::string& help);
// What the hosts of these ranks have together.
int cores_of(const std::vector<RankFacts>& ranks);
Bytes memory_of(const std::vector<RankFacts>& ranks);

// What a rank was asked to do, without what only says where and how it prints.
Facts facts_of_command(const GlobalOptions& options, const TrainArgs& args);

// plan_from on rank 0; all others get its plan, where they were given the same one. Nothing after an error, which one
// rank has printed. `path_options`: those that rank 0 plans with.
std::optional<PlannedModel> plan_of_job(Job& job, const std::string& path, const GlobalOptions& path_options,
                                        const Console& console, int& exit);

// Whether as many ranks can run the plan. Errors: kUsage XG0832.
Status check_ranks(const planner::Plan& plan, int count);

// What a session of this rank is made with. The job outlives it, and so do plan and devices.
runtime::SessionOptions session_options(const Job& job, const PlannedModel& planned, const runtime::DeviceSet& devices);

// Tells an error that ends the run, if it is for this rank to tell, and lets the others go. Gives the exit code.
int fail_job(const Job& job, const Error& error, const Console& console, const SourceMap& sources);

}  // namespace xrun::cli
