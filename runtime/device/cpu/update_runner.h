// The end of a step: partials are folded, gradients clipped, weights updated and prepared, running statistics folded.
#pragma once

#include <vector>

#include "graph/module.h"
#include "ops/optimizer.h"
#include "ops/trust_ratio.h"
#include "ops/workers.h"
#include "planner/program.h"
#include "runtime/device/cpu/binding.h"
#include "runtime/device/cpu/kernels.h"
#include "runtime/device/cpu/update_rule.h"

namespace xrun::runtime {

// A trained tensor outside of heads, on one replica.
struct BoundWeight {
  ParamId param;
  int64_t count = 0;
  float* weight = nullptr;
  float* states[2] = {nullptr, nullptr};
  std::vector<float*> partials;  // of this replica
  UpdateRule rule;
  double* norms = nullptr;  // its partial sums of squares
  // Of a kUpdate with lars or lamb, where the tensor has a trust ratio: sums by chunk, and the ratio of this step.
  std::vector<ops::TrustSums> trust_sums;
  float trust_ratio = 1;
};

// A weight in the form that a kernel wants.
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

// The slice of a gradient that a replica sums: of each replica in order, its own among them.
struct BoundSum {
  std::vector<float*> terms;
  float* own = nullptr;
  int64_t count = 0;
};

// A kUpdate, kFoldPartials or kNorm of one device.
struct BoundUpdate {
  std::vector<BoundWeight> weights;
  std::vector<BoundPrepare> prepares;
  std::vector<BoundFold> folds;
  std::byte* scratch = nullptr;  // a slice a worker, for preparing
  Bytes slice = 0;
};

// Threads: any; no two for the same stream of a device at once.
class UpdateRunner {
 public:
  UpdateRunner(const Module& module, const planner::Program& program, const Binder& binder, const KernelSet& kernels,
               ops::Isa isa, const ops::OptimizerForm& form);

  BoundUpdate bind(const planner::Instruction& instruction) const;
  std::vector<BoundSum> bind_sums(const planner::Instruction& instruction) const;

  // Sums the slices of a kSumReplicas, each into the own one.
  void sum_replicas(const std::vector<BoundSum>& sums, ops::Workers& workers) const;

  // Folds the partials of each weight into its first partial.
  void fold_partials(const BoundUpdate& update, ops::Workers& workers) const;
  // Partial sums of squares of the folded gradients.
  void add_squares(const BoundUpdate& update, ops::Workers& workers) const;
  // Updates, prepares and folds states. Gradients lie folded in the first partial and are multiplied by `grad_scale`.
  // Trust ratios are left in `update`.
  Status apply(BoundUpdate& update, const StepContext& step, double grad_scale, ops::Workers& workers) const;
  // Makes the prepared forms from the weights as they are.
  Status prepare(const BoundUpdate& update, ops::Workers& workers) const;

 private:
  void bind_operand(const planner::Operand& operand, BoundUpdate& update) const;
  BoundFold& fold_of(NodeId node, BoundUpdate& update) const;
  void find_trust_ratios(BoundUpdate& update, const StepContext& step, double grad_scale, ops::Workers& workers) const;

  const Module& module_;
  const planner::Program& program_;
  const Binder& binder_;
  const KernelSet& kernels_;
  ops::Isa isa_;
  ops::OptimizerForm form_;
};

}  // namespace xrun::runtime
