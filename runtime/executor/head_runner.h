// Head passes: the instructions of a sharded head as calls of ops/head.h on the buffers that the program names.
#pragma once

#include <vector>

#include "graph/module.h"
#include "ops/head.h"
#include "planner/program.h"
#include "runtime/executor/binding.h"
#include "runtime/executor/bound_memory.h"
#include "runtime/executor/head_set.h"
#include "runtime/executor/norm_layout.h"
#include "runtime/executor/stage_runner.h"
#include "runtime/executor/update_rule.h"

namespace xrun::runtime {

// Rows that lie in a buffer, or in the loader's slot of the step.
struct RowsAt {
  int32_t input = -1;
  std::byte* base = nullptr;
  Bytes offset = 0;

  std::byte* at(const StepContext& step) const {
    return input < 0 ? base : step.inputs[static_cast<size_t>(input)] + offset;
  }
};

// The k best classes of each row and their logits, [rows, k].
struct BestRows {
  int64_t k = 0;
  int32_t* classes = nullptr;
  float* scores = nullptr;
};

// A pass of one shard, or the folding of statistics on one device.
struct BoundHead {
  const ops::HeadPasses* passes = nullptr;  // null: a shard without rows
  int64_t rows = 0;
  RowsAt features;
  RowsAt labels;  // absent when base and input are
  ops::RowSoftmax* softmax = nullptr;
  ops::HeadWeights weights;
  std::byte* stats = nullptr;     // of this shard
  std::byte* gradient = nullptr;  // of this shard
  std::byte* scratch = nullptr;
  ops::HeadUpdate update;  // pointers and form; scalars come with the step
  bool updates = false;
  double* weight_squares = nullptr;
  double* bias_squares = nullptr;
  // kReduceStats
  std::vector<const std::byte*> all_stats;  // by shard
  float* loss = nullptr;
  std::vector<ops::HeadHits> hits;
  std::vector<BestRows> best;
};

class HeadRunner {
 public:
  HeadRunner(const Module& module, const planner::Program& program, const BoundMemory& memory, const Binder& binder,
             const HeadSet& heads, const NormLayout& norms, const ops::OptimizerForm& form);

  BoundHead bind(const planner::Instruction& instruction) const;
  // `grad_scale`: of sweeps that update. Errors: kNonFinite when a loss is NaN or infinite.
  Status run(const planner::Instruction& instruction, BoundHead& bound, const StepContext& step, double grad_scale,
             ops::Workers& workers) const;
  // Makes the prepared weights of all shards from the weights as they are.
  void prepare(ops::Workers& workers) const;

 private:
  void bind_weights(const planner::HeadPlan& head, int shard, BoundHead& bound) const;
  void bind_results(const planner::Instruction& instruction, const planner::HeadPlan& head, BoundHead& bound) const;
  RowsAt rows_at(const planner::Instruction& instruction, const planner::HeadPlan& head, ValueId value,
                 bool whole_batch) const;
  Status check_loss(const planner::Instruction& instruction, const BoundHead& bound, const StepContext& step) const;

  const Module& module_;
  const planner::Program& program_;
  const BoundMemory& memory_;
  const Binder& binder_;
  const HeadSet& heads_;
  const NormLayout& norms_;
  ops::OptimizerForm form_;
};

}  // namespace xrun::runtime
