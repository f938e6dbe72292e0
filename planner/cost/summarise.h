// Sums over the times of a simulated program.
#pragma once

#include "planner/cost/simulate.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Sets makespan, bubble and exposed communication from the times of the instructions.
void summarise(const Program& program, ProgramTimes& times);

}  // namespace xrun::planner
