// Tests: tests/planner/report/idle_test.cpp
#include "planner/report/idle.h"

#include <algorithm>
#include <tuple>

#include "planner/report/summary.h"

namespace xrun::planner {
namespace {

bool computes(const Instruction& instruction) {
  return instruction.stream == Stream::kCompute && !communicates(instruction.kind);
}

// Returns the time in which a device communicates and does not compute.
Seconds exposed_on(const Program& program, const ProgramTimes& times, int device) {
  std::vector<std::tuple<Seconds, int, int>> changes;  // time, and changes of the numbers of computations and exchanges
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    if (one.device == device) {
      const int compute = computes(one) ? 1 : 0;
      changes.emplace_back(times.instructions[i].start, compute, 1 - compute);
      changes.emplace_back(times.instructions[i].end, -compute, compute - 1);
    }
  }
  std::ranges::sort(changes);
  Seconds sum = 0;
  Seconds now = 0;
  int computations = 0;
  int exchanges = 0;
  for (const auto& [time, compute, exchange] : changes) {
    sum += computations == 0 && exchanges > 0 ? time - now : 0;
    now = time;
    computations += compute;
    exchanges += exchange;
  }
  return sum;
}

}  // namespace

IdleShares idle_shares(const Program& program, const ProgramTimes& times, Seconds step) {
  std::vector<Seconds> busy(static_cast<size_t>(program.devices), 0);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    if (one.device != kHost && computes(one)) {
      busy[static_cast<size_t>(one.device)] += times.instructions[i].end - times.instructions[i].start;
    }
  }
  IdleShares shares;
  if (step <= 0 || busy.empty()) {
    return shares;
  }
  const auto busiest = std::ranges::max_element(busy);
  for (const Seconds one : busy) {
    shares.imbalance += (*busiest - one) / static_cast<double>(busy.size()) / step;
  }
  const Seconds idle = std::max(0.0, times.makespan - *busiest);
  const Seconds exposed = std::min(idle, exposed_on(program, times, static_cast<int>(busiest - busy.begin())));
  shares.communication = exposed / step;
  shares.waits = (idle - exposed) / step;
  return shares;
}

void set_idle(Prediction& predicted, const Program& program, const Machine& machine) {
  const IdleShares shares = idle_shares(program, times_of(program, machine), predicted.step);
  predicted.bubble = shares.communication + shares.waits;
  predicted.imbalance = shares.imbalance;
}

}  // namespace xrun::planner
