// The text about a program whose instructions wait for one another.
#pragma once

#include <string>
#include <vector>

#include "planner/program/program.h"

namespace xrun::planner {

// How far a simulation has come; index: instruction. `posted`: it waits for nothing but the other members of its
// exchange. `ended`: it has ended.
struct SimulatedState {
  std::vector<bool> posted;
  std::vector<bool> ended;
};

// Returns a circle of instructions, each of which waits for the next one: "#3 recv of micro-batch 0, stage 1, device 1
// waits for #2 send ..., which waits for #3". It names at most ten. REQUIRES: some instruction has not ended, and each
// such instruction waits for another one.
std::string deadlock_text(const Program& program, const SimulatedState& state);

}  // namespace xrun::planner
