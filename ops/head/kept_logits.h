// Logits of the first class blocks of a shard, which the forward pass keeps for the backward pass. They are plain
// products, before bias, clamping and margin. The backward pass copies a kept tile instead of computing it again; the
// bits are equal, because neither rows nor weights change in between.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ops/head/class_rows.h"
#include "ops/head/loops/kernels.h"

namespace xrun::ops {

class KeptLogits {
 public:
  // rows.logits may be null if no logits are kept.
  KeptLogits(const HeadShape& shape, const HeadLayout& layout, const HeadRows& rows)
      : rows_(layout.rows_padded), data_(reinterpret_cast<float*>(rows.logits)) {
    if (rows.active == nullptr) {
      first_ = shape.shard.begin;
      end_ = head_kept_classes(shape);
    } else {
      const int32_t active = rows.active->offsets[std::min(shape.kept_blocks, layout.blocks.size())];
      end_ = std::min<int64_t>(active, head_kept_classes(shape));
    }
  }

  // Whether the logits of a tile are kept. A tile is kept as a whole or not at all.
  bool has(TileClasses classes) const { return classes.begin - first_ + classes.count <= end_; }
  // Prefetches the kept logits of a tile, for all rows.
  void prefetch(TileClasses classes, HeadPrefetch& prefetch) const {
    add_range(prefetch, data_ + (classes.begin - first_) * rows_,
              has(classes) ? classes.count * rows_ * static_cast<int64_t>(sizeof(float)) : 0);
  }
  // keep() copies the logits of a tile to memory, fetch() copies them back. The tile's rows begin at padded row `row`.
  // REQUIRES: has(the tile's classes).
  void keep(const HeadTile& tile, int64_t row, const HeadKernels& kernels) const;
  void fetch(const HeadTile& tile, int64_t row) const;

 private:
  float* at(const HeadTile& tile, int64_t row) const { return data_ + (tile.first_class - first_) * rows_ + row; }

  int64_t first_ = 0;  // number in the pass of the shard's first class
  int64_t end_;        // number of the shard's first classes whose logits are kept
  int64_t rows_;
  float* data_;  // [end_, rows_]
};

}  // namespace xrun::ops
