// Tests: tests/runtime/cluster/launcher_test.cpp, tests/runtime/cluster/mpi_command_test.cpp
#include "runtime/cli/job/job.h"

#include <cstdlib>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "planner/plan_file.h"
#include "planner/report/diff.h"
#include "runtime/checkpoint/files/owner.h"
#include "runtime/cli/job/job_watch.h"
#include "runtime/cli/job/join_world.h"
#include "runtime/cli/model/machine_gpus.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/model/plan_session.h"
#include "runtime/comm/ranks/network_rate.h"
#include "runtime/comm/ranks/rank_communicator.h"

namespace xrun::cli {
namespace {

Status meet(Job& job) {
  runtime::World& world = *job.world;
  Result<std::string> mine = std::string();
  if (auto facts = own_facts(); facts.ok()) {
    mine = to_text(*facts);
  } else {
    mine = std::move(facts).error();
  }
  XRUN_ASSIGN(const auto texts, world.gather(std::move(mine)));
  std::vector<RankFacts> ranks;
  for (const std::string& text : texts) {
    ranks.push_back(rank_facts_from(text));
  }
  XRUN_TRY(world.agree(world.rank() == 0 ? check_alike(ranks) : Status()));
  job.options.ranks = world.count();
  job.options.cores = cores_of(ranks);
  job.options.memory = memory_of(ranks).all;
  job.options.node_memory = memory_of(ranks).least;
  job.options.rank_nodes = nodes_of(ranks);
  const RankFacts& own = ranks[static_cast<size_t>(world.rank())];
  for (int rank = 0; rank < world.count(); ++rank) {
    const RankFacts& one = ranks[static_cast<size_t>(rank)];
    if (one.host == own.host && one.cpus == own.cpus) {
      job.neighbours.push_back(rank);
    }
  }
  if (world.rank() != 0) {
    job.options.quiet = true;
    job.options.progress = "none";
  }
  return {};
}

}  // namespace

Status hold_alike(const Job& job, const Result<Facts>& mine, const std::string& cause, const std::string& help) {
  if (job.world == nullptr) {
    return mine.ok() ? Status() : Status(mine.error());
  }
  runtime::World& world = *job.world;
  XRUN_ASSIGN(const auto texts,
              world.gather(mine.ok() ? Result<std::string>(to_text(*mine)) : Result<std::string>(mine.error())));
  std::vector<Facts> facts;
  for (const std::string& text : texts) {
    facts.push_back(facts_from(text));
  }
  size_t first = 0;
  std::vector<std::string> notes = differences(facts, first);
  Status alike;
  if (world.rank() == 0 && !notes.empty()) {
    Error error = content_error("XG0833", {"{} {}", world.name(static_cast<int>(first)), cause}, help);
    error.notes = std::move(notes);
    alike = std::move(error);
  }
  return world.agree(std::move(alike));
}

Result<Job> join_job(const GlobalOptions& options, const std::string& command) {
  Job job{.world = nullptr,
          .options = options,
          .neighbours = {},
          .checkpoints = {},
          .unwatched = {},
          .hangs = nullptr,
          .watch = nullptr,
          .end = nullptr,
          .work = nullptr};
  XRUN_ASSIGN(job.world, join_world(options, command));
  if (job.world == nullptr) {
    return job;
  }
  const StartLimit limit(options, job.rank(), job.count());
  if (const Status met = meet(job); !met.ok()) {
    Error error = for_one(*job.world, met.error());
    keep_until_exit(std::move(job.world));
    return error;
  }
  if (const Status watched = watch_ranks(job); !watched.ok()) {
    job.unwatched = watched.error();
  }
  job.end = std::make_unique<WorldEnd>(*job.world);
  return job;
}

Status measure_network(Job& job) {
  if (job.hosts() == 1) {
    return {};
  }
  XRUN_ASSIGN(const runtime::NetworkRate found, runtime::measure_network(*job.world, job.options.rank_nodes));
  job.options.network = {.name = "measured", .rate = found.rate, .latency = found.latency};
  return {};
}

Status check_ranks(const planner::Plan& plan, int count, int hosts) {
  const planner::Program& program = plan.training;
  if (plan.machine.nodes() > hosts) {
    return usage_error("XG0832",
                       {"the plan is for {} nodes, but the run has {}", plan.machine.nodes(),
                        hosts == 1 ? "one host" : fmt::format("{} hosts", hosts)},
                       "start a process on each node with mpirun, or plan for one node: --set cluster.nodes=1");
  }
  if (count > program.devices) {
    return usage_error("XG0832",
                       {"{} ranks were started for a plan of {} devices: each rank needs one", count, program.devices},
                       fmt::format("start at most {}, or plan for more devices: --devices {}", program.devices, count));
  }
  for (const planner::HeadPlan& head : program.heads) {
    if (count > 1 && head.mapped) {
      return usage_error("XG0832",
                         "class rows in a file (`rows = mapped`) need a run of one process, but several were started",
                         "start one process, or keep the rows in memory: rows = memory");
    }
  }
  return {};
}

namespace {

// Checks that the plan file which was given to this rank holds the plan of rank 0.
Status check_same_plan(const planner::Plan& of_first, const std::string& path) {
  if (!is_plan_file(path)) {
    return {};
  }
  XRUN_ASSIGN(const planner::Plan own, planner::load_plan(path));
  if (own.id == of_first.id) {
    return {};
  }
  Error error =
      content_error("XG0833", {"`{}` is the plan {} here, and rank 0 has the plan {}", path, own.id, of_first.id},
                    "give all ranks one plan file");
  for (const planner::PlanChange& change : planner::diff_plans(of_first, own)) {
    const auto words = [](const planner::PlanRow& row) { return row.value.empty() ? std::string("none") : row.value; };
    error.notes.push_back(fmt::format("{}: {} on rank 0, {} here",
                                      change.before.name.empty() ? change.after.name : change.before.name,
                                      words(change.before), words(change.after)));
  }
  return error;
}

// Makes the plan on rank 0, for all ranks of the job.
Outcome<PlannedModel> plan_as_first(const Job& job, const std::string& path, const GlobalOptions& options,
                                    const Console& console) {
  XRUN_ASSIGN(PlannedModel planned, plan_from(path, options, console, true));
  XRUN_TRY(with_sources(check_processes(planned.plan.training, job.count()), planned.model.sources));
  XRUN_TRY(with_sources(check_ranks(planned.plan, job.count(), job.hosts()), planned.model.sources));
  return planned;
}

// Makes the module of rank 0's plan on another rank.
Outcome<PlannedModel> plan_as_other(const std::string& bytes, const std::string& path, const GlobalOptions& options) {
  XRUN_ASSIGN(PlannedModel planned, plan_received(bytes, options, Console(options)));
  XRUN_TRY(check_same_plan(planned.plan, path));
  return planned;
}

// Compares the outcomes of all ranks. If ranks have failed, every rank returns the exit code of the lowest failed rank,
// and only that rank returns its failure for printing.
Outcome<PlannedModel> settle(const Job& job, Outcome<PlannedModel> mine) {
  const auto exits = job.world->gather(std::to_string(mine.ok() ? 0 : mine.error().exit));
  if (!exits.ok()) {
    return Failure::silent(exit_code(exits.error().kind));
  }
  for (int rank = 0; rank < job.count(); ++rank) {
    const int code = std::atoi((*exits)[static_cast<size_t>(rank)].c_str());
    if (code != 0 && rank != job.rank()) {
      return Failure::silent(code);
    }
    if (code != 0) {
      Failure failure = std::move(mine).error();
      failure.heading = job.world->name(rank);
      return failure;
    }
  }
  return mine;
}

// The message of rank 0 to the others: its exit code in three digits, and the plan.
std::string message_of_first(const Outcome<PlannedModel>& planned) {
  std::string message = fmt::format("{:03}", planned.ok() ? 0 : planned.error().exit);
  if (planned.ok()) {
    const auto bytes = planner::plan_bytes(planned->plan);
    message.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return message;
}

}  // namespace

Outcome<PlannedModel> plan_of_job(Job& job, const std::string& path, const GlobalOptions& path_options,
                                  const Console& console) {
  Outcome<PlannedModel> mine = Failure::silent(0);  // ranks other than 0 replace this when they have the plan
  if (job.leads()) {
    mine = plan_as_first(job, path, path_options, console);
  }
  if (job.world == nullptr) {
    return mine;
  }
  const auto from_first = job.world->broadcast(job.leads() ? message_of_first(mine) : "");
  if (job.leads() && !mine.ok()) {
    return mine;
  }
  if (!from_first.ok()) {
    return fail_job(job, from_first.error());
  }
  if (const int exit = std::atoi(from_first->substr(0, 3).c_str()); exit != 0) {
    return Failure::silent(exit);
  }
  if (!job.leads()) {
    mine = plan_as_other(from_first->substr(3), path, job.options);
  }
  XRUN_ASSIGN(PlannedModel planned, settle(job, std::move(mine)));
  planned.rank = job.rank();
  planned.plan.training.ranks = planned.plan.inference.ranks = job.count();
  for (planner::StepProgram& step : planned.plan.smaller) {
    step.program.ranks = job.count();
  }
  return planned;
}

runtime::SessionOptions session_options(const Job& job, const PlannedModel& planned,
                                        const runtime::DeviceSet& devices) {
  runtime::SessionOptions options{.isa = planned.prepared.isa};
  if (job.world == nullptr) {
    return options;
  }
  options.rank = job.rank();
  options.peers = job.world.get();
  options.rank_nodes = job.options.rank_nodes;
  options.communicator = [&world = *job.world, &devices,
                          &program = planned.plan.training](std::span<const runtime::Exchange> exchanges) {
    return std::make_unique<runtime::RankCommunicator>(
        world, devices, [&program](int device) { return program.rank_of(device); }, exchanges);
  };
  return options;
}

Failure fail_job(const Job& job, const Error& error, const SourceMap& sources) {
  if (const auto loss = loss_of(job)) {
    return tells_loss(job) || waits_in_vain(job) ? Failure(*loss) : Failure::silent(exit_code(loss->kind));
  }
  if (job.world != nullptr) {
    const bool tells = job.world->tells(error);
    job.world->leave(error);
    if (!tells) {
      return Failure::silent(exit_code(error.kind));
    }
  }
  return {error, sources};
}

}  // namespace xrun::cli
