// The values that a device checks for numbers that are not finite. Each has a flag word of its own (step_memory.h), so
// that an error names the first one that was not finite.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "graph/module.h"
#include "planner/program/program.h"
#include "runtime/device/backend.h"

namespace xrun::cuda {

// Immutable. Threads: any.
class WatchedWords {
 public:
  // Finds the watched values (runtime/device/non_finite.h) that forward passes of `device` write. Module and program
  // outlive the object.
  WatchedWords(const Module& module, const planner::Program& program, int device);

  int64_t count() const { return std::ssize(words_); }
  // The word of an output of an instruction; -1 if it is not watched.
  int64_t word_of(const planner::Instruction& instruction, ValueId value) const;

  // Returns the error for flag words (StepMemory::read_flags) of which the shared one is not 0. `sums`: the sums of
  // squares of the gradients; empty if the step computes none.
  Error error_of(const std::vector<uint32_t>& flags, std::span<const double> sums,
                 const runtime::StepContext& step) const;

 private:
  struct Word {
    const planner::Instruction* pass = nullptr;
    ValueId value;
  };

  const Module& module_;
  const planner::Program& program_;
  int device_;
  std::vector<Word> words_;  // in the order of the instructions
  std::map<std::pair<planner::InstructionId, ValueId>, int64_t> places_;
};

}  // namespace xrun::cuda
