// The idle time of devices in a step, and its causes.
#pragma once

#include "planner/cost/simulate.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// Times in which devices compute nothing between the first and the last instruction of a step, as fractions of the
// step, in the mean of all devices. Reading data delays a step as a whole and is not among them.
struct IdleShares {
  double imbalance = 0;      // devices have less to compute than the busiest one
  double communication = 0;  // the busiest device only takes part in exchanges
  double waits = 0;          // the busiest device waits for other devices, as while a pipeline fills and drains
  double all() const { return imbalance + communication + waits; }
};

// Returns the shares for a program with these times, in a step that takes `step`.
IdleShares idle_shares(const Program& program, const ProgramTimes& times, Seconds step);

// Sets Prediction::bubble and Prediction::imbalance to the shares of a program that was made. The search only estimates
// them.
void set_idle(Prediction& predicted, const Program& program, const Machine& machine);

}  // namespace xrun::planner
