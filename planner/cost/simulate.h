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
  Seconds busy = 0;          // seconds of all cores in computations; GPUs count like cores
  Seconds exposed_comm = 0;  // time in which a device only communicates, on the device where this time is longest
};

// Simulates a program. An instruction takes `Instruction::predicted`; the members of a collective, or a send and its
// receive, end together. While the computing devices have more workers than there are `cores` (0: no limit), all of
// them slow down by the same factor. Errors: kContent that names at most ten instructions that wait for one another
// (planner/cost/deadlock.h).
Result<ProgramTimes> simulate(const Program& program, int cores = 0);
// Simulates a program with the cores, the memory and the network of a machine. Workers of a node that stream through
// memory share its bandwidth. Exchanges that use a link between nodes at the same
// time share its rate: each has the smallest of its fair shares of the links that it crosses. Exchanges of the same
// ranks over the same links run one after the other, in the order in which they are posted.
Result<ProgramTimes> simulate(const Program& program, const Machine& machine);

}  // namespace xrun::planner
