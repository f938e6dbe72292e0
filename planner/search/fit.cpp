// Steps to fit a candidate: make its programs; if they exceed the memory limits, partition again with lower limits, so
// that layers run again, and repeat this a few times; if nothing fits, make the programs with everything run again. In
// the result, buckets of gradients are sent during the last backward pass, and heads keep logits in the memory that is
// left, provided that each makes the step faster.
// Tests: tests/planner/search/choose_test.cpp
#include "planner/search/fit.h"

#include <algorithm>

#include "planner/cost/durations.h"
#include "planner/cost/simulate.h"
#include "planner/emit/emit.h"
#include "planner/search/keep_logits.h"

namespace xrun::planner {
namespace {

// The maximum number of times that the limits of the partition are lowered because a program exceeds the memory limits.
constexpr int kCorrections = 5;

// Seconds in which workers compute, summed over all workers.
Seconds work_of(const Program& program) {
  Seconds sum = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream == Stream::kCompute && instruction.group < 0) {
      sum += instruction.predicted * program.threads[static_cast<size_t>(instruction.device)];
    }
  }
  return sum;
}

// Returns how often a device waits before a computation, for the device that waits most often.
int waits_of(const Program& program, const ProgramTimes& times, Seconds hand_over) {
  std::vector<int> waits(static_cast<size_t>(program.devices), 0);
  std::vector<Seconds> free(waits.size(), 0);
  for (const Instruction& instruction : program.instructions) {  // in the order of each device
    if (instruction.stream == Stream::kCompute && instruction.group < 0) {
      const auto device = static_cast<size_t>(instruction.device);
      const InstructionTime& time = times.instructions[static_cast<size_t>(instruction.id.index)];
      waits[device] += time.start > free[device] + hand_over ? 1 : 0;
      free[device] = time.end;
    }
  }
  return std::ranges::max(waits);
}

// Returns the bytes by which a plan exceeds its limits, on all devices together and on the device with the largest
// excess.
MemoryLimits excess_of(const Fitted& fitted, const MemoryLimits& limits) {
  // The excess of a node counts as an excess of all devices together, since the partition has no limit for nodes.
  const Bytes of_node = limits.node > 0 ? std::max<Bytes>(0, fitted.largest_node - limits.node) : 0;
  return {std::max(of_node, fitted.memory.sum() - limits.total),
          limits.device > 0 ? std::max<Bytes>(0, fitted.largest_device - limits.device) : 0};
}

// The memory of a candidate as the partition estimates it, and that of its programs.
struct Estimate {
  Bytes stages = 0;
  Bytes programs = 0;
};

// Returns by how many bytes the estimate has to be lowered for each byte that programs shall need less, from 1 to 8.
double bytes_to_lower(const Estimate& before, const Estimate& after) {
  constexpr double kMost = 8;
  const auto lowered = static_cast<double>(before.stages - after.stages);
  const auto freed = static_cast<double>(before.programs - after.programs);
  return freed * kMost <= lowered ? kMost : std::clamp(lowered / freed, 1.0, kMost);
}

}  // namespace

double MemoryLimits::share(Bytes all, Bytes largest_device, Bytes largest_node) const {
  const auto of = [](Bytes used, Bytes limit) {
    return limit == 0 ? 0.0 : static_cast<double>(used) / static_cast<double>(limit);
  };
  return std::max(
      {static_cast<double>(all) / static_cast<double>(total), of(largest_device, device), of(largest_node, node)});
}

bool MemoryLimits::hold(const Fitted& fitted) const {
  return fitted.memory.sum() <= total && (device == 0 || fitted.largest_device <= device) &&
         (node == 0 || fitted.largest_node <= node);
}

MemoryLimits memory_limits(const Module& module, const Machine& machine) {
  return {machine.memory, module.schedule.memory_limit ? module.schedule.memory_limit->value : 0,
          machine.nodes() > 1 ? machine.node_memory : 0};
}

Bytes largest_node_of(const Program& program, const Machine& machine) {
  std::vector<Bytes> nodes(static_cast<size_t>(machine.nodes()), 0);
  Bytes host = 0;
  for (const Arena& arena : program.arenas) {
    (arena.device == kHost ? host : nodes[static_cast<size_t>(machine.node_of(arena.device))]) += arena.bytes;
  }
  return std::ranges::max(nodes) + host;
}

Bytes largest_device_of(const Program& program) {
  Bytes largest = 0;
  for (const Arena& arena : program.arenas) {
    largest = std::max(largest, arena.device == kHost ? 0 : arena.bytes);
  }
  return largest;
}

Result<Prediction> predict_step(Program& program, const Module& module, const CostModel& cost) {
  predict_durations(program, module, cost);
  XRUN_ASSIGN(const ProgramTimes times, simulate(program, cost.machine()));
  Prediction predicted;
  predicted.step =
      cost.step_with_loader(module, times.makespan, work_of(program), waits_of(program, times, cost.hand_over()));
  predicted.images_per_second = predicted.step > 0 ? static_cast<double>(program.batch) / predicted.step : 0;
  predicted.exposed_comm = times.exposed_comm;
  return predicted;
}

Result<Fitted> realise(const FitInput& input, const Candidate& candidate) {
  const SearchInput& search = input.search;
  if (input.realised != nullptr) {
    ++*input.realised;
  }
  Fitted fitted{.candidate = candidate, .predicted = candidate.predicted};
  XRUN_ASSIGN(fitted.training, emit({search.module, search.cost.facts(), search.machine, candidate.decision}));
  XRUN_ASSIGN(const Decision inference, decide_inference(input.inference, input.inference_chain, input.inference_cost,
                                                         search.module.graph, candidate.decision));
  XRUN_ASSIGN(fitted.inference, emit({input.inference, input.inference_facts, search.machine, inference}));
  fitted.memory = run_memory(search.module, fitted.training, fitted.inference);
  fitted.largest_device = largest_device_of(fitted.training);
  if (search.machine.nodes() > 1) {
    fitted.largest_node = largest_node_of(fitted.training, search.machine) +
                          (fitted.memory.evaluation > 0 ? largest_node_of(fitted.inference, search.machine) : 0) +
                          fitted.memory.readers + fitted.memory.saving;
  }
  predict_durations(fitted.inference, input.inference, input.inference_cost);
  XRUN_ASSIGN(const Prediction exact, predict_step(fitted.training, search.module, search.cost));
  Prediction& predicted = fitted.predicted;
  predicted.step = exact.step;
  predicted.images_per_second = exact.images_per_second;
  predicted.exposed_comm = exact.exposed_comm;
  return fitted;
}

namespace {

// Exchanges are worth cutting a backward pass for if at least this part of the step waits for them.
constexpr double kWorthCutting = 0.01;

// Returns the candidate whose buckets of gradients are sent during the last backward pass, if replicas are on several
// nodes and this is faster; otherwise the unchanged candidate. On one node an exchange is a copy in memory, which takes
// less time than cutting the pass.
Result<Fitted> with_early_buckets(const FitInput& input, const MemoryLimits& limits, Fitted fitted) {
  const bool waits = fitted.predicted.exposed_comm > kWorthCutting * fitted.predicted.step;
  if (input.search.machine.nodes() > 1 && fitted.candidate.decision.replicas > 1 && waits) {
    Candidate candidate = fitted.candidate;
    candidate.decision.early_buckets = true;
    XRUN_ASSIGN(Fitted early, realise(input, candidate));
    if (limits.hold(early) && early.predicted.step < fitted.predicted.step) {
      return early;
    }
  }
  return fitted;
}

// Returns the candidate with kept logits in the memory that it leaves unused, if that is faster; otherwise the result
// of with_early_buckets.
Result<std::optional<Fitted>> with_kept_logits(const FitInput& input, const MemoryLimits& limits, Fitted whole) {
  XRUN_ASSIGN(Fitted fitted, with_early_buckets(input, limits, std::move(whole)));
  Candidate candidate = fitted.candidate;
  if (keep_logits(input, fitted, limits, candidate.decision)) {
    XRUN_ASSIGN(Fitted kept, realise(input, candidate));
    if (limits.hold(kept) && kept.predicted.step < fitted.predicted.step) {
      return std::optional(std::move(kept));
    }
  }
  return std::optional(std::move(fitted));
}

}  // namespace

Result<std::optional<Fitted>> fit(const FitInput& input, const Candidate& candidate, const MemoryLimits& limits,
                                  Fitted& smallest) {
  XRUN_ASSIGN(Fitted plain, realise(input, candidate));
  if (limits.hold(plain)) {
    return with_kept_logits(input, limits, std::move(plain));
  }
  if (!input.search.hints.hinted) {
    // The partition only estimates memory. So its limits are set to its own estimate minus the excess of the program
    // that was made, for all stages together or for each stage, until a program fits. If the last program needs less by
    // a part of what the estimate was lowered by, the excess of all stages is multiplied accordingly: a layer that runs
    // again may need a value that was not kept before.
    MemoryLimits excess = excess_of(plain, limits);
    MemoryLimits within{candidate.all_stages, candidate.largest_stage};
    StageLimits asked;
    Estimate last{candidate.all_stages, plain.memory.sum()};
    for (int i = 0; i < kCorrections && within.total > excess.total && within.device > excess.device; ++i) {
      within = {within.total - excess.total, within.device - excess.device};
      asked.total = excess.total > 0 ? within.total / candidate.setting.replicas : asked.total;
      asked.stage = excess.device > 0 ? within.device : asked.stage;
      XRUN_ASSIGN(std::vector<Candidate> made, decide(input.search, candidate.setting, Recompute::kAuto, asked));
      if (made.empty()) {
        break;
      }
      made[0].proven = made[0].proven && i == 0;  // later limits may be lower than necessary
      XRUN_ASSIGN(Fitted fitted, realise(input, made[0]));
      if (limits.hold(fitted)) {
        return with_kept_logits(input, limits, std::move(fitted));
      }
      const Estimate now{made[0].all_stages, fitted.memory.sum()};
      excess = excess_of(fitted, limits);
      excess.total = static_cast<Bytes>(static_cast<double>(excess.total) * bytes_to_lower(last, now));
      last = now;
    }
    XRUN_ASSIGN(std::vector<Candidate> all, decide(input.search, candidate.setting, Recompute::kAll));
    if (!all.empty()) {
      XRUN_ASSIGN(Fitted again, realise(input, all[0]));
      if (limits.hold(again)) {
        return with_kept_logits(input, limits, std::move(again));
      }
      if (limits.share(again) < limits.share(plain)) {
        plain = std::move(again);
      }
    }
  }
  smallest = std::move(plain);
  return std::optional<Fitted>();
}

}  // namespace xrun::planner
