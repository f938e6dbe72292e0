// Tests: tests/planner/report/page/html_page_test.cpp
#include "planner/report/page/starts_after.h"

#include <map>
#include <utility>

namespace xrun::planner {

std::vector<InstructionId> starts_after(const Program& program, const ProgramTimes& times) {
  const auto later = [&](InstructionId a, InstructionId b) {
    const auto end = [&](InstructionId id) { return times.instructions[static_cast<size_t>(id.index)].end; };
    return !b.valid() || (a.valid() && end(a) >= end(b)) ? a : b;
  };
  std::vector<InstructionId> after(program.instructions.size());
  std::map<std::pair<int, Stream>, InstructionId> before;
  std::map<int, InstructionId> of_group;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    InstructionId last;
    for (const auto* list : {&one.deps, &one.releases}) {
      for (const InstructionId id : *list) {
        last = later(last, id);
      }
    }
    InstructionId& own = before[{one.device, one.stream}];
    if (own.valid()) {
      // An exchange can start before the one before it in its stream has ended, but not before that one was posted.
      last = later(last, one.stream == Stream::kCompute ? own : after[static_cast<size_t>(own.index)]);
    }
    own = one.id;
    after[i] = last;
    if (one.group >= 0) {
      of_group[one.group] = later(of_group[one.group], last);
    }
  }
  for (const Instruction& one : program.instructions) {
    if (one.group >= 0) {
      after[static_cast<size_t>(one.id.index)] = of_group[one.group];
    }
  }
  return after;
}

}  // namespace xrun::planner
