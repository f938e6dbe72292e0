// The class rows of a shard as head passes work on them: a tile at a time, dense and f32. A pass opens a tile, reads
// its rows and may change them, and closes it. How rows lie in memory, where their states and norms are, and how they
// are rounded is known here alone. Rows in f32 are worked on where they are; others are widened into the worker's
// slice. Calls for different tiles with different slices may run at once.
#pragma once

#include "ops/head.h"
#include "ops/head/kernels.h"
#include "ops/head/slice.h"

namespace xrun::ops {

// Classes [begin, begin + count) of a tile, numbered in the whole head.
struct TileClasses {
  int64_t begin = 0;
  int64_t count = 0;
};

// An open tile. Rows are [count, dim].
struct ClassTile {
  TileClasses classes;
  float* weight = nullptr;
  float* inverse = nullptr;  // 1 / norm of each row; null without cosine
  float* bias = nullptr;     // [count]; null without bias
  // From open_states on; null where the update has no such state.
  float* weight_states[2] = {nullptr, nullptr};
  float* bias_states[2] = {nullptr, nullptr};
};

// Adds `bytes` from `begin` on to what products bring nearer.
void add_range(HeadPrefetch& prefetch, const void* begin, int64_t bytes);

class ClassRows {
 public:
  // `update`: null in passes that change nothing.
  ClassRows(const HeadShape& shape, const HeadWeights& weights, const HeadUpdate* update)
      : shape_(shape), weights_(weights), update_(update) {}

  // REQUIRES: at most kHeadTileClasses classes of the shard.
  ClassTile open(TileClasses classes, const HeadSlice& slice) const;
  // Opens the states of an update as well.
  void open_states(ClassTile& tile, const HeadSlice& slice) const;
  // Ends the work on a tile whose weights and states were changed; its norms follow.
  void close(const ClassTile& tile, const HeadKernels& kernels) const;

  // Has the weights of a tile brought nearer, or the states of one whose weights are there.
  void prefetch_weights(TileClasses classes, HeadPrefetch& prefetch) const;
  void prefetch_states(TileClasses classes, HeadPrefetch& prefetch) const;

 private:
  int64_t row_of(TileClasses classes) const { return classes.begin - shape_.shard.begin; }
  int64_t weight_bytes() const { return shape_.dim * element_bytes(shape_.weights); }
  int64_t state_bytes() const { return shape_.dim * element_bytes(shape_.states); }
  void load(int64_t row, float* out) const;
  void store(const ClassTile& tile) const;

  const HeadShape& shape_;
  HeadWeights weights_;
  const HeadUpdate* update_;
};

}  // namespace xrun::ops
