// Emission: turns the decision of the search into a Program: buffers, instructions, their order and their memory.
#pragma once

#include "graph/base/result.h"
#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "planner/program/decision.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

struct EmitRequest {
  const Module& module;      // prepared (graph/passes/pipeline.h); `decision` refers to its graph
  const KernelFacts& facts;  // facts of kernels; index: NodeIds of the module's graph
  const Machine& machine;
  const Decision& decision;
  int input_ring = 2;  // number of positions of the loader's ring; each has a batch that may be filled in advance
};

// Returns the program of a training step, or of inference on one batch. Errors: kInfeasible XG0605 for rows that cannot
// be divided by micro-batches, replicas or partials; kContent XG0198 for a graph that cannot be cut into stages
// (trace_values); kContent XG0623 for a schedule in which stages wait for each other forever.
Result<Program> emit(const EmitRequest& request);

// Returns the values that are read after a step: loss and metrics in training, metrics and outputs in inference. Values
// that a head makes are not in the list.
std::vector<ValueId> result_values(const Module& module, const Decision& decision);

}  // namespace xrun::planner
