// Finds the sums of dX to which an instruction belongs, for the checks of its operands.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "planner/program/dx_terms.h"

namespace xrun::planner {

// A cache of the sums of one micro-batch. It makes the checks fast for plans in which the instructions of a micro-batch
// are adjacent.
class SumsOfDx {
 public:
  // Returns the sums for the instruction's head, stage, micro-batch `gather` and shard; empty if the shard has no sums.
  // REQUIRES: the instruction has a head, a stage and a micro-batch `gather`.
  std::span<const DxSum> sums(const Program& program, const Instruction& one) {
    const auto key = std::tuple(one.head, one.stage, one.gather);
    if (key != key_) {
      key_ = key;
      sums_ = dx_sums(program, program.heads[static_cast<size_t>(one.head)], one.stage, one.gather);
    }
    const auto found = sums_.find(one.shard);
    return found == sums_.end() ? std::span<const DxSum>() : found->second;
  }

 private:
  std::tuple<int, int, int> key_{-1, -1, -1};
  std::map<int, std::vector<DxSum>> sums_;
};

}  // namespace xrun::planner
