// The computations of a program that runs by the clock: their times, and the resources that they share as in the
// simulator (docs/internals/algorithms.md, "Simulation").
#pragma once

#include "planner/program/machine.h"
#include "planner/program/program.h"
#include "runtime/wall/wall_model.h"

namespace xrun::cli {

// Returns the model of a program by the clock, with its exchanges. Cores, and the memory of a node, have a bucket if
// the workers of all devices together can need more than there is.
//   slow  seconds of the clock for a second of the program
runtime::WallModel wall_model(const planner::Program& program, const planner::Machine& machine, double slow);

// Returns the factor with which the median pass takes 20 ms, rounded up to two digits, so that late wake-ups of about
// 0.1 ms are a small part of it; 1 if it takes longer.
double slow_enough(const planner::Program& program);

}  // namespace xrun::cli
