// Makes the exchanges of a program from the operands of its instructions.
#pragma once

#include <vector>

#include "planner/program/program.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/bound_memory.h"

namespace xrun::runtime {

// Returns an exchange for each communicating instruction of `rank`, in program order. `memory` outlives the result.
std::vector<Exchange> exchanges_of(const planner::Program& program, const BoundMemory& memory, int rank = 0);

// Sets the sizes of blocks that contain pairs of compressed gradients to their sizes in a step with this density.
// REQUIRES: `exchanges` are those of this program and rank.
void set_density(const planner::Program& program, const Graph& graph, double density, int rank,
                 std::vector<Exchange>& exchanges);

// Returns the members of each group of exchanges; index: group number.
std::vector<std::vector<planner::InstructionId>> groups_of(const planner::Program& program);

}  // namespace xrun::runtime
