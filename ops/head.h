// The sharded classifier head: exact softmax and margins over class blocks without logits. A pass over h gathered rows,
// in the order of docs/internals/algorithms.md, "Head pass":
//   forward    on each shard: statistics of its subtrees of class blocks
//   combine    anywhere: all shards' statistics -> log-sum-exp, loss, hits of each row
//   backward   on each shard: dX partials of its subtrees; with h = batch the update of its rows as well
//   sum_dx     anywhere, or not at all: partials of neighbouring shards -> those of their subtrees together
//   reduce_dx  anywhere: all shards' partials -> gradient of the features
//   update     with h < batch, on each shard at the end of the step: dW and update over all rows of the batch
// All results have the same bits for every number of shards, workers, and rows per pass (docs/internals/determinism.md,
// "Class blocks" to "Head sweeps"). Only constructors allocate, and `prepare` for rows in narrow formats; buffers have
// the sizes that graph/head_shape.h gives, aligned to 64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/head_shape.h"
#include "ops/isa.h"
#include "ops/optimizer.h"
#include "ops/workers.h"

namespace xrun::ops {

struct HeadKernels;  // ops/head/kernels.h
class IdleSteps;     // ops/head/catch_up.h

// The softmax of one row: p(class) = exp(z - max) * inverse_sum.
struct RowSoftmax {
  float max = 0;
  float inverse_sum = 0;
};

// The active classes of a shard in a step, numbered in ascending order of block, and of class within a block.
struct ActiveClasses {
  const int32_t* offsets = nullptr;  // [blocks of the shard + 1]: number of the first class of each block
  const int32_t* classes = nullptr;  // [offsets[blocks]]: the class of the head with each number
  int64_t all = 0;                   // active classes of the whole head
  int64_t near = 0;                  // those of them that come from the lists of the targets
  // [offsets[blocks]]: added to the scaled logits of a class in rows with another target; null: nothing.
  const float* corrections = nullptr;
};

// Rows of one pass (or, for `update`, of the whole batch), row-major [rows, dim], f32 or bf16 according to the shape.
struct HeadRows {
  const std::byte* features = nullptr;
  // Null: no labels (predict). A row whose label is outside 0..C-1 has loss and gradient 0, and no hit.
  const int32_t* labels = nullptr;
  const RowSoftmax* softmax = nullptr;  // from combine_stats; not read by forward
  const float* factors = nullptr;       // for the loss of each row; null: 1. Not read by forward
  // head_logits_bytes: forward writes the logits of the kept blocks, backward reads them; other sweeps do not use them.
  std::byte* logits = nullptr;
  // With shape.active, the active classes of the step (ops/head/select_classes.h); else null.
  const ActiveClasses* active = nullptr;
};

// With shape.untouched = kExact, rows that steps do not use change as in training of all classes. A pass opens a row in
// the state in which the steps since its last update would have left it with a gradient of zero; only an update stores
// the row, and the number of its step.
struct HeadCatchUp {
  const IdleSteps* steps = nullptr;      // advanced to the current step; null: rows are used as stored
  int32_t* last = nullptr;               // [shard rows]: the last step that updated a row; -1: no step
  const float* velocity = nullptr;       // HeadUpdate::weight_states[0]
  const float* bias_velocity = nullptr;  // HeadUpdate::bias_states[0]; null without bias
  double weight_factor = 1;              // (rate of the weights) / (that of `steps`)
  double bias_factor = 1;
};

// A shard's class rows.
struct HeadWeights {
  std::byte* weight = nullptr;  // [shard rows, dim] in the shape's format
  float* scales = nullptr;      // [shard rows] for fp8 rows, else null
  float* bias = nullptr;        // [shard rows]; null without bias
  float* prepared = nullptr;    // head_prepared_bytes: 1 / norm of rows as stored; null when that is 0
  HeadCatchUp catch_up;
};

// Determines how a sweep updates a shard's rows with the gradients of its tiles. `form` has the number of states: those
// of weights are in the shape's format, those of the bias in f32. Rows in narrow formats are rounded by random numbers
// of (seed, step, class).
struct HeadUpdate {
  OptimizerForm form;
  UpdateScalars weight;
  UpdateScalars bias;
  std::array<std::byte*, kMostKeptStates> weight_states{};  // [shard rows, dim]
  UpdateStates bias_states{};                               // [shard rows]
  uint64_t seed = 0;
  int64_t step = 0;
};

// Passes of one shard, for one shape and instruction set. Immutable after construction; calls on different buffers may
// run at once.
class HeadPasses {
 public:
  HeadPasses(const HeadShape& shape, Isa isa);

  // Fills weights.prepared: call once after the weights were set or loaded; updates keep it up to date.
  void prepare(const HeadWeights& weights, Workers& workers) const;

  // Writes the statistics of the shard's subtrees. stats: head_stats_bytes; scratch: head_scratch_bytes(kForward).
  void forward(const HeadRows& rows, const HeadWeights& weights, std::byte* stats, std::byte* scratch,
               Workers& workers) const;

  // Recomputes the logits of tiles that are not kept; writes dX partials (head_gradient_bytes) and, with `update`,
  // updates each row once its gradient is complete. scratch: head_scratch_bytes(kBackward).
  void backward(const HeadRows& rows, const HeadWeights& weights, std::byte* gradient, const HeadUpdate* update,
                std::byte* scratch, Workers& workers) const;

  // Computes dW over all rows of the batch and updates the shard's rows. scratch: head_scratch_bytes(kUpdate).
  // REQUIRES: shape.rows is the batch.
  void update(const HeadRows& rows, const HeadWeights& weights, const HeadUpdate& update, std::byte* scratch,
              Workers& workers) const;

  // For clip = norm(x, heads=true): like `update`, but changes no row. Sums the squares of dW in f64 per class block of
  // the shard, and those of the bias (null without bias). `update` follows, with grad_scale set.
  void gradient_norms(const HeadRows& rows, const HeadWeights& weights, double* weight_squares, double* bias_squares,
                      std::byte* scratch, Workers& workers) const;

  // The plain gradients of the shard's rows, [shard rows, dim] and [shard rows]: for tests and gradient checks.
  void gradients(const HeadRows& rows, const HeadWeights& weights, float* weight_gradient, float* bias_gradient,
                 std::byte* scratch, Workers& workers) const;

  const HeadShape& shape() const { return shape_; }

 private:
  struct Sweep;  // says how a backward sweep uses the gradient of a tile
  void sweep(const HeadRows& rows, const HeadWeights& weights, const Sweep& what, std::byte* scratch,
             Workers& workers) const;

  HeadShape shape_;
  HeadLayout layout_;
  Isa isa_;
  const HeadKernels* kernels_;
};

// The hits of all rows, f32[h], that combine_stats computes for one metric.
struct HeadHits {
  int64_t k = 1;         // at most the shape's top_k
  float* hit = nullptr;  // 1 if the label is among the k best logits (before the margin; ties to the lower class)
};

// Rows of a shard's dX partials: the address in its first subtree, and the distance in bytes to the next subtree.
struct HeadDx {
  const std::byte* data = nullptr;  // null: a shard without rows
  Bytes step = 0;
};

// Combines the results of shards of one head. Immutable; calls on different buffers may run at once.
class HeadJoin {
 public:
  // `shape.shard` is not read; `shards` are the class rows of shards in order, some may be empty. Only sum_dx allows
  // them to leave out classes before the first and after the last of them.
  HeadJoin(const HeadShape& shape, std::vector<ClassRange> shards, Isa isa);

  // Computes softmax, loss and hits of each row. stats[r] is the result of HeadPasses::forward of shard r (null for an
  // empty one). A row with a NaN among its logits has a NaN loss and no hit, with or without a target. `labels` and
  // `factors`: see HeadRows. `active`: the number of active classes of the head, or 0 if all take part.
  void combine_stats(std::span<const std::byte* const> stats, const int32_t* labels, const float* factors,
                     RowSoftmax* softmax, float* loss, std::span<const HeadHits> hits, int64_t active = 0) const;

  // The k <= top_k best classes of each row, best first, and their logits: [h, k].
  void top_k(std::span<const std::byte* const> stats, int64_t k, int32_t* classes, float* scores) const;

  // Computes the gradient of the features of `rows` rows, whole row blocks, through the normalisation of cosine heads.
  //   gradients[r]  dX partials of those rows of shard r, from HeadPasses::backward, or from sum_dx if `shards[r]` is
  //                 several shards together (graph/head_shape.h, head_gradient_rows)
  //   features      those of the rows
  //   out           [rows, dim]; d(objective)/d(feature)
  void reduce_dx(std::span<const HeadDx> gradients, const std::byte* features, int64_t rows, float* out) const;

  // Sums dX partials of `rows` rows, whole row blocks, to those of the subtrees of all shards' blocks together.
  //   gradients[r]  as for reduce_dx
  //   out           result of the first subtree; those of the next ones follow every `step` bytes
  void sum_dx(std::span<const HeadDx> gradients, int64_t rows, float* out, Bytes step) const;

 private:
  // A step of the fold on a stack: the subtree of a shard is pushed, or the two topmost results are added.
  struct Fold {
    int shard = -1;  // -1: add
    int64_t subtree = 0;
  };
  void sum_columns(std::span<const HeadDx> gradients, std::span<const Fold> folds, int64_t first, int64_t count,
                   float* sum) const;

  HeadShape shape_;
  HeadLayout layout_;
  std::vector<ClassRange> shards_;
  std::vector<std::vector<Fold>> folds_;  // index: subtree of all shards' blocks; just one over all classes
  bool has_all_classes_ = false;
  Isa isa_;
};

}  // namespace xrun::ops
