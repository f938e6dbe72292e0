// Dropout with the draws of the processor (ops/elementwise/dropout.cpp): each row has a stream of its own, from seed,
// step, position in the global batch and operator, so that no draw depends on devices or on the grouping of rows. The
// gradient is the same kernel, applied to dy. One thread computes the four elements of a block of draws. The kernels
// have the bits of the processor.
#include "graph/base/philox.h"
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

namespace xrun::ops {

template <typename T>
__device__ void drop(const T* x, T* y, int64_t rows, int64_t columns, uint64_t seed, uint64_t step, uint64_t first_row,
                     uint64_t path, uint32_t keep_from, float scale) {
  const int64_t blocks = (columns + 3) / 4;
  const int64_t i = thread_index();
  if (i >= rows * blocks) {
    return;
  }
  const int64_t row = i / blocks, block = i % blocks;
  const xrun::StreamKey key = xrun::stream_key(seed, step, first_row + static_cast<uint64_t>(row), path);
  const xrun::PhiloxWords draws = key.block(static_cast<uint64_t>(block));
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int64_t column = block * 4 + j;
    if (column < columns) {
      const float scaled = to_float(x[row * columns + column]) * scale;
      assign(y[row * columns + column], draws.word[j] >= keep_from ? scaled : 0.0F);
    }
  }
}

}  // namespace xrun::ops

// x, y [rows, columns]. Elements whose draw is below `keep_from` become 0, the others are multiplied by `scale`.
extern "C" __global__ void dropout_f32(const float* x, float* y, int64_t rows, int64_t columns, uint64_t seed,
                                       uint64_t step, uint64_t first_row, uint64_t path, uint32_t keep_from,
                                       float scale) {
  drop(x, y, rows, columns, seed, step, first_row, path, keep_from, scale);
}
extern "C" __global__ void dropout_bf16(const Bf16* x, Bf16* y, int64_t rows, int64_t columns, uint64_t seed,
                                        uint64_t step, uint64_t first_row, uint64_t path, uint32_t keep_from,
                                        float scale) {
  drop(x, y, rows, columns, seed, step, first_row, path, keep_from, scale);
}
