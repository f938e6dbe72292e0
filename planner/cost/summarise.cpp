// Tests: tests/planner/cost/simulate_test.cpp
#include "planner/cost/summarise.h"

#include <algorithm>

namespace xrun::planner {
namespace {

// Returns the seconds in which an interval of `comm` is running and no interval of `compute`. The intervals of
// `compute` must be in order and not overlap one another.
Seconds exposed(std::vector<InstructionTime> comm, const std::vector<InstructionTime>& compute) {
  std::sort(comm.begin(), comm.end(),
            [](const InstructionTime& a, const InstructionTime& b) { return a.start < b.start; });
  Seconds sum = 0;
  Seconds covered = 0;  // end of the time in which exchanges have been counted
  for (InstructionTime one : comm) {
    one.start = std::max(one.start, covered);
    one.end = std::max(one.end, one.start);
    covered = one.end;
    Seconds hidden = 0;
    auto other = std::ranges::lower_bound(compute, one.start, {}, &InstructionTime::end);
    for (; other != compute.end() && other->start < one.end; ++other) {
      hidden += std::max(0.0, std::min(one.end, other->end) - std::max(one.start, other->start));
    }
    sum += one.end - one.start - hidden;
  }
  return sum;
}

}  // namespace

void summarise(const Program& program, ProgramTimes& times) {
  std::vector<std::vector<InstructionTime>> compute(static_cast<size_t>(program.devices));
  auto comm = compute;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    auto& list = instruction.stream == Stream::kCompute ? compute : comm;
    list[static_cast<size_t>(instruction.device)].push_back(times.instructions[i]);
    times.makespan = std::max(times.makespan, times.instructions[i].end);
  }
  std::vector<bool> works(static_cast<size_t>(program.devices), false);
  for (const Stage& stage : program.stages) {
    for (const int device : stage.devices) {
      works[static_cast<size_t>(device)] = true;
    }
  }
  Seconds busy = 0;
  int count = 0;
  for (size_t d = 0; d < works.size(); ++d) {
    times.exposed_comm = std::max(times.exposed_comm, exposed(comm[d], compute[d]));
    if (works[d]) {
      ++count;
      for (const InstructionTime& time : compute[d]) {
        busy += time.end - time.start;
      }
    }
  }
  if (count > 0 && times.makespan > 0) {
    times.bubble = 1 - busy / (times.makespan * count);
  }
}

}  // namespace xrun::planner
