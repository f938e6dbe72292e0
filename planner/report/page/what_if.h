// The step of a plan if a part of it were faster: what a faster link or a smaller stage would give.
#pragma once

#include <string>
#include <vector>

#include "planner/cost/simulate.h"
#include "planner/program/plan.h"

namespace xrun::planner {

struct WhatIf {
  std::string change;  // "exchanges take half the time"
  Seconds step = 0;    // predicted step of the same program with this change
  std::string part;    // the time above the lower bound that this change removes: "exchanges"; empty: no such time
};

// Simulates the program of a plan, whose times are `times`, with faster exchanges, with a core for each worker, without
// layers that run again, with each of the first eight stages 10 % faster, and with 10 % faster heads. The plan itself
// stays: a search could find a better one for such a machine.
std::vector<WhatIf> what_ifs(const Plan& plan, const ProgramTimes& times);

}  // namespace xrun::planner
