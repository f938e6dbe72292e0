// The class rows of a shard as head passes work on them: a tile at a time, dense and f32. A pass opens a tile, reads
// its rows and may change them, and closes it. How rows lie in memory, where their states and norms are, and how they
// are rounded is known here alone, and so are the steps that rows have missed. Rows in f32 are worked on where they
// are; others are widened, or caught up, in the worker's slice. Calls for different tiles with different slices may run
// at once.
#pragma once

#include <algorithm>

#include "graph/base/check.h"
#include "ops/head.h"
#include "ops/head/kernels.h"
#include "ops/head/slice.h"

namespace xrun::ops {

// Classes [begin, begin + count) of a tile, by their number in the pass: in the whole head, or among the active ones.
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
  // `update`: null in passes that change nothing; `active`: null where all classes take part.
  ClassRows(const HeadShape& shape, const HeadKernels& kernels, const HeadWeights& weights, const HeadUpdate* update,
            const ActiveClasses* active)
      : shape_(shape), kernels_(kernels), weights_(weights), update_(update), active_(active) {
    XRUN_CHECK(!catches_up() || shape.untouched == Untouched::kExact, "the slices of a shape hold rows that catch up");
  }

  // The shard's row of a class.
  int64_t row(int64_t number) const {
    return (active_ == nullptr ? number : active_->classes[number]) - shape_.shard.begin;
  }
  // REQUIRES: at most kHeadTileClasses classes of the shard.
  ClassTile open(TileClasses classes, const HeadSlice& slice) const;
  // Opens the states of an update as well.
  void open_states(ClassTile& tile, const HeadSlice& slice) const;
  // Ends the work on a tile whose weights and states were changed; its norms follow.
  void close(const ClassTile& tile) const;

  // Has the weights of a tile brought nearer, or the states of one whose weights are there.
  void prefetch_weights(TileClasses classes, HeadPrefetch& prefetch) const;
  void prefetch_states(TileClasses classes, HeadPrefetch& prefetch) const;

 private:
  bool catches_up() const { return weights_.catch_up.steps != nullptr; }
  // Whether what a tile has of each row is a copy: rows lie apart, or are not as they lie.
  bool copies() const { return active_ != nullptr || catches_up(); }
  // Whether rows, or states, are worked on where they lie.
  bool in_place(RowFormat format) const { return format == RowFormat::kF32 && !copies(); }
  int64_t tile_rows() const { return std::min(shape_.blocks.size, kHeadTileClasses); }
  std::byte* weight_at(int64_t row) const { return weights_.weight + row * shape_.dim * element_bytes(shape_.weights); }
  std::byte* state_at(int i, int64_t row) const {
    return update_->weight_states[i] + row * shape_.dim * element_bytes(shape_.states);
  }
  const std::byte* velocity() const { return reinterpret_cast<const std::byte*>(weights_.catch_up.velocity); }
  const std::byte* last() const { return reinterpret_cast<const std::byte*>(weights_.catch_up.last); }
  float* open_vector(float* values, TileClasses classes, int64_t part, const HeadSlice& slice) const;
  void close_vector(float* values, TileClasses classes, const float* vector) const;
  void prefetch(TileClasses classes, const std::byte* rows, RowFormat format, HeadPrefetch& prefetch) const;
  void ask_for(TileClasses classes, const std::byte* rows, int64_t bytes) const;
  void load(int64_t row, float* out) const;
  void catch_up(ClassTile& tile) const;
  void catch_up_states(ClassTile& tile) const;
  void store(const ClassTile& tile) const;

  const HeadShape& shape_;
  const HeadKernels& kernels_;
  HeadWeights weights_;
  const HeadUpdate* update_;
  const ActiveClasses* active_;
};

}  // namespace xrun::ops
