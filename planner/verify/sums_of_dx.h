// The sums of dX of an instruction, for the checks of its operands.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "planner/dx_terms.h"

namespace xrun::planner {

// The sums of the last micro-batch are kept, so that plans with the instructions of a micro-batch next to each other
// are checked fast.
class SumsOfDx {
 public:
  // Empty if no sum has the shard of the instruction. REQUIRES: the instruction has a head, a stage and a micro-batch
  // `gather`.
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
