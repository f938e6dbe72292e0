// Compresses the gradients of a sender (a replica or a node) by momentum, residual and selection, tensor by tensor
// (docs/internals/algorithms.md, "Gradient compression").
#pragma once

#include <vector>

#include "graph/module.h"
#include "ops/optimizer/optimizer.h"
#include "ops/reduce/top_k.h"
#include "ops/workers.h"
#include "planner/program/program.h"
#include "runtime/device/backend.h"
#include "runtime/device/binding.h"
#include "runtime/device/tensor_update.h"

namespace xrun::runtime {

// A tensor of one sender whose gradient is compressed.
struct CompressedWeight {
  ParamId param;
  int64_t count = 0;
  const float* gradient = nullptr;  // partial 0, into which all partials and replicas of the sender were summed
  const float* weight = nullptr;
  float* velocity = nullptr;
  float* residual = nullptr;
  GradientPair* pairs = nullptr;  // the selected gradient pairs of this sender
  TensorUpdate rule;
  std::vector<double> squares;  // sum of squares of each chunk, for clip = norm
};

// A kCompress instruction with the addresses of its operands and its working memory.
struct BoundCompress {
  std::vector<CompressedWeight> weights;
  ops::TopK selection;
};

// Threads: any; at most one at a time for a BoundCompress.
class CompressRunner {
 public:
  // All arguments outlive the runner.
  CompressRunner(const Module& module, const planner::Program& program, const Binder& binder, ops::Isa isa,
                 const ops::OptimizerForm& form);

  BoundCompress bind(const planner::Instruction& instruction) const;
  // Errors: kNonFinite XG0810, a gradient without a finite norm, if the run clips by norm.
  Status run(BoundCompress& compress, const StepContext& step, ops::Workers& workers) const;

 private:
  Result<double> clip_scale(CompressedWeight& weight, const StepContext& step, ops::Workers& workers) const;

  const Module& module_;
  const planner::Program& program_;
  const Binder& binder_;
  ops::Isa isa_;
  ops::OptimizerForm form_;
};

}  // namespace xrun::runtime
