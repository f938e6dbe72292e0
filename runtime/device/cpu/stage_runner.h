// Runs the forward and backward passes of stages: the nodes of a stage on the row blocks of a micro-batch. Each worker
// runs whole row blocks. If a device has more workers than blocks, kernel calls are divided into parts, which are
// distributed over all workers.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "graph/module.h"
#include "ops/workers.h"
#include "planner/program/program.h"
#include "runtime/device/binding.h"
#include "runtime/device/cpu/kernels.h"

namespace xrun::runtime {

// An operand of a kernel call: its address for the first row block, and how the address advances from block to block
// (planner/program/operand.h).
struct BoundOperand {
  OperandAddress begin;
  planner::By by = planner::By::kNothing;  // the block index with which the address advances
  Bytes step = 0;                          // bytes added to the address when that index grows by 1
};

// Returns the address of an operand for one row block. `moved`: how far the indices of the block have advanced since
// the first block; index: By.
inline std::byte* address(const BoundOperand& operand, const std::array<int64_t, 4>& moved, const StepContext& step) {
  return operand.begin.at(step) + operand.step * moved[static_cast<size_t>(operand.by)];
}

// A kernel call with its operands, first inputs and then outputs, which begin at `first_operand`.
struct BoundNode {
  NodeId node;
  const ops::Kernel* kernel = nullptr;
  int32_t first_operand = 0;
  int32_t inputs = 0;
  int32_t outputs = 0;
  int64_t parts = 1;  // the largest number of parts of a call that saves time
  bool adds = false;  // the call adds to gradient partials
};

// Row blocks [begin, end) of the global batch.
struct BlockRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// A forward or backward pass of a stage for one micro-batch of one replica, with its addresses.
struct BoundPass {
  std::vector<BoundNode> nodes;
  std::vector<BoundOperand> operands;
  std::vector<BoundOperand> watched;         // f32, bf16 or f16 values that leave a forward pass and must be finite
  std::vector<ValueId> watched_values;       // ids of `watched`
  std::vector<std::span<std::byte>> zeroed;  // accumulators that this pass must zero, since it is the first to use them
  BoundOperand scratch;                      // scratch of the kernels
  std::vector<BlockRange> runs;              // blocks that a worker takes at a time: one, or backward a partial's
  int64_t first_block = 0;                   // index of the first row block in the global batch
  int64_t blocks = 0;
  int device = 0;
  bool forward = true;
  bool is_cut = false;  // whether the calls of a node are divided into parts
};

class StageRunner {
 public:
  // `workers`: the largest number of workers of a device.
  StageRunner(const Module& module, const planner::Program& program, const Binder& binder, const KernelSet& kernels,
              int workers);

  BoundPass bind(const planner::Instruction& instruction) const;
  // Runs a pass. The workers take the blocks of a forward pass one by one. In a backward pass a worker takes all blocks
  // of a gradient partial, in ascending order. If there are fewer such units than workers, the nodes are run one after
  // the other, divided into parts (docs/internals/determinism.md, "Parts of a row block"). Checks that all values that
  // leave a forward pass are finite. Errors: those of kernels; kNonFinite, with the first operator whose result is not
  // finite and the rows of the batch.
  Status run(const BoundPass& pass, const StepContext& step, ops::Workers& workers);

 private:
  // The state of one worker of one device.
  struct Worker {
    std::vector<ops::TensorView> views;
    Status status;
  };
  // A row block of a pass, and the part of its calls that a worker runs. `moved`: see `address`. Values between the
  // nodes of the block are in the slice moved[By::kWorker], which may be the slice of another worker; scratch always
  // belongs to this worker.
  struct Block {
    int64_t index = 0;  // index of the row block in the batch
    int worker = 0;
    int64_t part = 0;
    int64_t parts = 1;
    int phase = ops::kAllPhases;
    std::array<int64_t, 4> moved{};
  };

  Block block_of(const BoundPass& pass, int64_t index, int slice, int worker) const;
  void run_whole(const BoundPass& pass, const StepContext& step, ops::Workers& workers);
  void run_parts(const BoundPass& pass, const StepContext& step, ops::Workers& workers);
  void run_nodes(const BoundPass& pass, std::span<const BoundNode> nodes, BlockRange blocks, const StepContext& step,
                 ops::Workers& workers);
  void check_block(const BoundPass& pass, const Block& block, const StepContext& step);
  void run_block(const BoundPass& pass, std::span<const BoundNode> nodes, const Block& block, const StepContext& step);
  Status run_node(const BoundPass& pass, const BoundNode& node, const Block& block, const StepContext& step);
  Status check_watched(const BoundPass& pass, const Block& block, const StepContext& step);
  Error find_nonfinite(const BoundPass& pass, const Block& block, const StepContext& step);  // find_non_finite.cpp
  int64_t worthwhile_parts(const Node& node, const ops::Kernel& kernel) const;
  void bind_runs(BoundPass& pass) const;
  Status& status_of(int device, int worker) { return state_[static_cast<size_t>(device * workers_ + worker)].status; }
  bool all_ok(int device);
  bool is_finite(const TensorType& type, const void* data) const;  // whether the values of one row block are finite

  const Graph& graph_;
  const TrainSpec& train_;
  const planner::Program& program_;
  const Binder& binder_;
  const KernelSet& kernels_;
  int workers_;
  std::vector<bool> watched_;  // index: value; whether it must be finite
  std::vector<Worker> state_;  // index: device · workers + worker
};

}  // namespace xrun::runtime
