// The parts of a step on the busiest device, in the order of its time line: they add up to the step.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program/plan.h"

namespace xrun::planner {

struct StepPart {
  std::string name;   // "backbone", "head", "gathers and scatters of heads", "waiting for other devices"
  Seconds time = 0;   // without what is hidden
  Seconds whole = 0;  // exchanges and copies: with the time that is hidden during computations; else equal to `time`
};

struct StepParts {
  int device = 0;               // the device that computes most
  std::vector<StepPart> parts;  // without parts that take no time
  // Time that builds of graphs of nearest classes add to a step on average. It is not in the step.
  Seconds lists = 0;
};

StepParts step_parts(const Plan& plan, const Module& module);

}  // namespace xrun::planner
