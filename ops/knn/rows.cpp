#include "ops/knn/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/head/loops/kernels.h"
#include "ops/knn/candidates.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

void KnnRows::direction(int64_t row, float* out) const {
  const float* w = weight + row * dim;
  const float scale = inverse[row];
  for (int64_t d = 0; d < dim; ++d) {
    out[d] = scale == 0 ? 0.0F : w[d] * scale;
  }
}

void KnnRows::rescore(const float* direction, uint64_t* keys, int64_t count) const {
  constexpr int kChains = 8;      // independent chains, which hide the latency of each other
  constexpr int64_t kAhead = 16;  // rows to prefetch, since the hardware cannot predict them
  for (int64_t first = 0; first < count; first += kChains) {
    const float* w[kChains];
    float scale[kChains];
    float sum[kChains] = {};
    for (int i = 0; i < kChains; ++i) {
      const int64_t id = knn_id(keys[std::min(first + i, count - 1)]);
      w[i] = weight + id * dim;
      scale[i] = inverse[id];
    }
    for (int64_t i = first + kAhead; i < std::min(first + kAhead + kChains, count); ++i) {
      const float* next = weight + knn_id(keys[i]) * dim;
      for (int64_t d = 0; d < dim; d += 16) {
        __builtin_prefetch(next + d);
      }
    }
    for (int64_t d = 0; d < dim; ++d) {
      const float x = direction[d];
#pragma GCC unroll 8
      for (int i = 0; i < kChains; ++i) {
        sum[i] = std::fma(x, w[i][d] * scale[i], sum[i]);
      }
    }
    for (int i = 0; i < kChains && first + i < count; ++i) {
      keys[first + i] = knn_key(scale[i] == 0 ? 0.0F : sum[i], knn_id(keys[first + i]));
    }
  }
}

float knn_inverse(const float* row, int64_t dim) {
  double squares = 0;
  for (int64_t d = 0; d < dim; ++d) {
    squares += static_cast<double>(row[d]) * row[d];
  }
  if (!std::isfinite(squares)) {
    return 0;
  }
  return static_cast<float>(1 / std::max(std::sqrt(squares), static_cast<double>(kHeadEpsilon)));
}

void KnnRounding::take(const KnnRounding& other) {
  moved = std::max(moved, other.moved);
  longest = std::max(longest, other.longest);
}

double KnnRounding::error(int64_t dim) const {
  const auto terms = static_cast<double>(dim + 64);
  // The last term allows for bf16 products, which treat subnormal numbers as zero.
  return moved * (2 * longest + moved) + longest * longest * terms * 0x1p-22 + terms * 0x1p-120;
}

void knn_pack_f32(const float* direction, int64_t dim_padded, int64_t lane, uint32_t* panel) {
  for (int64_t d = 0; d < dim_padded; ++d) {
    panel[d * 32 + lane] = std::bit_cast<uint32_t>(direction[d]);
  }
}

KnnRounding knn_pack_pairs(const float* direction, int64_t dim_padded, int64_t lane, uint32_t* panel) {
  double moved = 0;
  double squares = 0;
  for (int64_t d = 0; d < dim_padded; d += 2) {
    const Bf16 low = to_bf16(direction[d]);
    const Bf16 high = to_bf16(direction[d + 1]);
    panel[d / 2 * 32 + lane] = uint32_t{low.bits} | uint32_t{high.bits} << 16;
    const double change[] = {static_cast<double>(direction[d]) - to_float(low),
                             static_cast<double>(direction[d + 1]) - to_float(high)};
    moved += change[0] * change[0] + change[1] * change[1];
    squares +=
        static_cast<double>(direction[d]) * direction[d] + static_cast<double>(direction[d + 1]) * direction[d + 1];
  }
  return {std::sqrt(moved), std::sqrt(squares)};
}

}  // namespace xrun::ops
