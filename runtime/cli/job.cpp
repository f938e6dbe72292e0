#include "runtime/cli/job.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "ops/isa.h"
#include "planner/plan_file.h"
#include "planner/report/diff.h"
#include "runtime/cli/job_watch.h"
#include "runtime/cli/launcher.h"
#include "runtime/comm/ranks/network_rate.h"
#include "runtime/comm/ranks/rank_communicator.h"
#include "runtime/device/cpu/placement.h"
#include "runtime/device/host.h"
#include "runtime/libraries.h"

namespace xrun::cli {
namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "unknown";
}

// The same for all hosts that share a kernel.
std::string machine_name() {
  std::string name;
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  return std::getline(in, name) && !name.empty() ? name : host_name();
}

std::string digest_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return "cannot be read";
  }
  Xxh128 digest;
  std::vector<char> part(size_t{1} << 20);
  while (in.read(part.data(), static_cast<std::streamsize>(part.size())), in.gcount() > 0) {
    digest.add(std::as_bytes(std::span(part)).first(static_cast<size_t>(in.gcount())));
  }
  return digest.hex();
}

Result<RankFacts> own_facts() {
  XRUN_ASSIGN(const ops::Isa isa, ops::choose_isa());
  const runtime::Host host = runtime::detect_host();
  RankFacts facts{.host = host_name(),
                  .machine = machine_name(),
                  .cores = host.cores,
                  .memory = host.memory_free,
                  .machine_memory = host.system_free,
                  .build = {}};
  facts.cpus = fmt::format("{}", fmt::join(runtime::thread_cpus(), ","));
  facts.build = {{"xrun", XRUN_VERSION}, {"the program", digest_of_file("/proc/self/exe")}, {"instruction set", ""}};
  facts.build.back().second = ops::name_of(isa);
  for (const auto& [name, version] : runtime::library_versions()) {
    facts.build.emplace_back(name, version);
  }
  return facts;
}

// Names and values, a line each; line breaks in values become blanks, which does not hinder the comparison.
std::string to_text(const Facts& facts) {
  std::string text;
  for (auto [name, value] : facts) {
    std::ranges::replace(value, '\n', ' ');
    text += fmt::format("{}\n{}\n", name, value);
  }
  return text;
}

Facts facts_in(std::istream& in) {
  Facts facts;
  for (std::string name, value; std::getline(in, name) && std::getline(in, value);) {
    facts.emplace_back(name, value);
  }
  return facts;
}

std::string to_text(const RankFacts& facts) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", facts.host, facts.machine, facts.cores, facts.cpus, facts.memory,
                     facts.machine_memory, to_text(facts.build));
}

RankFacts facts_from(const std::string& text) {
  std::istringstream in(text);
  RankFacts facts;
  std::string cores;
  std::string memory;
  std::string machine_memory;
  std::getline(in, facts.host);
  std::getline(in, facts.machine);
  std::getline(in, cores);
  std::getline(in, facts.cpus);
  std::getline(in, memory);
  std::getline(in, machine_memory);
  facts.cores = std::max(1, std::atoi(cores.c_str()));
  facts.memory = std::atoll(memory.c_str());
  facts.machine_memory = std::atoll(machine_memory.c_str());
  facts.build = facts_in(in);
  return facts;
}

std::map<std::string, std::vector<RankFacts>> by_host(const std::vector<RankFacts>& ranks) {
  std::map<std::string, std::vector<RankFacts>> hosts;
  for (const RankFacts& rank : ranks) {
    hosts[rank.host].push_back(rank);
  }
  return hosts;
}

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
    ranks.push_back(facts_from(text));
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

// Before the world exists, ranks cannot agree on who prints an error: rank 0 does.
Error for_first(const Launch& launch, Error error) {
  if (launch.rank != 0) {
    error.message.clear();
  }
  return error;
}

}  // namespace

std::vector<std::string> differences(const std::vector<Facts>& facts, size_t& first) {
  std::vector<std::string> notes;
  first = 0;
  const auto at = [](const Facts& all, size_t i) {
    return i < all.size() ? all[i] : std::pair<std::string, std::string>("", "none");
  };
  for (size_t rank = 1; rank < facts.size(); ++rank) {
    for (size_t i = 0; i < std::max(facts[rank].size(), facts[0].size()); ++i) {
      const auto there = at(facts[rank], i);
      const auto here = at(facts[0], i);
      if (there != here) {
        first = first == 0 ? rank : first;
        notes.push_back(fmt::format("{}: {} on rank 0, {} on rank {}", here.first.empty() ? there.first : here.first,
                                    here.second, there.second, rank));
      }
    }
  }
  constexpr size_t kMostNotes = 8;
  if (notes.size() > kMostNotes) {
    notes.resize(kMostNotes);
    notes.emplace_back("and more");
  }
  return notes;
}

Status check_alike(const std::vector<RankFacts>& ranks) {
  std::vector<Facts> builds;
  for (const RankFacts& rank : ranks) {
    builds.push_back(rank.build);
  }
  size_t first = 0;
  std::vector<std::string> notes = differences(builds, first);
  if (notes.empty()) {
    return {};
  }
  Error error = world_error("XG0833",
                            {"rank {} on {} is not like rank 0 on {}: a run needs one program, one instruction set and "
                             "the same libraries on all of its hosts",
                             first, ranks[first].host, ranks[0].host},
                            "install the same xrun on all hosts; XRUN_ISA sets the lesser instruction set everywhere");
  error.notes = std::move(notes);
  return error;
}

Status hold_alike(const Job& job, const Result<Facts>& mine, const std::string& cause, const std::string& help) {
  if (job.world == nullptr) {
    return mine.ok() ? Status() : Status(mine.error());
  }
  runtime::World& world = *job.world;
  XRUN_ASSIGN(const auto texts,
              world.gather(mine.ok() ? Result<std::string>(to_text(*mine)) : Result<std::string>(mine.error())));
  std::vector<Facts> facts;
  for (const std::string& text : texts) {
    std::istringstream in(text);
    facts.push_back(facts_in(in));
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

Facts facts_of_command(const GlobalOptions& options, const TrainArgs& args) {
  std::string sets;
  for (const auto& [path, value] : options.sets) {
    sets += fmt::format(" {}={}", path, value);
  }
  // Plan files are compared by plan_of_job, which can say more than that their bytes differ.
  const bool plan = is_plan_file(args.file);
  return {{"the file", plan ? "a plan" : digest_of_file(args.file)},
          {"--set", sets},
          {"--run", options.run},
          {"--cluster", options.cluster},
          {"--schedule", options.schedule},
          {"--devices", fmt::format("{}", options.devices)},
          {"--threads", fmt::format("{}", options.threads)},
          {"--deterministic", options.deterministic ? "on" : "off"},
          {"--cost", options.cost},
          {"--resume", args.resume},
          {"--extend", args.extend ? "on" : "off"},
          {"--step-timeout", fmt::format("{}", args.step_timeout)},
          {"--steps", args.steps ? fmt::format("{}", *args.steps) : "none"}};
}

// Ranks with the same processors share them, so these count once; a launcher may also give each rank its own.
int cores_of(const std::vector<RankFacts>& ranks) {
  std::map<std::string, int> cores;                         // by machine
  std::map<std::string, std::set<std::string>> processors;  // by machine
  for (const auto& [host, own] : by_host(ranks)) {
    std::map<std::string, int> shares;  // by processors
    for (const RankFacts& one : own) {
      shares[one.cpus] = one.cores;
      std::istringstream cpus(one.cpus);
      for (std::string cpu; std::getline(cpus, cpu, ',');) {
        processors[one.machine].insert(cpu);
      }
    }
    for (const auto& [cpus, count] : shares) {
      cores[own[0].machine] += count;
    }
  }
  int sum = 0;
  for (const auto& [machine, count] : cores) {
    const auto known = static_cast<int>(processors[machine].size());
    sum += known > 0 ? std::min(count, known) : count;
  }
  return sum;
}

HostMemory memory_of(const std::vector<RankFacts>& ranks) {
  struct Shared {
    Bytes sum = 0;   // of the hosts
    Bytes free = 0;  // that the machine has
  };
  std::map<std::string, Shared> machines;
  const auto hosts = by_host(ranks);
  const auto free_of = [](const std::vector<RankFacts>& own) {
    return std::ranges::min(own, {}, &RankFacts::memory).memory;
  };
  for (const auto& [host, own] : hosts) {
    Shared& machine = machines[own[0].machine];
    machine.sum += free_of(own);
    machine.free = std::max(machine.free, own[0].machine_memory);
  }
  HostMemory memory;
  for (const auto& [host, own] : hosts) {
    const Shared& machine = machines[own[0].machine];
    const bool crowded = machine.free > 0 && machine.sum > machine.free;
    const double share = crowded ? static_cast<double>(machine.free) / static_cast<double>(machine.sum) : 1.0;
    const auto free = static_cast<Bytes>(share * static_cast<double>(free_of(own)));
    memory.least = memory.all == 0 ? free : std::min(memory.least, free);
    memory.all += free;
  }
  return memory;
}

std::vector<int> nodes_of(const std::vector<RankFacts>& ranks) {
  std::vector<std::string> hosts;
  std::vector<int> nodes;
  for (const RankFacts& rank : ranks) {
    const auto known = std::ranges::find(hosts, rank.host);
    nodes.push_back(static_cast<int>(known - hosts.begin()));
    if (known == hosts.end()) {
      hosts.push_back(rank.host);
    }
  }
  return nodes;
}

Result<std::unique_ptr<runtime::World>> join_world(const GlobalOptions& options, bool direct) {
  XRUN_ASSIGN(const Launch launch, find_launch([](const char* name) { return std::getenv(name); }));
  if (launch.count == 1) {
    return std::unique_ptr<runtime::World>();
  }
  const auto mpi = choose_mpi(launch);
  if (!mpi.ok()) {
    return for_first(launch, mpi.error());
  }
  const StartLimit limit(options, launch.rank, launch.count);
  auto world =
      runtime::World::join([mpi = *mpi](std::string& error) { return load_mpi(mpi, error); }, host_name(), direct);
  if (!world.ok()) {
    return for_first(launch, std::move(world).error());
  }
  if ((*world)->count() > 1) {
    return world;
  }
  if (launch.count > 1) {
    return for_first(
        launch, usage_error("XG0832", {"the launcher started {} processes, but MPI finds only this one", launch.count},
                            launcher_help(*mpi)));
  }
  return std::unique_ptr<runtime::World>();
}

Result<Job> join_job(const GlobalOptions& options) {
  Job job{.world = nullptr,
          .options = options,
          .neighbours = {},
          .checkpoints = {},
          .unwatched = {},
          .hangs = nullptr,
          .watch = nullptr,
          .end = nullptr};
  XRUN_ASSIGN(job.world, join_world(options));
  if (job.world == nullptr) {
    return job;
  }
  const StartLimit limit(options, job.rank(), job.count());
  XRUN_TRY(meet(job));
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
                       {"the plan is for {} nodes, and the run has {}", plan.machine.nodes(),
                        hosts == 1 ? "one host" : fmt::format("{} hosts", hosts)},
                       "start a process on each node with mpirun, or plan for what is here: --set cluster.nodes=1");
  }
  if (count > program.devices) {
    return usage_error("XG0832",
                       {"{} ranks were started for a plan of {} devices: each needs one", count, program.devices},
                       fmt::format("start {} at most, or plan for more devices: --devices {}", program.devices, count));
  }
  for (const planner::HeadPlan& head : program.heads) {
    if (count > 1 && head.mapped) {
      return usage_error("XG0832",
                         "class rows in a file (`rows = mapped`) are of one process, and several were started",
                         "start one process, or keep the rows in memory: rows = memory");
    }
  }
  return {};
}

namespace {

// Checks that a plan file that was given to this rank is the plan of rank 0.
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

// The lowest rank that could not make its module prints why. Gives its exit code, or 0.
int settle(const Job& job, int exit, const std::string& held) {
  const auto exits = job.world->gather(std::to_string(exit));
  for (int rank = 0; exits.ok() && rank < job.count(); ++rank) {
    if (const int code = std::stoi((*exits)[static_cast<size_t>(rank)]); code != 0) {
      if (rank == job.rank()) {
        std::fputs(fmt::format("{}:\n{}", job.world->name(rank), held).c_str(), stderr);
      }
      return code;
    }
  }
  return exits.ok() ? 0 : exit_code(exits.error().kind);
}

}  // namespace

std::optional<PlannedModel> plan_of_job(Job& job, const std::string& path, const GlobalOptions& path_options,
                                        const Console& console, int& exit) {
  if (job.world == nullptr) {
    auto alone = plan_from(path, path_options, console, true, exit);
    if (const Status fits = alone ? check_ranks(alone->plan, 1) : Status(); !fits.ok()) {
      exit = console.fail(fits.error(), alone->model.sources);
      return std::nullopt;
    }
    return alone;
  }
  std::optional<PlannedModel> planned;
  std::string said;
  exit = 0;
  if (job.leads()) {
    planned = plan_from(path, path_options, console, true, exit);
    if (planned) {
      if (const Status fits = check_ranks(planned->plan, job.count(), job.hosts()); !fits.ok()) {
        exit = console.fail(fits.error(), planned->model.sources);
        planned.reset();
      }
    }
    said = fmt::format("{:03}", exit);
    if (planned) {
      const auto bytes = planner::plan_bytes(planned->plan);
      said.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  const auto from_first = job.world->broadcast(said);
  if (!from_first.ok()) {
    exit = fail_job(job, from_first.error(), console, {});
    return std::nullopt;
  }
  exit = std::stoi(from_first->substr(0, 3));
  if (exit != 0) {
    return std::nullopt;
  }
  std::string held;
  if (!job.leads()) {
    const Console own(job.options, &held);
    planned = plan_received(from_first->substr(3), job.options, own, exit);
    if (const Status same = planned ? check_same_plan(planned->plan, path) : Status(); !same.ok()) {
      exit = own.fail(same.error(), {});
      planned.reset();
    }
  }
  exit = settle(job, exit, held);
  if (exit != 0) {
    return std::nullopt;
  }
  planned->rank = job.rank();
  planned->plan.training.ranks = planned->plan.inference.ranks = job.count();
  for (planner::StepProgram& step : planned->plan.smaller) {
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

int fail_job(const Job& job, const Error& error, const Console& console, const SourceMap& sources) {
  if (const auto loss = loss_of(job)) {
    return tells_loss(job) || waits_in_vain(job) ? console.fail(*loss) : exit_code(loss->kind);
  }
  if (job.world != nullptr) {
    const bool tells = job.world->tells(error);
    job.world->leave(error);
    if (!tells) {
      return exit_code(error.kind);
    }
  }
  return error.message.empty() ? exit_code(error.kind) : console.fail(error, sources);
}

}  // namespace xrun::cli
