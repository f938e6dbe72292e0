// GpuHeadPasses: the passes over a shard of a classifier head as launches, the counterpart of HeadPasses
// (ops/head/head.h) for GPUs. Results are those of the kernels of ops/gpu/head/ (docs/internals/gpu_kernels.md,
// "Heads"), with the same bits for every number of shards, rows of a pass, and classes or rows of a launch.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/layouts/gpu_head.h"
#include "ops/gpu/launch/gpu_launch.h"
#include "ops/jit/gpu_loop.h"
#include "ops/optimizer/optimizer.h"

namespace xrun::ops::gpu {

// The operands of passes. All of them are inputs of the launches, also those that are written; the addresses of
// operands that a pass does not use are not read. Formats are those of HeadRows, HeadWeights and HeadUpdate
// (ops/head/head_operands.h).
enum class GpuHeadOperand : int32_t {
  kFeatures,       // [rows, dim] f32 or bf16
  kLabels,         // [rows] i32
  kFactors,        // [rows] f32
  kSoftmax,        // [rows, 2] f32, from GpuHeadJoin
  kLogits,         // head_logits_bytes: of the blocks that are kept
  kStats,          // head_stats_bytes
  kDx,             // head_gradient_bytes
  kWeight,         // [shard rows, dim]
  kInverses,       // head_prepared_bytes: 1 / norm of each class row
  kBias,           // [shard rows] f32
  kWeightScalars,  // KnownScalars (ops/optimizer/update_scalars.h) of the weights, and those of the bias
  kBiasScalars,
  kGradScale,     // one f32 in place of KnownScalars::grad_scale
  kWeightStates,  // three operands: the states of `form`, then the running mean if it keeps one
  kBiasStates = kWeightStates + 3,
  kWeightSquares = kBiasStates + 3,  // [class blocks of the shard] f64
  kBiasSquares,
  kWeightGradient,  // [shard rows, dim] f32
  kBiasGradient,    // [shard rows] f32
  kCount
};

struct GpuHeadSweep;  // ops/gpu/launch/head/head_writer.h

// How a sweep updates the class rows. REQUIRES: the rule is sgd or adamw.
struct GpuHeadRule {
  OptimizerForm form;
  bool reads_scale = false;  // whether kGradScale exists
};

class GpuHeadPasses {
 public:
  // REQUIRES: shape.gpu; all classes are active, and no row catches up; class rows are f32 or bf16, features f32 or, if
  // products are in bf16, bf16. Plans for GPUs have no other heads (planner/check_gpus.cpp).
  GpuHeadPasses(const HeadShape& shape, GpuTarget target);

  // Writes kInverses from the weights: run after the weights were set or loaded. Updates keep the inverses up to date.
  std::vector<GpuLaunch> prepare() const;
  // Writes kStats, and kLogits if logits are kept. `labels`: whether the operand exists.
  std::vector<GpuLaunch> forward(bool labels) const;
  // Writes kDx and, with `update`, updates the class rows and their states, unless the flag word is not
  // zero when the update runs. The random numbers that round narrow rows are those of GpuCall's seed and step.
  // `factors`: whether the operand exists.
  std::vector<GpuLaunch> backward(bool factors, const GpuHeadRule* update) const;
  // Likewise only the update, with the gradient over all rows of the batch.
  std::vector<GpuLaunch> update(bool factors, const GpuHeadRule& by) const;
  // Writes kWeightSquares and kBiasSquares: the sums of squares of the gradients of each class block.
  std::vector<GpuLaunch> gradient_norms(bool factors) const;
  // Writes the gradients of the rows, kWeightGradient and kBiasGradient.
  std::vector<GpuLaunch> gradients(bool factors) const;

  const HeadShape& shape() const { return shape_; }
  // The scratch of the launches has head_scratch_bytes(shape, pass) bytes; that of gradient_norms and gradients is the
  // scratch of the update.

 private:
  std::vector<GpuLaunch> sweep(const GpuHeadSweep& what) const;

  HeadShape shape_;
  GpuHeadLayout layout_;
  GpuTarget target_;
};

}  // namespace xrun::ops::gpu
