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
