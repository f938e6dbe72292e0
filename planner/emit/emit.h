// Emission: turns the decision of the search into a Program: buffers, instructions, their order and their memory.
#pragma once

#include "graph/base/result.h"
#include "graph/kernel_facts.h"
#include "graph/module.h"
#include "planner/machine.h"
#include "planner/program.h"
#include "planner/search/decision.h"

namespace xrun::planner {

struct EmitRequest {
  const Module& module;      // prepared (graph/pipeline.h); `decision` refers to its graph
  const KernelFacts& facts;  // index: NodeIds of the module's graph
  const Machine& machine;
  const Decision& decision;
  int input_ring = 2;  // positions of the ring: number of batches that the loader may fill ahead
};

// Returns the program of a training step, or of inference on one batch. Errors: kInfeasible XG0605 for rows that cannot
// be divided by micro-batches, replicas or partials; kContent XG0198 for a graph that stages cannot carry; kContent
// XG0623 for orders of the schedule that wait for each other.
Result<Program> emit(const EmitRequest& request);

// Values that are read after a step, except those that a head makes: loss and metrics in training; metrics and outputs
// in inference.
std::vector<ValueId> result_values(const Module& module, const Decision& decision);

}  // namespace xrun::planner
