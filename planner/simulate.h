// Simulation: start and end of actions or instructions, from their order and durations
// (docs/internals/algorithms.md, "Simulation"). One function simulates the schedule before a Program exists, and one
// the Program itself.
#pragma once

#include <string>
#include <vector>

#include "planner/machine.h"
#include "planner/program.h"
#include "planner/schedules/schedule.h"
#include "planner/search/decision.h"

namespace xrun::planner {

struct ActionTime {
  Action action;
  Seconds start = 0;
  Seconds end = 0;
};

struct ScheduleTimes {
  std::vector<std::vector<ActionTime>> stages;
  Seconds makespan = 0;
  // Fractions of stages x makespan: the time in which devices are idle, and the part of it that unequal stages cause.
  double bubble = 0;
  double imbalance = 0;
};

// `schedule` has passed check_schedule. A stage takes its actions in order; a boundary adds `hop`.
ScheduleTimes simulate(const Schedule& schedule, const ScheduleRequest& request);

struct InstructionTime {
  Seconds start = 0;
  Seconds end = 0;
};

struct ProgramTimes {
  std::vector<InstructionTime> instructions;  // index: InstructionId
  Seconds makespan = 0;
  double bubble = 0;         // idle share of the compute streams of the devices that hold stages
  Seconds exposed_comm = 0;  // on the device that waits longest: idle while its communication runs
};

// Simulates a program. An instruction takes `Instruction::predicted`; members of a collective or of a send/recv pair
// end together. While the computing devices have more workers than `cores` (0: no limit), everything slows down by one
// factor. Errors: kContent that names the instructions that wait for one another.
Result<ProgramTimes> simulate(const Program& program, int cores = 0);
// Simulates with the cores of a machine and its network: exchanges between nodes take turns on the links that they use.
Result<ProgramTimes> simulate(const Program& program, const Machine& machine);

}  // namespace xrun::planner
