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

namespace xrun::planner {
namespace {

// The maximum number of times that the limits of the partition are lowered because a program exceeds the memory limits.
constexpr int kCorrections = 5;

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

// Returns the bytes by which a plan exceeds its limits, on all devices together, on the device with the largest excess,
// and on each node; negative if it leaves memory.
StageLimits excess_of(const Fitted& fitted, const MemoryLimits& limits) {
  StageLimits excess{.stage = limits.device > 0 ? std::max<Bytes>(0, fitted.largest_device - limits.device) : 0,
                     .total = fitted.memory.sum() - limits.total};
  const bool has_stages = !fitted.candidate.nodes.empty();  // on GPUs, other cuts change no memory of nodes
  for (const Bytes bytes : limits.node > 0 && has_stages ? fitted.nodes : std::vector<Bytes>()) {
    excess.nodes.push_back(bytes - limits.node);
  }
  return excess;
}

// The limits that the partition gets so that programs fit.
class LoweredLimits {
 public:
  // The limits are first the estimates of the partition for a candidate.
  explicit LoweredLimits(const Candidate& candidate)
      : replicas_(candidate.setting.replicas), within_{candidate.largest_stage, candidate.all_stages} {}

  // Lowers the limits by the excess of the programs of the last candidate. Returns false if a limit is used up.
  bool lower(const Candidate& last, const StageLimits& excess) {
    within_.stage -= excess.stage;
    within_.total -= excess.total;
    asked_.stage = excess.stage > 0 ? within_.stage : asked_.stage;
    asked_.total = excess.total > 0 ? within_.total / replicas_ : asked_.total;
    // Other cuts may move bytes to a node that has memory left, so all nodes have limits if one exceeds its own.
    const bool first = asked_.nodes.empty();
    if (std::ranges::any_of(excess.nodes, [](Bytes bytes) { return bytes > 0; })) {
      asked_.nodes = first ? last.nodes : asked_.nodes;
      for (size_t n = 0; n < excess.nodes.size(); ++n) {
        asked_.nodes[n] -= first ? excess.nodes[n] : std::max<Bytes>(0, excess.nodes[n]);
      }
    }
    return within_.stage > 0 && within_.total > 0 &&
           std::ranges::all_of(asked_.nodes, [](Bytes bytes) { return bytes >= 0; });
  }

  const StageLimits& asked() const { return asked_; }

 private:
  int replicas_;
  StageLimits within_;
  StageLimits asked_;
};

// Returns by how many bytes the estimate has to be lowered for each byte that programs shall need less, from 1 to 8:
// the estimate was lowered by some bytes, and the programs then needed `freed` bytes less.
double bytes_to_lower(Bytes lowered, Bytes freed) {
  constexpr double kMost = 8;
  const auto low = static_cast<double>(lowered);
  const auto less = static_cast<double>(freed);
  return less * kMost <= low ? kMost : std::clamp(low / less, 1.0, kMost);
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
         (node == 0 || fitted.largest_node() <= node);
}

StageLimits MemoryLimits::within(const Candidate& candidate, const Uncounted& uncounted) const {
  StageLimits limits;
  // A limit of 0 would be none.
  if (candidate.all_stages + uncounted.total > total) {
    const Bytes left = (total - uncounted.total) / candidate.setting.replicas;
    limits.total = left > 0 ? left : -1;
  }
  if (device > 0 && candidate.largest_stage + uncounted.device > device) {
    const Bytes left = device - uncounted.device;
    limits.stage = left > 0 ? left : -1;
  }
  for (size_t n = 0; node > 0 && n < candidate.nodes.size(); ++n) {
    if (candidate.nodes[n] + uncounted.nodes[n] > node) {
      limits.nodes.resize(candidate.nodes.size());
      std::ranges::transform(uncounted.nodes, limits.nodes.begin(), [&](Bytes bytes) { return node - bytes; });
      break;
    }
  }
  return limits;
}

MemoryLimits memory_limits(const Module& module, const Machine& machine) {
  const Bytes hint = module.schedule.memory_limit ? module.schedule.memory_limit->value : 0;
  if (machine.has_gpus()) {
    return {machine.memory + machine.devices * machine.device_memory,
            hint > 0 ? std::min(hint, machine.device_memory) : machine.device_memory, machine.node_memory};
  }
  return {machine.memory, hint, machine.nodes() > 1 ? machine.node_memory : 0};
}

std::string device_limit_text(const Machine& machine, Bytes limit) {
  return machine.has_gpus() && limit == machine.device_memory
             ? machine.gpu_with_article() + " has " + format_bytes(machine.device_memory)
             : "memory_limit is " + format_bytes(limit);
}

Seconds work_of(const Program& program) {
  Seconds sum = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream == Stream::kCompute && instruction.group < 0) {
      sum += instruction.predicted * program.threads[static_cast<size_t>(instruction.device)];
    }
  }
  return sum;
}

Bytes Fitted::largest_node() const { return nodes.empty() ? 0 : std::ranges::max(nodes); }

Result<Prediction> predict_step(Program& program, const Module& module, const CostModel& cost) {
  predict_durations(program, module, cost);
  XRUN_ASSIGN(const ProgramTimes times, simulate(program, cost.machine()));
  Prediction predicted;
  predicted.step =
      cost.step_with_loader(module, times.makespan, times.busy, waits_of(program, times, cost.hand_over()));
  predicted.images_per_second = predicted.step > 0 ? static_cast<double>(program.batch) / predicted.step : 0;
  predicted.exposed_comm = times.exposed_comm;
  predicted.loader = cost.loader(module);
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
  fitted.largest_device = fitted.memory.largest_device();
  if (search.machine.nodes() > 1 || search.machine.has_gpus()) {
    fitted.nodes = memory_of_nodes(fitted.training, search.machine);
    const std::vector<Bytes> evaluation = memory_of_nodes(fitted.inference, search.machine);
    for (size_t n = 0; n < fitted.nodes.size(); ++n) {
      fitted.nodes[n] +=
          (fitted.memory.evaluation > 0 ? evaluation[n] : 0) + fitted.memory.readers + fitted.memory.saving;
    }
  }
  fitted.uncounted = {fitted.memory.sum() - candidate.all_stages, fitted.largest_device - candidate.largest_stage, {}};
  for (size_t n = 0; n < candidate.nodes.size(); ++n) {
    fitted.uncounted.nodes.push_back(fitted.nodes[n] - candidate.nodes[n]);
  }
  predict_durations(fitted.inference, input.inference, input.inference_cost);
  XRUN_ASSIGN(const Prediction exact, predict_step(fitted.training, search.module, search.cost));
  Prediction& predicted = fitted.predicted;
  predicted.step = exact.step;
  predicted.images_per_second = exact.images_per_second;
  predicted.exposed_comm = exact.exposed_comm;
  predicted.loader = exact.loader;
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

// Returns the candidate with kept logits in the memory that it leaves unused, if that is faster; otherwise `fitted`.
Result<Fitted> with_kept_logits(const FitInput& input, const MemoryLimits& limits, Fitted fitted) {
  Candidate candidate = fitted.candidate;
  if (keep_logits(input, fitted, limits, candidate.decision)) {
    XRUN_ASSIGN(Fitted kept, realise(input, candidate));
    if (limits.hold(kept) && kept.predicted.step < fitted.predicted.step) {
      kept.uncounted = std::move(fitted.uncounted);
      return kept;
    }
  }
  return fitted;
}

// Returns a program of the candidate in which more layers run again, with all logits kept, if by the estimates this
// saves time and memory allows it.
Result<std::optional<Fitted>> with_more_logits(const FitInput& input, const MemoryLimits& limits,
                                               const Fitted& fitted) {
  const MissingLogits missing = missing_logits(input, fitted, limits);
  const Candidate& candidate = fitted.candidate;
  if (input.search.hints.hinted || missing.gain <= 0 || (missing.total == 0 && missing.device == 0)) {
    return std::optional<Fitted>();
  }
  const StageLimits lower{
      .stage = missing.device > 0 ? candidate.largest_stage - missing.device : 0,
      .total = missing.total > 0 ? (candidate.all_stages - missing.total) / candidate.setting.replicas : 0};
  if (lower.stage < 0 || lower.total < 0) {
    return std::optional<Fitted>();
  }
  XRUN_ASSIGN(std::vector<Candidate> made, decide(input.search, candidate.setting, Recompute::kAuto, lower));
  if (made.empty() || made[0].predicted.step > candidate.predicted.step + missing.gain) {
    return std::optional<Fitted>();
  }
  made[0].proven = false;
  XRUN_ASSIGN(Fitted again, realise(input, made[0]));
  if (!limits.hold(again)) {
    return std::optional<Fitted>();
  }
  XRUN_ASSIGN(Fitted kept, with_kept_logits(input, limits, std::move(again)));
  return std::optional(std::move(kept));
}

}  // namespace

Result<Fitted> best_variant(const FitInput& input, const MemoryLimits& limits, Fitted whole) {
  XRUN_ASSIGN(Fitted fitted, with_early_buckets(input, limits, std::move(whole)));
  XRUN_ASSIGN(std::optional<Fitted> more, with_more_logits(input, limits, fitted));
  XRUN_ASSIGN(Fitted kept, with_kept_logits(input, limits, std::move(fitted)));
  return more && more->predicted.step < kept.predicted.step ? std::move(*more) : std::move(kept);
}

Result<std::optional<Fitted>> fit(const FitInput& input, const Candidate& candidate, const MemoryLimits& limits,
                                  Fitted& smallest) {
  XRUN_ASSIGN(Fitted plain, realise(input, candidate));
  if (limits.hold(plain)) {
    XRUN_ASSIGN(Fitted best, best_variant(input, limits, std::move(plain)));
    return std::optional(std::move(best));
  }
  if (!input.search.hints.hinted) {
    // The partition only estimates memory. So its limits are set to its own estimate minus the excess of the program
    // that was made, for all stages together or for each stage, until a program fits. If the last program needs less by
    // a part of what the estimate was lowered by, the excess of all stages is multiplied accordingly: a layer that runs
    // again may need a value that was not kept before.
    StageLimits excess = excess_of(plain, limits);
    LoweredLimits lowered(candidate);
    Candidate last = candidate;
    Bytes needed = plain.memory.sum();
    for (int i = 0; i < kCorrections && lowered.lower(last, excess); ++i) {
      XRUN_ASSIGN(std::vector<Candidate> made,
                  decide(input.search, candidate.setting, Recompute::kAuto, lowered.asked()));
      if (made.empty()) {
        break;
      }
      made[0].proven = made[0].proven && i == 0;  // later limits may be lower than necessary
      XRUN_ASSIGN(Fitted fitted, realise(input, made[0]));
      if (limits.hold(fitted)) {
        XRUN_ASSIGN(Fitted best, best_variant(input, limits, std::move(fitted)));
        return std::optional(std::move(best));
      }
      excess = excess_of(fitted, limits);
      const double factor = bytes_to_lower(last.all_stages - made[0].all_stages, needed - fitted.memory.sum());
      excess.total = static_cast<Bytes>(static_cast<double>(excess.total) * factor);
      for (Bytes& bytes : excess.nodes) {
        bytes = bytes > 0 ? static_cast<Bytes>(static_cast<double>(bytes) * factor) : bytes;
      }
      last = std::move(made[0]);
      needed = fitted.memory.sum();
    }
    XRUN_ASSIGN(std::vector<Candidate> all, decide(input.search, candidate.setting, Recompute::kAll));
    if (!all.empty()) {
      XRUN_ASSIGN(Fitted again, realise(input, all[0]));
      if (limits.hold(again)) {
        XRUN_ASSIGN(Fitted best, best_variant(input, limits, std::move(again)));
        return std::optional(std::move(best));
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
