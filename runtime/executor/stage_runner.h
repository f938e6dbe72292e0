// Stage passes: the nodes of a stage on one row block after the other.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/workers.h"
#include "planner/program.h"
#include "runtime/executor/binding.h"

namespace xrun::runtime {

// What is different from step to step.
struct StepContext {
  uint64_t seed = 0;
  int64_t step = 0;                    // counted from 0
  double rate = 0;                     // of the curve
  std::span<std::byte* const> inputs;  // by index in Graph::inputs: the step's slots
};

class StageRunner {
 public:
  // `workers`: the largest number of workers of a device.
  StageRunner(const Graph& graph, const planner::Program& program, int workers);

  // Runs a pass: forward blocks are shared out one by one, backward blocks partial by partial, ascending inside a
  // partial. No value that leaves a forward pass is NaN or infinite afterwards. Errors: those of kernels; kNonFinite,
  // naming the first operator whose result is not finite and the rows of the batch.
  Status run(const BoundPass& pass, bool forward, const StepContext& step, ops::Workers& workers);

 private:
  // Of one worker of one device.
  struct Worker {
    std::vector<ops::TensorView> views;
    Status status;
  };

  Status run_block(const BoundPass& pass, int64_t block, const StepContext& step, int worker);
  Status run_node(const BoundPass& pass, const BoundNode& node, int64_t block, const StepContext& step, int worker);
  Status check_watched(const BoundPass& pass, int64_t block, const StepContext& step, int worker);
  Error find_nonfinite(const BoundPass& pass, int64_t block, const StepContext& step, int worker);
  ops::TensorView address(const BoundPass& pass, const Operand& operand, int64_t block, const StepContext& step,
                          int worker) const;
  bool is_finite(const TensorType& type, const std::byte* data) const;  // of one row block

  const Graph& graph_;
  const planner::Program& program_;
  int workers_;
  std::vector<Worker> state_;  // by device · workers + worker
};

}  // namespace xrun::runtime
