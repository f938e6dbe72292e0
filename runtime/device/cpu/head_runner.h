// Runs the instructions of a sharded head as calls of ops/head.h on their operands.
#pragma once

#include <map>
#include <vector>

#include "graph/module.h"
#include "ops/head.h"
#include "ops/head/mass.h"
#include "planner/program.h"
#include "runtime/device/cpu/binding.h"
#include "runtime/device/cpu/head_set.h"
#include "runtime/device/cpu/update_rule.h"

namespace xrun::runtime {

// The k best classes of each row and their logits, [rows, k].
struct BestRows {
  int64_t k = 0;
  int32_t* classes = nullptr;
  float* scores = nullptr;
};

// A pass of one shard, the folding of statistics on one device, or the summing of dX.
struct BoundHead {
  const planner::Instruction* instruction = nullptr;
  planner::Kind kind = planner::Kind::kHeadForward;
  int head = 0;
  int head_pass = 0;
  int shard = -1;
  const ops::HeadPasses* passes = nullptr;  // null: no pass of a shard
  int64_t rows = 0;
  OperandAddress features;
  OperandAddress labels;   // null if there are no labels
  OperandAddress factors;  // factors of the losses; null if all rows have the same weight
  ops::RowSoftmax* softmax = nullptr;
  ops::HeadWeights weights;
  std::byte* stats = nullptr;      // statistics of this shard
  std::byte* logits = nullptr;     // kept by this shard
  std::byte* selection = nullptr;  // selection of this shard; for joined statistics, of a shard on the same device
  ops::RowMass* mass = nullptr;
  const int32_t* lists = nullptr;  // nearest classes
  std::byte* gradient = nullptr;   // gradient of this shard
  std::byte* scratch = nullptr;
  ops::HeadUpdate update;  // pointers and form; scalars come with the step
  bool updates = false;
  double* weight_squares = nullptr;
  double* bias_squares = nullptr;
  // For the folding of statistics.
  std::vector<const std::byte*> all_stats;  // index: shard; null: the shard is empty
  float* loss = nullptr;
  std::vector<ops::HeadHits> hits;
  std::map<NodeId, BestRows> best;  // key: the node that makes the list
  // For the summing of dX.
  const ops::HeadJoin* join_of_dx = nullptr;
  std::vector<ops::HeadDx> terms;  // in the order of their classes
  Bytes gradient_step = 0;         // for kSumDx: distance between subtrees
  float* feature_gradient = nullptr;
};

// Threads: any; at most one at a time for each stream of a device.
class HeadRunner {
 public:
  HeadRunner(const Module& module, const planner::Program& program, const Binder& binder, const HeadSet& heads,
             const ops::OptimizerForm& form);

  BoundHead bind(const planner::Instruction& instruction) const;
  // `grad_scale` multiplies the gradients of sweeps that update. Errors: kNonFinite if a loss is NaN or infinite.
  Status run(BoundHead& bound, const StepContext& step, double grad_scale, ops::Workers& workers) const;
  // Makes the prepared weights of a device's shards from their current weights.
  void prepare(const BoundMemory& memory, int device, ops::Workers& workers) const;

 private:
  void bind_operand(const planner::Operand& operand, BoundHead& bound) const;
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
