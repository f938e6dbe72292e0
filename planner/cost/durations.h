// Durations: how long each instruction of a program is predicted to take, by the cost model.
#pragma once

#include "planner/cost/cost_model.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Fills Instruction::predicted of every instruction of a program of `module`. Passes of stages and heads already have
// the times of the decision; this function only adds the time to hand the pass over to its device. It computes the
// times of other instructions from the buffers that they read and write.
void predict_durations(Program& program, const Module& module, const CostModel& cost);

}  // namespace xrun::planner
