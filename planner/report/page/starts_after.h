// The reason for the time at which an instruction starts: the instruction that ended last of all that it waited for.
#pragma once

#include <vector>

#include "planner/cost/simulate.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Returns for each instruction the one whose end starts it, or an invalid id if it starts with the step. Candidates are
// its dependences, the computation before it on its device and, for a member of an exchange, those of all members.
std::vector<InstructionId> starts_after(const Program& program, const ProgramTimes& times);

}  // namespace xrun::planner
