#include "planner/program/instruction.h"

#include <algorithm>
#include <utility>

namespace xrun::planner {

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {
      "forward",     "backward",  "head-select", "head-forward",  "reduce-statistics", "head-backward", "head-norms",
      "head-update", "head-mass", "reduce-dx",   "fold-partials", "sum-replicas",      "norm",          "update",
      "copy",        "send",      "recv",        "all_gather",    "reduce_scatter",    "compress",      "sum_tied",
      "sum-dx"};
  return kNames[static_cast<size_t>(kind)];
}

const char* name_of(Role role) {
  constexpr const char* kNames[] = {
      "zeroed",     "input",         "output",           "scratch",    "feature", "label", "softmax",
      "statistics", "logits",        "selection",        "lists",      "mass",    "dx",    "loss",
      "hits",       "best classes",  "best scores",      "gradient",   "weight",  "state", "prepared",
      "norms",      "running state", "batch statistics", "from",       "to",      "sent",  "received",
      "sum",        "term",          "feature gradient", "row factor", "scales",  "last",  "pairs"};
  return kNames[static_cast<size_t>(role)];
}

int64_t Instruction::blocks() const {
  int64_t sum = 0;
  for (const Operand& operand : operands) {
    sum += operand.count;
  }
  return sum;
}

void append_block(std::vector<Operand>& operands, const Operand& block) {
  const size_t least = operands.size() < 2 ? 0 : operands.size() - 2;
  size_t at = operands.size();
  while (at > least && operands[at - 1].role != block.role) {
    --at;
  }
  Operand* const last = at > least ? &operands[at - 1] : nullptr;
  if (last != nullptr && last->buffer == block.buffer && last->bytes == block.bytes && block.count == 1) {
    const int stride = block.index - last->device(last->count - 1);
    const Bytes step = block.offset - last->place(last->count - 1);
    const bool goes_on = last->count == 1 ? stride > 0 && stride <= INT16_MAX && step >= 0
                                          : stride == last->stride && step == last->step && last->count < INT16_MAX;
    if (goes_on) {
      ++last->count;
      last->stride = static_cast<int16_t>(stride);
      last->step = step;
      return;
    }
  }
  operands.push_back(block);
}

void append_others(std::vector<Operand>& operands, const Operand& run, int device) {
  int own = 0;
  while (own < run.count && run.device(own) != device) {
    ++own;
  }
  for (const auto& [begin, end] : {std::pair(0, own), std::pair(own + 1, static_cast<int>(run.count))}) {
    if (begin < end) {
      Operand part = run;
      part.index = run.device(begin);
      part.offset = run.place(begin);
      part.count = static_cast<int16_t>(end - begin);
      part.stride = part.count > 1 ? run.stride : int16_t{0};
      part.step = part.count > 1 ? run.step : 0;
      operands.push_back(part);
    }
  }
}

void derive_accesses(Instruction& instruction) {
  instruction.reads.clear();
  instruction.writes.clear();
  // The first read and the first write of each buffer, found in a sorted list of all accesses.
  struct Touch {
    BufferId buffer;
    bool writes = false;
    size_t at = 0;
    auto operator<=>(const Touch&) const = default;
  };
  std::vector<Touch> all;
  // The last operand that reads, and the last one that writes. An exchange has many operands in a row with one buffer,
  // of which the list needs only the first.
  const Operand* last[2] = {nullptr, nullptr};
  for (size_t at = 0; at < instruction.operands.size(); ++at) {
    const Operand& operand = instruction.operands[at];
    for (const bool writes : {false, true}) {
      if (operand.access == (writes ? Access::kRead : Access::kWrite)) {
        continue;
      }
      const Operand* before = std::exchange(last[writes ? 1 : 0], &operand);
      if (before == nullptr || before->buffer != operand.buffer) {
        all.push_back({operand.buffer, writes, at});
      }
    }
  }
  std::ranges::sort(all);
  std::vector<size_t> reads;
  std::vector<size_t> writes;
  for (size_t i = 0; i < all.size();) {
    const BufferId buffer = all[i].buffer;
    const size_t none = instruction.operands.size();
    const size_t read = all[i].writes ? none : all[i].at;
    while (i < all.size() && all[i].buffer == buffer && !all[i].writes) {
      ++i;
    }
    const size_t write = i < all.size() && all[i].buffer == buffer ? all[i].at : none;
    while (i < all.size() && all[i].buffer == buffer) {
      ++i;
    }
    // An exchange sends bytes that were written before, even if it also receives other bytes of the same buffer.
    if (read != none && (communicates(instruction.kind) || read <= write)) {
      reads.push_back(read);
    }
    if (write != none) {
      writes.push_back(write);
    }
  }
  for (const bool written : {false, true}) {
    std::vector<size_t>& places = written ? writes : reads;
    std::ranges::sort(places);
    for (const size_t at : places) {
      (written ? instruction.writes : instruction.reads).push_back(instruction.operands[at].buffer);
    }
  }
}

}  // namespace xrun::planner
