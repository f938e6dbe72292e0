// The class rows of a shard as head passes work on them: a tile at a time, dense and f32. A pass opens a tile, reads
// its rows and may change them, and closes it; that rows lie in one array, and where their states and norms are, is
// known here alone. Calls for different tiles may run at once.
#pragma once

#include "ops/head.h"
#include "ops/head/kernels.h"

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
  // Of the update, null without one or where it has no such state.
  float* weight_states[2] = {nullptr, nullptr};
  float* bias_states[2] = {nullptr, nullptr};
};

// Adds `count` elements from `begin` on to what products bring nearer.
void add_range(HeadPrefetch& prefetch, const float* begin, int64_t count);

class ClassRows {
 public:
  // `update`: null in passes that change nothing.
  ClassRows(const HeadShape& shape, const HeadWeights& weights, const HeadUpdate* update)
      : cosine_(shape.form.cosine), dim_(shape.dim), first_(shape.shard.begin), weights_(weights), update_(update) {}

  // REQUIRES: at most kHeadTileClasses classes of the shard.
  ClassTile open(TileClasses classes) const;
  // Has the weights of a tile brought nearer, or the states of one whose weights are there.
  void prefetch_weights(TileClasses classes, HeadPrefetch& prefetch) const;
  void prefetch_states(TileClasses classes, HeadPrefetch& prefetch) const;
  // Ends the work on a tile whose weights were changed: its norms follow.
  void close(const ClassTile& tile, const HeadKernels& kernels) const;

 private:
  bool cosine_;
  int64_t dim_;
  int64_t first_;  // class of the shard's first row
  HeadWeights weights_;
  const HeadUpdate* update_;
};

}  // namespace xrun::ops
