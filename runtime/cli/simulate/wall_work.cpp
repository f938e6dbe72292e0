// Tests: tests/runtime/cli/simulate/wall_work_test.cpp
#include "runtime/cli/simulate/wall_work.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "planner/cost/memory_sharing.h"

namespace xrun::cli {
namespace {

using planner::Instruction;

int workers_of(const planner::Program& program, int device) {
  const auto index = static_cast<size_t>(device);
  return index < program.threads.size() ? program.threads[index] : 1;
}

// The buckets that limit computations.
struct SharedWork {
  std::optional<size_t> cores;                  // nullopt: all workers can be busy without slowing one another
  std::vector<std::optional<size_t>> memories;  // index: node
};

SharedWork add_buckets(const planner::Program& program, const planner::Machine& machine, runtime::WallModel& model) {
  SharedWork shared;
  int all = 0;
  std::vector<int> by_node(static_cast<size_t>(machine.nodes()), 0);
  for (int device = 0; device < program.devices; ++device) {
    all += workers_of(program, device);
    by_node[static_cast<size_t>(machine.node_of(device))] += workers_of(program, device);
  }
  const auto add = [&](double rate) {
    model.rates.push_back(rate);
    return model.rates.size() - 1;
  };
  if (all > machine.parallel_workers()) {
    shared.cores = add(machine.parallel_workers());
  }
  for (const int workers : by_node) {
    const double slowness = memory_slowness(machine, workers);
    shared.memories.push_back(slowness > 1 ? std::optional(add(workers / slowness)) : std::nullopt);
  }
  return shared;
}

}  // namespace

runtime::WallModel wall_model(const planner::Program& program, const planner::Machine& machine, double slow) {
  runtime::WallModel model;
  const SharedWork shared = add_buckets(program, machine, model);
  for (const Instruction& one : program.instructions) {
    runtime::WallWork& work = model.work.emplace_back();
    if (communicates(one.kind)) {
      continue;
    }
    work.time = slow * one.predicted;
    const auto use = [&](std::optional<size_t> bucket, int workers) {
      if (bucket && workers > 0) {
        work.uses.push_back({*bucket, static_cast<double>(workers)});
      }
    };
    use(shared.cores, workers_of(program, one.device));
    use(shared.memories[static_cast<size_t>(machine.node_of(one.device))], streaming_workers(program, one));
  }
  add_exchanges(program, machine, slow, model);
  return model;
}

double slow_enough(const planner::Program& program) {
  constexpr Seconds kLongEnough = 20e-3;
  std::vector<Seconds> passes;
  for (const Instruction& one : program.instructions) {
    if ((is_stage_pass(one.kind) || is_head_pass(one.kind)) && one.predicted > 0) {
      passes.push_back(one.predicted);
    }
  }
  if (passes.empty()) {
    return 1;
  }
  const auto middle = passes.begin() + std::ssize(passes) / 2;
  std::ranges::nth_element(passes, middle);
  const double factor = kLongEnough / *middle;
  const double digit = std::pow(10, std::floor(std::log10(factor)) - 1);
  return factor <= 1 ? 1 : std::ceil(factor / digit) * digit;
}

}  // namespace xrun::cli
