// Decides which logits a head keeps from the forward to the backward pass (declared in planner/search/fit.h).
// Tests: tests/planner/search/choose_test.cpp
#include <algorithm>
#include <map>

#include "planner/search/fit.h"
#include "planner/search/heads.h"

namespace xrun::planner {
namespace {

// Logits are kept only if the product that computes a logit takes at least this many times as long as the two copies of
// a kept logit. For heads of 64 dimensions, kept logits save a tenth of the time in f32, but nothing in bf16, whose
// products take half as long.
constexpr double kGain = 1.25;

// Whether copying a logit to memory and back takes much less time than computing it again.
bool worth_keeping(const HeadPlan& head, const CostModel& cost) {
  constexpr Bytes kLogit = 4;
  return head.loss.valid() &&
         cost.head_products(static_cast<double>(head.dim), head.bf16) > kGain * cost.sweep(2 * kLogit, 1);
}

// Returns the bytes of the logits of all blocks of a shard in one pass.
Bytes logits_bytes(const FitInput& input, const Program& program, const HeadPlan& head, HeadShard shard) {
  if (shard.row_begin == shard.row_end || !worth_keeping(head, input.search.cost)) {
    return 0;
  }
  shard.kept_blocks = head.blocks().of_rows({shard.row_begin, shard.row_end}).size();
  return align_up(head_logits_bytes(head_shape(program, input.search.module.graph, head, shard, head.rows)));
}

// Returns the bytes of the logits that are worth keeping; key: device.
std::map<int, Bytes> wanted_bytes(const FitInput& input, const Fitted& fitted) {
  std::map<int, Bytes> wanted;
  for (const HeadPlan& head : fitted.candidate.decision.heads) {
    for (const HeadShard& shard : head.shards) {
      wanted[shard.device] += logits_bytes(input, fitted.training, head, shard);
    }
  }
  return wanted;
}

}  // namespace

bool lacks_logits(const FitInput& input, const Fitted& fitted) {
  return std::ranges::any_of(fitted.candidate.decision.heads, [&](const HeadPlan& head) {
    return worth_keeping(head, input.search.cost) && std::ranges::any_of(head.shards, [&](const HeadShard& shard) {
             return shard.kept_blocks < head.blocks().of_rows({shard.row_begin, shard.row_end}).size();
           });
  });
}

MissingLogits missing_logits(const FitInput& input, const Fitted& fitted, const MemoryLimits& limits) {
  MissingLogits missing{.total = fitted.memory.sum() - limits.total};
  const std::map<int, Bytes> wanted = wanted_bytes(input, fitted);
  for (const Arena& arena : fitted.training.arenas) {
    const auto bytes = wanted.find(arena.device);
    if (bytes != wanted.end()) {
      missing.total += bytes->second;
      const Bytes over = fitted.memory.devices[static_cast<size_t>(arena.device)] + bytes->second - limits.device;
      missing.device = limits.device > 0 ? std::max(missing.device, over) : 0;
    }
  }
  missing.total = std::max<Bytes>(0, missing.total);
  std::vector<HeadPlan> heads = fitted.candidate.decision.heads;
  const TrainingHeads training = training_heads(input.search.module);
  const HeadTimes plain = head_times(heads, input.search.cost, training);
  for (HeadPlan& head : heads) {
    for (HeadShard& shard : head.shards) {
      const BlockRange blocks = head.blocks().of_rows({shard.row_begin, shard.row_end});
      shard.kept_blocks = worth_keeping(head, input.search.cost) ? blocks.size() : 0;
    }
  }
  const HeadTimes kept = head_times(heads, input.search.cost, training);
  missing.gain = (plain.pass() - kept.pass()) * fitted.candidate.decision.schedule.head_passes;
  return missing;
}

bool keep_logits(const FitInput& input, const Fitted& fitted, const MemoryLimits& limits, Decision& decision) {
  const std::map<int, Bytes> wanted = wanted_bytes(input, fitted);
  Bytes all = 0;
  for (const auto& [device, bytes] : wanted) {
    all += bytes;
  }
  const auto part_of = [](Bytes left, Bytes bytes) {
    return bytes > 0 ? std::clamp(static_cast<double>(left) / static_cast<double>(bytes), 0.0, 1.0) : 0.0;
  };
  const double of_all = part_of(limits.total - fitted.memory.sum(), all);
  bool any = false;
  for (HeadPlan& head : decision.heads) {
    for (HeadShard& shard : head.shards) {
      double part = worth_keeping(head, input.search.cost) ? of_all : 0;
      for (const Arena& arena : fitted.training.arenas) {
        if (limits.device > 0 && arena.device == shard.device) {
          const Bytes left = limits.device - fitted.memory.devices[static_cast<size_t>(shard.device)];
          part = std::min(part, part_of(left, wanted.at(shard.device)));
        }
      }
      const BlockRange blocks = head.blocks().of_rows({shard.row_begin, shard.row_end});
      shard.kept_blocks = static_cast<int64_t>(part * static_cast<double>(blocks.size()));
      any = any || shard.kept_blocks > 0;
    }
  }
  if (any) {
    const HeadTimes times = head_times(decision.heads, input.search.cost, training_heads(input.search.module));
    decision.head_forward_time = times.forward;
    decision.head_backward_time = times.backward;
  }
  return any;
}

}  // namespace xrun::planner
