// GpuHeadJoin: combines the results of the shards of a classifier head as launches, the counterpart of HeadJoin
// (ops/head/head.h) for GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/layouts/gpu_head.h"
#include "ops/gpu/launch/gpu_launch.h"
#include "ops/jit/gpu_loop.h"

namespace xrun::ops::gpu {

// The results that the combination of statistics computes, and the positions of their operands among the inputs of the
// launches, also for those that are written. Positions of operands that do not exist are not read.
struct GpuCombine {
  // A list of the k best classes of each row.
  struct Best {
    int64_t k = 0;
    bool by_class = false;  // all classes in ascending order, with NaN for logits that are NaN or minus infinity
  };

  bool labels = false;        // [rows] i32; required for losses and hits
  bool factors = false;       // [rows] f32
  bool softmax = true;        // written: [rows, 2] f32
  bool loss = false;          // written: [rows] f32
  bool checks_loss = false;   // sets bit 0 of the flag word if the loss of a row is not finite
  std::vector<int64_t> hits;  // written: [rows] f32 each; values of HeadHits::k
  std::vector<Best> best;     // written: classes [rows, k] i32 and logits [rows, k] f32 each

  static constexpr int kLabels = 0, kFactors = 1, kSoftmax = 2, kLoss = 3;
  int hit(size_t i) const { return 4 + static_cast<int>(i); }
  int best_classes(size_t i) const { return hit(hits.size()) + 2 * static_cast<int>(i); }
  int best_scores(size_t i) const { return best_classes(i) + 1; }
  // The statistics of a shard: head_stats_bytes.
  int stats(size_t shard) const { return best_classes(best.size()) + static_cast<int>(shard); }
};

class GpuHeadJoin {
 public:
  // `shape` and `shards` as for HeadJoin. REQUIRES: shape.gpu.
  GpuHeadJoin(const HeadShape& shape, std::vector<ClassRange> shards, GpuTarget target);

  // The launches of HeadJoin::combine_stats and HeadJoin::top_k. Scratch: gpu_join_scratch.
  std::vector<GpuLaunch> combine_stats(const GpuCombine& what) const;

  // The launches of HeadJoin::reduce_dx and HeadJoin::sum_dx for `rows` rows. `steps[r]`: distance in bytes between the
  // subtrees of shard r. Inputs: the features (unused by sum_dx), the result, then the dX partials of each shard.
  // Scratch: gpu_dx_scratch_bytes. The result of reduce_dx includes the scale of the loss.
  std::vector<GpuLaunch> reduce_dx(std::span<const Bytes> steps, int64_t rows) const;
  std::vector<GpuLaunch> sum_dx(std::span<const Bytes> steps, int64_t rows, Bytes step) const;
  static constexpr int kFeatures = 0, kSum = 1;
  static int dx(size_t shard) { return 2 + static_cast<int>(shard); }

 private:
  HeadShape shape_;
  HeadLayout layout_;
  std::vector<ClassRange> shards_;
  std::vector<std::vector<HeadFold>> folds_;
  GpuTarget target_;
};

}  // namespace xrun::ops::gpu
