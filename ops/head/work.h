// What the passes of a shard have in common: the places of working memory, tiles of logits, and the fold of partial
// results. A pass walks tasks (aligned subtrees of class blocks) in parallel; inside a task, class block by class
// block; inside a block, tile by tile of classes; inside a tile, run by run of rows.
#pragma once

#include <algorithm>
#include <functional>

#include "ops/head.h"
#include "ops/head/kernels.h"

namespace xrun::ops {

// By reference: a std::function that owns so large a body would allocate.
template <typename Body>
void share_out(Workers& workers, int64_t items, const Body& body) {
  workers.for_each(items, std::cref(body));
}

// kSteep and kCosine: see add_steep.
enum RowPlane { kLabel, kTarget, kMax, kFactor, kSmooth, kSteep, kCosine };

// One worker's working memory.
struct HeadSlice {
  uint32_t* logit_weights = nullptr;
  uint32_t* gradient_weights = nullptr;
  float* logits = nullptr;
  uint32_t* pairs = nullptr;
  float* weight_gradient = nullptr;
  float* bias_lanes = nullptr;
  std::byte* partials = nullptr;
};

// Classes [begin, begin + count) of a tile.
struct TileClasses {
  int64_t begin = 0;
  int64_t count = 0;
};

// What all workers of a pass share.
struct HeadWork {
  HeadWork(const HeadShape& of, const HeadLayout& l, const HeadKernels& k, HeadPass kind, const HeadRows& r,
           const HeadWeights& w, std::byte* scratch)
      : shape(of), layout(l), kernels(k), at(head_scratch(of, l, kind)), rows(r), weights(w), base(scratch) {}

  const HeadShape& shape;
  const HeadLayout& layout;
  const HeadKernels& kernels;
  const HeadScratch at;
  const HeadRows& rows;
  const HeadWeights& weights;
  std::byte* base;

  template <typename T>
  T* part(Bytes offset) const {
    return reinterpret_cast<T*>(base + offset);
  }
  float* plane(RowPlane which) const { return part<float>(at.row_values) + which * layout.rows_padded; }
  int32_t* labels() const { return reinterpret_cast<int32_t*>(plane(kLabel)); }
  HeadSlice slice(int worker) const {
    const Bytes start = at.workers + worker * at.worker_bytes;
    return {part<uint32_t>(start + at.logit_weights),
            part<uint32_t>(start + at.gradient_weights),
            part<float>(start + at.logits),
            part<uint32_t>(start + at.pairs),
            part<float>(start + at.weight_gradient),
            part<float>(start + at.class_values),
            base + start + at.partials};
  }
  // Elements of the summed dimension: f32, or pairs of bf16.
  int64_t steps(int64_t n) const { return kernels.pairs ? n / 2 : n; }
  int64_t logits_stride() const { return layout.tile_rows + kHeadSkew; }

  void prepare_rows(Workers& workers) const;
  void pack_tile(const HeadSlice& slice, TileClasses tile, bool for_dx) const;
  HeadTile logits(const HeadSlice& slice, TileClasses tile, int64_t row, int64_t count) const;
  float logit_of(const HeadTile& tile, int64_t row) const;
  template <typename Body>
  void for_targets(const HeadTile& tile, int64_t first_row, const Body& body) const;
};

// Calls body(row of the tile, its target's logit, place of it in z).
template <typename Body>
void HeadWork::for_targets(const HeadTile& tile, int64_t first_row, const Body& body) const {
  const int32_t* label = labels() + first_row;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const int64_t inside = label[row] - tile.first_class;
    if (inside < 0 || inside >= tile.classes) {
      continue;
    }
    float* z = tile.z + inside * tile.stride + row;
    float x = *z;
    if (tile.bias != nullptr) {
      x += tile.bias[inside];
    }
    if (tile.clamp && x == x) {
      x = std::clamp(x, -1.0F, 1.0F);
    }
    body(row, x, z);
  }
}

// Runs body(block, partial result of the block) for the blocks of a task and leaves their sum in `out`.
//   partial(i)  place of the i-th partial result on the stack; 0 is the task's own
template <typename Partial, typename Body, typename Merge>
void fold_blocks(BlockRange task, const Partial& partial, const Body& body, const Merge& merge) {
  int depth = 0;
  for (int64_t block = task.begin; block < task.end; ++block) {
    body(block, partial(depth));
    ++depth;
    for (int64_t done = block - task.begin + 1; done % 2 == 0; done /= 2) {
      --depth;
      merge(partial(depth - 1), partial(depth));
    }
  }
  for (; depth > 1; --depth) {
    merge(partial(depth - 2), partial(depth - 1));
  }
}

// Adds up the tasks of each subtree in the order of the tree; `place(i)` is the result of task i.
template <typename Place, typename Merge>
void fold_tasks(const HeadLayout& layout, const Place& place, const Merge& merge) {
  size_t begin = 0;
  for (const BlockRange& subtree : layout.subtrees) {
    size_t end = begin;
    while (end < layout.tasks.size() && layout.tasks[end].end <= subtree.end) {
      ++end;
    }
    for (size_t step = 1; step < end - begin; step *= 2) {
      for (size_t i = begin; i + step < end; i += 2 * step) {
        merge(place(i), place(i + step));
      }
    }
    begin = end;
  }
}

// Where the result of each task lies: the first of a subtree has the subtree's own place in the pass's output.
struct TaskPlaces {
  const HeadLayout& layout;
  std::byte* out;
  std::byte* others;
  Bytes bytes;

  std::byte* operator()(size_t task) const {
    size_t subtree = 0;
    while (layout.subtrees[subtree].end <= layout.tasks[task].begin) {
      ++subtree;
    }
    const bool first = layout.subtrees[subtree].begin == layout.tasks[task].begin;
    return first ? out + static_cast<Bytes>(subtree) * bytes : others + static_cast<Bytes>(task - subtree - 1) * bytes;
  }
};

// Calls body(tile) for the tiles of a class block.
template <typename Body>
void for_tiles(const HeadShape& shape, const HeadLayout& layout, int64_t block, const Body& body) {
  const int64_t size = class_block(shape.classes);
  const int64_t end = std::min(shape.shard.end, (block + 1) * size);
  for (int64_t begin = block * size; begin < end; begin += layout.tile_classes) {
    body(TileClasses{begin, std::min(layout.tile_classes, end - begin)});
  }
}

template <typename Body>
void for_row_runs(const HeadLayout& layout, const Body& body) {
  for (int64_t row = 0; row < layout.rows_padded; row += layout.tile_rows) {
    body(row, std::min(layout.tile_rows, layout.rows_padded - row));
  }
}

}  // namespace xrun::ops
