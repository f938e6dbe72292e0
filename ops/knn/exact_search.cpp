#include "ops/knn/exact_search.h"

#include <algorithm>
#include <array>
#include <limits>

namespace xrun::ops {

void KnnExactSearch::search(const int32_t* classes, int64_t count, KnnCandidates exact, const KnnSlice& s) const {
  exact.slack = 0;
  std::fill_n(s.direction, at.dim_padded, 0.0F);
  const int64_t panel = at.dim_padded * kKnnPanel;
  std::fill_n(s.left, align_up(count, kKnnPanel) * at.dim_padded, 0U);
  for (int64_t i = 0; i < count; ++i) {
    rows.direction(classes[i], s.direction);
    knn_pack_f32(s.direction, at.dim_padded, i % kKnnPanel, s.left + i / kKnnPanel * panel);
    exact.clear(classes[i]);
  }
  for (int64_t block = 0; block < at.blocks; ++block) {
    const int64_t begin = block * at.block;
    const int64_t end = std::min(begin + at.block, all_classes);
    for (int64_t c = begin; c < end; ++c) {
      rows.direction(c, s.direction);
      knn_pack_f32(s.direction, at.dim_padded, c % kKnnPanel, s.right + (c - begin) / kKnnPanel * panel);
    }
    for (int64_t left = begin; left < end; left += kKnnPanel) {
      for (int64_t top = 0; top < count; top += kKnnPanel) {
        knn_multiply(kernels, s.left + top * at.dim_padded, s.right + (left - begin) * at.dim_padded, 1, at.dim_padded,
                     at.stride, s.tile);
        std::array<float, kKnnPanel> limits;
        limits.fill(std::numeric_limits<float>::infinity());
        for (int64_t i = top; i < std::min(top + kKnnPanel, count); ++i) {
          limits[static_cast<size_t>(i - top)] = exact.limits[classes[i]];
        }
        const int64_t hits = scan(s.tile, at.stride, limits.data(), no_limits, s.hits);
        for (int64_t i = 0; i < hits; ++i) {
          const int64_t row = classes[top + s.hits[i] / kKnnPanel];
          const int64_t column = left + s.hits[i] % kKnnPanel;
          const float score = s.tile[s.hits[i] / kKnnPanel * at.stride + s.hits[i] % kKnnPanel];
          if (score >= exact.limits[row] && column < end && column != row) {
            exact.offer(row, score, static_cast<int32_t>(column));
          }
        }
      }
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    exact.shrink(classes[i]);
  }
}

}  // namespace xrun::ops
