// Simulation of a program: computes when instructions start and end, from their order and durations
// (docs/internals/algorithms.md, "Simulation"). planner/schedules/simulate_schedule.h simulates a schedule, before a
// program exists.
#pragma once

#include <string>
#include <vector>

#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

struct InstructionTime {
  Seconds start = 0;
  Seconds end = 0;
};

struct ProgramTimes {
  std::vector<InstructionTime> instructions;  // index: InstructionId
  Seconds makespan = 0;
  double bubble = 0;         // fraction of time in which compute streams are idle, on the devices that hold stages
  Seconds exposed_comm = 0;  // time in which a device only communicates, on the device where this time is longest
};

// Simulates a program. An instruction takes `Instruction::predicted`; the members of a collective, or a send and its
// receive, end together. While the computing devices have more workers than there are `cores` (0: no limit), all of
// them slow down by the same factor. Errors: kContent that names instructions that wait for one another.
Result<ProgramTimes> simulate(const Program& program, int cores = 0);
// Simulates a program with the cores and the network of a machine. Exchanges that use the same link between nodes run
// one after the other.
Result<ProgramTimes> simulate(const Program& program, const Machine& machine);

}  // namespace xrun::planner
