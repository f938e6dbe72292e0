// The sharded classifier head: exact softmax and margins over blocks of classes, without storing all logits. A pass
// over h gathered rows has these steps, in the order of docs/internals/algorithms.md, "Head pass":
//   forward    on each shard: computes the statistics of its subtrees of class blocks
//   combine    on any process: computes log-sum-exp, loss and hits of each row from the statistics of all shards
//   backward   on each shard: computes dX partials of its subtrees, and if h is the whole batch, updates its rows
//   sum_dx     optional, on any process: adds the dX partials of neighbouring shards
//   reduce_dx  on any process: computes the gradient of the features from the dX partials of all shards
//   update     if h < batch, on each shard at the end of the step: computes dW over the whole batch, updates the rows
// All results have the same bits for every number of shards, workers, and rows per pass (docs/internals/determinism.md,
// "Class blocks" to "Head sweeps"). Only constructors allocate memory, and `prepare` if rows have narrow formats.
// Buffers have the sizes that graph/layouts/head_shape.h gives and are aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/layouts/head_folds.h"
#include "ops/head/head_operands.h"
#include "ops/simd/isa.h"
#include "ops/workers.h"

namespace xrun::ops {

struct HeadKernels;  // ops/head/loops/kernels.h

// The passes over one shard, for one shape and instruction set. Immutable after construction; calls on different
// buffers may run at once.
class HeadPasses {
 public:
  HeadPasses(const HeadShape& shape, Isa isa);

  // Fills weights.prepared: call once after the weights were set or loaded; updates also update weights.prepared.
  void prepare(const HeadWeights& weights, Workers& workers) const;

  // Writes the statistics of the shard's subtrees. stats: head_stats_bytes; scratch: head_scratch_bytes(kForward).
  void forward(const HeadRows& rows, const HeadWeights& weights, std::byte* stats, std::byte* scratch,
               Workers& workers) const;

  // Computes the gradients of the logits; logits of tiles that were not kept are computed again. Writes dX partials
  // (head_gradient_bytes) and, if `update` is given, updates each row once its gradient is complete. scratch:
  // head_scratch_bytes(kBackward).
  void backward(const HeadRows& rows, const HeadWeights& weights, std::byte* gradient, const HeadUpdate* update,
                std::byte* scratch, Workers& workers) const;

  // Computes dW over all rows of the batch and updates the shard's rows. scratch: head_scratch_bytes(kUpdate).
  // REQUIRES: shape.rows is the batch.
  void update(const HeadRows& rows, const HeadWeights& weights, const HeadUpdate& update, std::byte* scratch,
              Workers& workers) const;

  // For clip = norm(x, heads=true): sums the squares of the gradients like `update` would compute them, but changes no
  // row. The sums are f64, one per class block of the shard: of dW, and of the bias gradient (null without bias). The
  // caller then calls `update` with grad_scale set.
  void gradient_norms(const HeadRows& rows, const HeadWeights& weights, double* weight_squares, double* bias_squares,
                      std::byte* scratch, Workers& workers) const;

  // Computes the plain gradients of the rows of the shard, [shard rows, dim] and [shard rows], for tests and gradient
  // checks.
  void gradients(const HeadRows& rows, const HeadWeights& weights, float* weight_gradient, float* bias_gradient,
                 std::byte* scratch, Workers& workers) const;

  const HeadShape& shape() const { return shape_; }

 private:
  struct Sweep;  // parameters and results of a backward sweep
  void sweep(const HeadRows& rows, const HeadWeights& weights, const Sweep& what, std::byte* scratch,
             Workers& workers) const;

  HeadShape shape_;
  HeadLayout layout_;
  Isa isa_;
  const HeadKernels* kernels_;
};

// The hits of all rows, f32[h], that combine_stats computes for one metric.
struct HeadHits {
  int64_t k = 1;         // number of best logits that count; at most the shape's top_k
  float* hit = nullptr;  // 1 if the label is among the k best logits (before the margin; ties to the lower class)
};

// The dX partials of a shard for some rows: the address in its first subtree, and the distance in bytes to the next
// subtree.
struct HeadDx {
  const std::byte* data = nullptr;  // null for a shard without rows
  Bytes step = 0;
};

// Combines the results of shards of one head. Immutable; calls on different buffers may run at once.
class HeadJoin {
 public:
  // `shape.shard` is not read. `shards` are the class rows of the shards in ascending order; some may be empty. They
  // must cover all classes, except for sum_dx, for which classes before the first shard and after the last one may be
  // missing.
  HeadJoin(const HeadShape& shape, std::vector<ClassRange> shards, Isa isa);

  // Computes softmax, loss and hits of each row. stats[r] is the result of HeadPasses::forward of shard r (null for an
  // empty shard). If a logit of a row is NaN, its loss is NaN and it has no hit, with or without a target. For `labels`
  // and `factors` see HeadRows. `active` is the number of active classes of the head, or 0 if all classes take part.
  void combine_stats(std::span<const std::byte* const> stats, const int32_t* labels, const float* factors,
                     RowSoftmax* softmax, float* loss, std::span<const HeadHits> hits, int64_t active = 0) const;

  // Finds the k <= top_k best classes of each row, best first, and their logits. Both results are [h, k].
  void top_k(std::span<const std::byte* const> stats, int64_t k, int32_t* classes, float* scores) const;

  // Computes the gradient of the features of `rows` rows, which are whole row blocks. For cosine heads it includes the
  // gradient of the normalisation.
  //   gradients[r]  dX partials of these rows from shard r: from HeadPasses::backward, or from sum_dx if `shards[r]`
  //                 contains several shards (graph/layouts/head_shape.h, head_gradient_rows)
  //   features      the features of these rows
  //   scale         a factor on the result: the scale of the loss in `mixed(f16)`, a power of two
  //   out           [rows, dim]: scale * d(objective) / d(feature)
  void reduce_dx(std::span<const HeadDx> gradients, const std::byte* features, int64_t rows, float scale,
                 float* out) const;

  // Adds the dX partials of neighbouring shards for `rows` rows, which are whole row blocks. The result has the
  // subtrees of the blocks of all these shards together.
  //   gradients[r]  as for reduce_dx
  //   out           the result for the first subtree; the result for each next subtree follows `step` bytes later
  void sum_dx(std::span<const HeadDx> gradients, int64_t rows, float* out, Bytes step) const;

 private:
  void sum_columns(std::span<const HeadDx> gradients, std::span<const HeadFold> folds, int64_t first, int64_t count,
                   float* sum) const;

  HeadShape shape_;
  HeadLayout layout_;
  std::vector<ClassRange> shards_;
  std::vector<std::vector<HeadFold>>
      folds_;  // steps of the sum for each combined subtree; one subtree over all classes
  bool has_all_classes_ = false;
  Isa isa_;
};

}  // namespace xrun::ops
