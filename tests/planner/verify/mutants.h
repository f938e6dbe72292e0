// Programs that were edited in one place, with all else derived anew: the numbers of instructions, the accesses, the
// memory and the dependences.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/emit/dependences.h"
#include "planner/emit/memory.h"
#include "planner/program/program.h"

namespace xrun::planner::testing {

// Removes the buffers that no instruction accesses, except persistent ones.
inline void drop_unused_buffers(Program& program) {
  std::vector<bool> used(program.buffers.size(), false);
  for (const Instruction& one : program.instructions) {
    for (const Operand& each : one.operands) {
      used[static_cast<size_t>(each.buffer.index)] = true;
    }
  }
  std::vector<BufferId> renamed(program.buffers.size());
  std::vector<Buffer> left;
  for (Buffer& buffer : program.buffers) {
    const auto was = static_cast<size_t>(buffer.id.index);
    if (used[was] || buffer.persistent) {
      renamed[was] = buffer.id = BufferId(left.size());
      left.push_back(std::move(buffer));
    }
  }
  program.buffers = std::move(left);
  for (Instruction& one : program.instructions) {
    for (Operand& each : one.operands) {
      each.buffer = renamed[static_cast<size_t>(each.buffer.index)];
    }
  }
}

// Derives the numbers of the instructions and their accesses.
inline void derive_numbers(Program& program) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    Instruction& one = program.instructions[i];
    one.id = InstructionId(i);
    one.deps.clear();
    one.releases.clear();
    derive_accesses(one);
  }
}

// Derives everything that follows from the instructions and their operands.
inline void derive_anew(Program& program) {
  drop_unused_buffers(program);
  derive_numbers(program);
  for (Buffer& buffer : program.buffers) {
    buffer.first_use = -1;
    buffer.last_use = -1;
  }
  place_buffers(program);
  derive_dependences(program);
}

// Returns the range of the members of the group to which instruction `at` belongs, or the instruction alone.
inline std::pair<size_t, size_t> group_at(const Program& program, size_t at) {
  const auto& all = program.instructions;
  size_t begin = at;
  size_t end = at + 1;
  while (all[at].group >= 0 && begin > 0 && all[begin - 1].group == all[at].group) {
    --begin;
  }
  while (all[at].group >= 0 && end < all.size() && all[end].group == all[at].group) {
    ++end;
  }
  return {begin, end};
}

// Drops the instructions [begin, end).
inline void drop(Program& program, size_t begin, size_t end) {
  const auto first = program.instructions.begin();
  program.instructions.erase(first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end));
}

// Moves the instructions [begin, end) directly before instruction `to`, which is none of them.
inline void move(Program& program, size_t begin, size_t end, size_t to) {
  const auto at = [&](size_t i) { return program.instructions.begin() + static_cast<ptrdiff_t>(i); };
  if (to > end) {
    std::rotate(at(begin), at(end), at(to));
  } else if (to < begin) {
    std::rotate(at(to), at(begin), at(end));
  }
}

}  // namespace xrun::planner::testing
