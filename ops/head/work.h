// Parts that all passes over a shard share: the layout of working memory, and tiles of logits. A pass processes class
// blocks in parallel. Within a block it goes through tiles of classes, and within a tile through ranges of rows.
#pragma once

#include <algorithm>

#include "ops/head/class_rows.h"
#include "ops/head/head.h"
#include "ops/head/kept_logits.h"
#include "ops/head/loops/kernels.h"

namespace xrun::ops {

// Data kept for each row of a pass. kSteep and kCosine, for ops/head/steep.h, are g · (slope - 1) and the logit of the
// target.
enum RowPlane { kLabel, kTarget, kMax, kFactor, kSmooth, kSteep, kCosine };

// Operands and working memory of a pass, which all its workers share.
struct HeadWork {
  HeadWork(const HeadShape& of, const HeadLayout& l, const HeadKernels& k, HeadPass pass, const HeadRows& r,
           const ClassRows& c, std::byte* scratch)
      : shape(of),
        layout(l),
        kernels(k),
        kind(pass),
        at(head_scratch(of, l, pass)),
        rows(r),
        classes(c),
        kept(of, l, r),
        base(scratch) {}

  const HeadShape& shape;
  const HeadLayout& layout;
  const HeadKernels& kernels;
  const HeadPass kind;
  const HeadScratch at;
  const HeadRows& rows;
  const ClassRows& classes;
  const KeptLogits kept;
  std::byte* base;

  template <typename T>
  T* part(Bytes offset) const {
    return reinterpret_cast<T*>(base + offset);
  }
  float* plane(RowPlane which) const { return part<float>(at.row_values) + which * layout.rows_padded; }
  int32_t* labels() const { return reinterpret_cast<int32_t*>(plane(kLabel)); }
  HeadSlice slice(int worker) const {
    const Bytes start = at.workers + worker * at.worker_bytes;
    return {part<uint32_t>(start + at.logit_weights), part<uint32_t>(start + at.gradient_weights),
            part<float>(start + at.logits),           part<uint32_t>(start + at.pairs),
            part<float>(start + at.weight_gradient),  part<float>(start + at.class_values),
            part<float>(start + at.class_rows),       part<float>(start + at.class_states),
            part<float>(start + at.class_vectors)};
  }
  // Returns the number of 32-bit elements for n numbers along a summed dimension: n f32, or n / 2 pairs of bf16.
  int64_t steps(int64_t n) const { return kernels.pairs ? n / 2 : n; }
  int64_t logits_stride() const { return layout.tile_rows + kHeadSkew; }

  // Returns the number of classes over which a smoothed loss takes the mean.
  double classes_of_loss() const {
    return static_cast<double>(rows.active == nullptr ? shape.blocks.classes : rows.active->all);
  }
  // Returns d(objective) / d(loss of this row).
  double row_weight(int64_t row) const {
    return rows.factors == nullptr ? shape.row_weight : shape.row_weight * static_cast<double>(rows.factors[row]);
  }

  // Whether this is a backward pass for which the logits of a tile were kept.
  bool finds(TileClasses tile) const { return kind == HeadPass::kBackward && kept.has(tile); }

  void prepare_rows(Workers& workers) const;
  void pack_tile(const HeadSlice& slice, const ClassTile& tile, bool for_dx) const;
  HeadTile logits(const HeadSlice& slice, const ClassTile& tile, int64_t row, int64_t count,
                  HeadPrefetch* prefetch) const;
  template <typename Body>
  void for_targets(const HeadTile& tile, int64_t first_row, const Body& body) const;
};

// Calls body(row, target's logit, place of that logit in z) for the rows that have their target in the tile; `row`
// counts from the tile's first row.
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

// Returns the classes of a block of the shard, by their number in the pass.
inline TileClasses block_classes(const HeadWork& pass, int64_t block) {
  if (const ActiveClasses* active = pass.rows.active; active != nullptr) {
    const int32_t* offsets = active->offsets + (block - pass.layout.blocks.begin);
    return {offsets[0], offsets[1] - offsets[0]};
  }
  const int64_t begin = block * pass.shape.blocks.size;
  return {begin, std::min(pass.shape.shard.end, begin + pass.shape.blocks.size) - begin};
}

// Calls body(tile, next tile) for the tiles of a class block. For the last tile, the next one is empty.
template <typename Body>
void for_tiles(const HeadWork& pass, int64_t block, const Body& body) {
  const TileClasses all = block_classes(pass, block);
  const int64_t end = all.begin + all.count;
  const auto tile_at = [&](int64_t begin) {
    return TileClasses{begin, std::clamp<int64_t>(end - begin, 0, pass.layout.tile_classes)};
  };
  for (int64_t begin = all.begin; begin < end; begin += pass.layout.tile_classes) {
    body(tile_at(begin), tile_at(begin + pass.layout.tile_classes));
  }
}

template <typename Body>
void for_row_runs(const HeadLayout& layout, const Body& body) {
  for (int64_t row = 0; row < layout.rows_padded; row += layout.tile_rows) {
    body(row, std::min(layout.tile_rows, layout.rows_padded - row));
  }
}

}  // namespace xrun::ops
