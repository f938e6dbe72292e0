#include "ops/knn/block_search.h"

#include <algorithm>
#include <array>
#include <limits>

namespace xrun::ops {
namespace {

constexpr int64_t kPanels = 8;  // panels of classes in one product
constexpr int64_t kStride = kKnnSearchStride;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

KnnBlockSearch::KnnBlockSearch(Isa isa, int64_t dim, int64_t wanted, int64_t most, std::byte* memory)
    : kernels_(head_kernels(isa, false)), scan_(knn_scan(isa)), dim_padded_(align_up(dim, kKnnPanel)) {
  const KnnSearchLayout at(dim, most);
  directions_ = reinterpret_cast<float*>(memory + at.directions);
  left_ = reinterpret_cast<float*>(memory + at.left);
  tile_ = reinterpret_cast<float*>(memory + at.tile);
  hits_ = reinterpret_cast<int32_t*>(memory + at.hits);
  own_ = reinterpret_cast<int32_t*>(memory + at.own);
  lists_ = {.keys = reinterpret_cast<uint64_t*>(memory + at.keys),
            .counts = reinterpret_cast<int32_t*>(memory + at.counts),
            .limits = reinterpret_cast<float*>(memory + at.limits),
            .capacity = at.capacity,
            .wanted = wanted};
}

void KnnBlockSearch::clear(int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    lists_.clear(i);
  }
}

float* KnnBlockSearch::put(int64_t i, int32_t id) {
  own_[i] = id;
  float* direction = directions_ + i * dim_padded_;
  std::fill_n(direction, dim_padded_, 0.0F);
  return direction;
}

void KnnBlockSearch::compare(std::span<const int32_t> rows, const KnnPanels& classes, ClassRange places) {
  std::array<float, kKnnPanel> no_limits;
  no_limits.fill(kInfinity);
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t panel = dim_padded_ * kKnnPanel;
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(directions_ + rows[static_cast<size_t>(i)] * dim_padded_, dim_padded_, left_ + i * dim_padded_);
  }
  for (int64_t place = places.begin / kKnnPanel * kKnnPanel; place < places.end; place += kPanels * kKnnPanel) {
    const int64_t panels = std::min(kPanels, (places.end - place + kKnnPanel - 1) / kKnnPanel);
    for (int64_t top = 0; top < count; top += kKnnPanel) {
      const int64_t tall = std::min(kKnnPanel, count - top);
      kernels_.gemm({.m = tall,
                     .panels = panels,
                     .k = dim_padded_,
                     .a = reinterpret_cast<const uint32_t*>(left_ + top * dim_padded_),
                     .a_m = dim_padded_,
                     .a_k = 1,
                     .b = classes.data + place / kKnnPanel * panel,
                     .b_panel = panel,
                     .c = tile_,
                     .c_m = kStride});
      const int32_t* const row_of = rows.data() + top;
      for (int64_t column = 0; column < panels * kKnnPanel; column += kKnnPanel) {
        std::array<float, kKnnPanel> limits;
        limits.fill(kInfinity);
        for (int64_t i = 0; i < tall; ++i) {
          limits[static_cast<size_t>(i)] = lists_.limits[row_of[i]];
        }
        const int64_t found = scan_(tile_ + column, kStride, limits.data(), no_limits.data(), hits_);
        for (int64_t hit = 0; hit < found; ++hit) {
          const int64_t i = hits_[hit] / kKnnPanel;
          const int64_t inside = column + hits_[hit] % kKnnPanel;
          const int64_t at = place + inside;
          if (i >= tall || at < places.begin || at >= places.end) {
            continue;
          }
          const int32_t row = row_of[i];
          const int32_t id = classes.ids == nullptr ? static_cast<int32_t>(at) : classes.ids[at];
          const float score = tile_[i * kStride + inside];
          if (id != own_[row] && score >= lists_.limits[row]) {
            lists_.offer(row, score, id);
          }
        }
      }
    }
  }
}

std::span<const uint64_t> KnnBlockSearch::best(int64_t i) {
  lists_.shrink(i);
  uint64_t* keys = lists_.keys + i * lists_.capacity;
  std::sort(keys, keys + lists_.counts[i]);
  return {keys, static_cast<size_t>(std::min<int64_t>(lists_.wanted, lists_.counts[i]))};
}

}  // namespace xrun::ops
