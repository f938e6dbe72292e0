// Stage passes: the nodes of a stage on one row block after the other.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/workers.h"
#include "planner/program.h"
#include "runtime/device/cpu/binding.h"
#include "runtime/device/cpu/kernels.h"

namespace xrun::runtime {

// An operand of a kernel call: where it begins, and how it moves on (planner/operand.h).
struct BoundOperand {
  OperandAddress begin;
  planner::By by = planner::By::kNothing;
  Bytes step = 0;
};

// One call of a kernel, with its operands: inputs, then outputs, from `first_operand`.
struct BoundNode {
  NodeId node;
  const ops::Kernel* kernel = nullptr;
  int32_t first_operand = 0;
  int32_t inputs = 0;
  int32_t outputs = 0;
};

// A stage pass of one micro-batch of one replica.
struct BoundPass {
  std::vector<BoundNode> nodes;
  std::vector<BoundOperand> operands;
  std::vector<BoundOperand> watched;         // f32 or bf16 values that leave a forward pass and must be finite
  std::vector<ValueId> watched_values;       // of `watched`
  std::vector<std::span<std::byte>> zeroed;  // accumulators that this pass is the first to touch
  BoundOperand scratch;                      // of the kernels
  int64_t first_block = 0;                   // of the global batch
  int64_t blocks = 0;
  int device = 0;
  bool forward = true;
};

class StageRunner {
 public:
  // `workers`: the largest number of workers of a device.
  StageRunner(const Graph& graph, const planner::Program& program, const Binder& binder, const KernelSet& kernels,
              int workers);

  BoundPass bind(const planner::Instruction& instruction) const;
  // Runs a pass: forward blocks are shared out one by one, backward blocks partial by partial, ascending inside a
  // partial. No value that leaves a forward pass is NaN or infinite afterwards. Errors: those of kernels; kNonFinite,
  // naming the first operator whose result is not finite and the rows of the batch.
  Status run(const BoundPass& pass, const StepContext& step, ops::Workers& workers);

 private:
  // Of one worker of one device.
  struct Worker {
    std::vector<ops::TensorView> views;
    Status status;
  };
  // A row block of a pass on a worker, and how often each operand has moved on, by By.
  struct Block {
    int64_t index = 0;  // of the batch
    int worker = 0;
    std::array<int64_t, 4> moved{};
  };

  Block block_of(const BoundPass& pass, int64_t index, int worker) const;
  Status run_block(const BoundPass& pass, const Block& block, const StepContext& step);
  Status run_node(const BoundPass& pass, const BoundNode& node, const Block& block, const StepContext& step);
  Status check_watched(const BoundPass& pass, const Block& block, const StepContext& step);
  Error find_nonfinite(const BoundPass& pass, const Block& block, const StepContext& step);
  Status& status_of(int device, int worker) { return state_[static_cast<size_t>(device * workers_ + worker)].status; }
  bool is_finite(const TensorType& type, const void* data) const;  // of one row block

  const Graph& graph_;
  const planner::Program& program_;
  const Binder& binder_;
  const KernelSet& kernels_;
  int workers_;
  std::vector<bool> watched_;  // by value
  std::vector<Worker> state_;  // by device · workers + worker
};

}  // namespace xrun::runtime
