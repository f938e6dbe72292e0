// Runs the instructions of sharded heads by calling the functions of ops/head/head.h on their operands.
#pragma once

#include <map>
#include <vector>

#include "graph/module.h"
#include "ops/head/head.h"
#include "ops/head/mass.h"
#include "planner/program/program.h"
#include "runtime/device/binding.h"
#include "runtime/device/cpu/head_set.h"
#include "runtime/device/tensor_update.h"

namespace xrun::runtime {

// The k best classes of each row and their logits, [rows, k].
struct BestRows {
  int64_t k = 0;
  int32_t* classes = nullptr;
  float* scores = nullptr;
};

// A head instruction with the addresses of its operands. There are three kinds: a pass over the classes of one shard,
// the combination of the statistics of all shards, and the summing of dX, the gradient of the features.
struct BoundHead {
  const planner::Instruction* instruction = nullptr;
  planner::Kind kind = planner::Kind::kHeadForward;
  int head = 0;
  int head_pass = 0;
  int shard = -1;
  const ops::HeadPasses* passes = nullptr;  // null: the instruction is not a pass of a shard
  int64_t rows = 0;
  OperandAddress features;
  OperandAddress labels;   // label of each row; null if there are no labels
  OperandAddress factors;  // factor of each row's loss; null if all rows have the same weight
  ops::RowSoftmax* softmax = nullptr;
  ops::HeadWeights weights;
  std::byte* stats = nullptr;      // statistics of this shard
  std::byte* logits = nullptr;     // logits that this shard keeps for its backward pass
  std::byte* selection = nullptr;  // active classes of this shard; for combining, of any shard on the device
  ops::RowMass* mass = nullptr;
  const int32_t* lists = nullptr;  // lists of nearest classes
  std::byte* gradient = nullptr;   // gradient of this shard
  std::byte* scratch = nullptr;
  ops::HeadUpdate update;  // pointers and form; each step adds its scalars
  bool updates = false;
  double* weight_squares = nullptr;
  double* bias_squares = nullptr;
  // The next members are for combining statistics.
  std::vector<const std::byte*> all_stats;  // index: shard; null: the shard is empty
  float* loss = nullptr;
  std::vector<ops::HeadHits> hits;
  std::map<NodeId, BestRows> best;  // key: the node that outputs the list
  // The next members are for the summing of dX.
  const ops::HeadJoin* join_of_dx = nullptr;
  std::vector<ops::HeadDx> terms;  // in the order of their classes
  Bytes gradient_step = 0;         // for kSumDx: distance between subtrees
  float* feature_gradient = nullptr;
};

// Binds and runs the instructions. Threads: any; at most one at a time for each stream of a device.
class HeadRunner {
 public:
  HeadRunner(const Module& module, const planner::Program& program, const Binder& binder, const HeadSet& heads,
             const ops::OptimizerForm& form);

  BoundHead bind(const planner::Instruction& instruction) const;
  // Runs an instruction. `grad_scale`: factor of the gradients if the instruction updates weights. Errors: kNonFinite,
  // a loss is NaN or infinite.
  Status run(BoundHead& bound, const StepContext& step, double grad_scale, ops::Workers& workers) const;
  // Prepares the weights of a device's shards for the kernels, from their current values.
  void prepare(const BoundMemory& memory, int device, ops::Workers& workers) const;

 private:
  void bind_operand(const planner::Operand& operand, BoundHead& bound) const;
  void bind_batch_rows(const planner::Operand& operand, BoundHead& bound) const;
  // Runs a pass over the class rows of a shard. Errors: those of the file that contains the rows.
  Status run_sweep(BoundHead& bound, const StepContext& step, double grad_scale, ops::Workers& workers) const;
  void prepare_catch_up(BoundHead& bound, const StepContext& step) const;
  Status prepare_update(BoundHead& bound, const ops::ActiveClasses& active, const StepContext& step, double grad_scale,
                        ops::Workers& workers) const;
  void select(const BoundHead& bound, const StepContext& step, ops::Workers& workers) const;
  Status reduce(const BoundHead& bound, const StepContext& step) const;
  Status check_loss(const BoundHead& bound, const StepContext& step) const;

  const Module& module_;
  const planner::Program& program_;
  const Binder& binder_;
  const HeadSet& heads_;
  ops::OptimizerForm form_;
};

}  // namespace xrun::runtime
