#include "ops/head/kept_logits.h"

#include <algorithm>
#include <immintrin.h>

namespace xrun::ops {

void KeptLogits::keep(const HeadTile& tile, int64_t row, const HeadKernels& kernels) const {
  float* to = at(tile, row);
  for (int64_t c = 0; c < tile.classes; ++c) {
    kernels.stream(to + c * rows_, tile.z + c * tile.stride, tile.rows);
  }
  _mm_sfence();  // makes stores past the caches visible to other threads
}

void KeptLogits::fetch(const HeadTile& tile, int64_t row) const {
  const float* from = at(tile, row);
  for (int64_t c = 0; c < tile.classes; ++c) {
    std::copy_n(from + c * rows_, tile.rows, tile.z + c * tile.stride);
  }
}

}  // namespace xrun::ops
