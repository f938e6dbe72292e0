// Runs the instructions at the end of a step: they sum gradient partials, clip gradients, update weights and prepare
// them for kernels, and combine running statistics.
#pragma once

#include <vector>

#include "graph/layouts/compression.h"
#include "graph/module.h"
#include "ops/optimizer/optimizer.h"
#include "ops/optimizer/update_norms.h"
#include "ops/workers.h"
#include "planner/program/program.h"
#include "runtime/device/binding.h"
#include "runtime/device/cpu/kernels.h"
#include "runtime/device/tensor_update.h"

namespace xrun::runtime {

// A trained tensor of one replica that does not belong to a head.
struct BoundWeight {
  ParamId param;
  int64_t count = 0;
  int64_t row = 0;  // numbers in a row, if rows with a gradient of zero are not updated; else 0
  float* weight = nullptr;
  ops::UpdateStates states{};
  std::vector<float*> partials;  // gradient partials of this replica
  TensorUpdate rule;
  double* norms = nullptr;  // partial sums of squares of its gradient, for clipping
  // For an optimizer that uses norms of tensors: sums of squares [chunks, norms], and the norms in this step. For a
  // compressed gradient with a trust ratio: sums of squares [chunks] of the weight.
  std::vector<double> squares;
  std::vector<double> tensor_norms;
  // For a compressed gradient: the selected pairs of all senders. The pairs of the next sender begin `stride` later.
  const GradientPair* pairs = nullptr;
  int64_t stride = 0;
};

// A weight in the form that a kernel wants, and the plain weight from which it is computed.
struct BoundPrepare {
  const ops::Kernel* kernel = nullptr;
  int input = 0;
  ops::TensorView plain;
  std::byte* prepared = nullptr;
};

struct BoundFold {
  NodeId node;
  const ops::Kernel* kernel = nullptr;
  std::vector<ops::TensorView> inputs;
  std::vector<ops::TensorView> outputs;
};

// The slice of a gradient that a replica sums. `terms` has this slice of each replica in order, including its own.
struct BoundSum {
  std::vector<float*> terms;
  float* own = nullptr;
  int64_t count = 0;
};

// A kUpdate, kFoldPartials or kNorm instruction of one device, with the addresses of its operands.
struct BoundUpdate {
  std::vector<BoundWeight> weights;
  std::vector<BoundPrepare> prepares;
  std::vector<BoundFold> folds;
  std::byte* scratch = nullptr;  // working memory for preparing weights, a slice for each worker
  Bytes slice = 0;
};

// Threads: any; at most one at a time for each stream of a device.
class UpdateRunner {
 public:
  UpdateRunner(const Module& module, const planner::Program& program, const Binder& binder, const KernelSet& kernels,
               ops::Isa isa, const ops::OptimizerForm& form);

  BoundUpdate bind(const planner::Instruction& instruction) const;
  std::vector<BoundSum> bind_sums(const planner::Instruction& instruction) const;

  // Runs a kSumReplicas, which sums slices of gradients over the replicas, or a kSumTied, which sums a weight's
  // gradients over the nodes that read the weight. The results are stored in this replica's own memory.
  void sum(const std::vector<BoundSum>& sums, ops::Workers& workers) const;

  // Sums the partials of each gradient into its first partial.
  void fold_partials(const BoundUpdate& update, ops::Workers& workers) const;
  // Stores partial sums of squares of the summed gradients, for the norm.
  void add_squares(const BoundUpdate& update, ops::Workers& workers) const;
  // Updates and prepares weights, and combines running statistics. A gradient is read from its first partial, into
  // which the partials were summed; a compressed gradient is summed from its pairs. Gradients are multiplied by
  // `grad_scale`. The norms of tensors are stored in `update`.
  Status apply(BoundUpdate& update, const StepContext& step, double grad_scale, ops::Workers& workers) const;
  // Makes the prepared weights from the current weights.
  Status prepare(const BoundUpdate& update, ops::Workers& workers) const;

 private:
  void bind_operand(const planner::Operand& operand, BoundUpdate& update) const;
  BoundFold& fold_of(NodeId node, BoundUpdate& update) const;
  float rate_of_pairs(const BoundWeight& weight, const StepContext& step) const;
  void subtract_pairs(BoundUpdate& update, const StepContext& step, ops::Workers& workers) const;
  void find_norms(BoundUpdate& update, const StepContext& step, double grad_scale, ops::Workers& workers) const;

  ops::UpdateScalars scalars_of(const BoundWeight& weight, const StepContext& step, double grad_scale) const;

  const Module& module_;
  const planner::Program& program_;
  const Binder& binder_;
  const KernelSet& kernels_;
  ops::Isa isa_;
  ops::OptimizerForm form_;
  std::vector<ParamId> by_row_;  // params_updated_by_row
  double trust_;                 // factor of the trust ratio of lars, for compressed gradients; 0: no ratio
};

}  // namespace xrun::runtime
