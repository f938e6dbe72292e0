// Tests: tests/runtime/cluster/launcher_test.cpp
#include "runtime/cli/job/rank_facts.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "ops/simd/isa.h"
#include "runtime/checkpoint/files/owner.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/device/cpu/placement.h"
#include "runtime/device/cuda/machine/chosen_gpus.h"
#include "runtime/device/host.h"
#include "runtime/device/libraries.h"

namespace xrun::cli {
namespace {

// The name of the machine. It is the same on all hosts, such as containers, that share a kernel.
std::string machine_name() {
  std::string name;
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  return std::getline(in, name) && !name.empty() ? name : runtime::host_name();
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

Facts facts_in(std::istream& in) {
  Facts facts;
  for (std::string name, value; std::getline(in, name) && std::getline(in, value);) {
    facts.emplace_back(name, value);
  }
  return facts;
}

std::map<std::string, std::vector<RankFacts>> by_host(const std::vector<RankFacts>& ranks) {
  std::map<std::string, std::vector<RankFacts>> hosts;
  for (const RankFacts& rank : ranks) {
    hosts[rank.host].push_back(rank);
  }
  return hosts;
}

}  // namespace

std::string to_text(const Facts& facts) {
  std::string text;
  for (auto [name, value] : facts) {
    std::ranges::replace(value, '\n', ' ');
    text += fmt::format("{}\n{}\n", name, value);
  }
  return text;
}

Facts facts_from(const std::string& text) {
  std::istringstream in(text);
  return facts_in(in);
}

std::string to_text(const RankFacts& facts) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", facts.host, facts.machine, facts.cores, facts.cpus, facts.memory,
                     facts.machine_memory, to_text(facts.build));
}

RankFacts rank_facts_from(const std::string& text) {
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

Result<RankFacts> own_facts() {
  XRUN_ASSIGN(const ops::Isa isa, ops::choose_isa());
  const runtime::Host host = runtime::detect_host();
  RankFacts facts{.host = runtime::host_name(),
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

Facts facts_of_command(const GlobalOptions& options, const TrainArgs& args) {
  std::string sets;
  for (const SetValue& set : options.sets) {
    sets += fmt::format(" {}={}", set.path, set.value);
  }
  // The contents of plan files are not among the facts. plan_of_job compares plans, and can report how they differ.
  const bool plan = is_plan_file(args.file);
  return {{"the file", plan ? "a plan" : digest_of_file(args.file)},
          {"--set", sets},
          {"--run", options.run},
          {"--cluster", options.cluster},
          {"--schedule", options.schedule},
          {"--devices", options.gpus ? cuda::print_numbers(*options.gpus) : fmt::format("{}", options.devices)},
          {"--threads", fmt::format("{}", options.threads)},
          {"--deterministic", options.deterministic ? "on" : "off"},
          {"--cost", options.cost},
          {"--search-time", options.search_time},
          {"--resume", args.resume},
          {"--overwrite", args.overwrite ? "on" : "off"},
          {"--extend", args.extend ? "on" : "off"},
          {"--step-timeout", fmt::format("{}", args.step_timeout)},
          {"--steps", args.steps ? fmt::format("{}", *args.steps) : "none"}};
}

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
  Error error =
      world_error("XG0833",
                  {"rank {} on {} differs from rank 0 on {}: a run needs the same program, instruction set and "
                   "libraries on all of its hosts",
                   first, ranks[first].host, ranks[0].host},
                  "install the same xrun on all hosts; if the processors differ, set XRUN_ISA on all hosts to an "
                  "instruction set that all of them have");
  error.notes = std::move(notes);
  return error;
}

// Processors that several ranks share count once. A launcher may also give each rank its own processors.
int cores_of(const std::vector<RankFacts>& ranks) {
  std::map<std::string, int> cores;                         // index: machine
  std::map<std::string, std::set<std::string>> processors;  // index: machine
  for (const auto& [host, own] : by_host(ranks)) {
    std::map<std::string, int> shares;  // index: processors
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
    Bytes sum = 0;   // total free memory of the hosts
    Bytes free = 0;  // free memory of the machine
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

}  // namespace xrun::cli
