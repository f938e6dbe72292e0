// The class rows of a shard in the form in which head passes use them: one tile at a time, dense and f32. A pass opens
// a tile, reads its rows and may change them, and closes it. No other code depends on how rows, states and norms lie in
// memory, how they are rounded, and which steps rows have missed. If rows are f32, all classes take part and no row
// catches up, rows are used in place. Otherwise they are copied to the worker's slice, where they are widened to f32
// and caught up. Calls for different tiles may run at once if their slices differ.
#pragma once

#include <algorithm>

#include "graph/base/check.h"
#include "ops/head/head.h"
#include "ops/head/loops/kernels.h"
#include "ops/head/slice.h"

namespace xrun::ops {

// Classes [begin, begin + count) of a tile, by their number in the pass: the number in the whole head, or among the
// active classes if there are any.
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
  // The states of the update, set by open_states; null if the update has no such state.
  UpdateStates weight_states{};
  UpdateStates bias_states{};
};

// Adds the `bytes` bytes from `begin` on to the memory that the next matrix products prefetch.
void add_range(HeadPrefetch& prefetch, const void* begin, int64_t bytes);

class ClassRows {
 public:
  // `update`: null in passes that change nothing; `active`: null if all classes take part.
  ClassRows(const HeadShape& shape, const HeadKernels& kernels, const HeadWeights& weights, const HeadUpdate* update,
            const ActiveClasses* active)
      : shape_(shape), kernels_(kernels), weights_(weights), update_(update), active_(active) {
    XRUN_CHECK(!catches_up() || shape.untouched == Untouched::kExact, "the slices of a shape hold rows that catch up");
  }

  // Returns the index in the shard of the row of the class that has this number in the pass.
  int64_t row(int64_t number) const {
    return (active_ == nullptr ? number : active_->classes[number]) - shape_.shard.begin;
  }
  // REQUIRES: at most kHeadTileClasses classes of the shard.
  ClassTile open(TileClasses classes, const HeadSlice& slice) const;
  // Adds the states of an update to an open tile.
  void open_states(ClassTile& tile, const HeadSlice& slice) const;
  // Stores an open tile whose weights and states were changed, and computes its norms again.
  void close(const ClassTile& tile) const;

  // Prefetches the weights of a tile, or the states of a tile whose weights were prefetched before.
  void prefetch_weights(TileClasses classes, HeadPrefetch& prefetch) const;
  void prefetch_states(TileClasses classes, HeadPrefetch& prefetch) const;

 private:
  bool catches_up() const { return weights_.catch_up.steps != nullptr; }
  // Whether tiles hold copies of rows, because the rows are scattered or catch up.
  bool copies() const { return active_ != nullptr || catches_up(); }
  // Whether tiles use weights or states of this format in place.
  bool in_place(RowFormat format) const { return format == RowFormat::kF32 && !copies(); }
  size_t states() const { return static_cast<size_t>(update_->form.kept_states()); }
  int64_t tile_rows() const { return std::min(shape_.blocks.size, kHeadTileClasses); }
  std::byte* weight_at(int64_t row) const { return weights_.weight + row * shape_.dim * element_bytes(shape_.weights); }
  std::byte* state_at(size_t i, int64_t row) const {
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
