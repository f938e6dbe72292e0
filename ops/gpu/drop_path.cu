// drop_path with the draws of the processor (ops/elementwise/dropout.cpp): one draw for each row decides whether it is
// multiplied by `scale` or by 0. The gradient is the same kernel, applied to dy. One thread an element. The kernels
// have the bits of the processor.
#include "graph/base/philox.h"
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

namespace xrun::ops {

template <typename T>
__device__ void drop(const T* x, T* y, int64_t rows, int64_t columns, uint64_t seed, uint64_t step, uint64_t first_row,
                     uint64_t path, float p, float scale) {
  const int64_t i = thread_index();
  if (i >= rows * columns) {
    return;
  }
  const auto row = static_cast<uint64_t>(i / columns);
  const xrun::PhiloxWords draws = xrun::stream_key(seed, step, first_row + row, path).block(0);
  const float draw = static_cast<float>(draws.word[0] >> 8) * 0x1.0p-24F;
  assign(y[i], to_float(x[i]) * (draw >= p ? scale : 0.0F));
}

}  // namespace xrun::ops

extern "C" __global__ void drop_path_f32(const float* x, float* y, int64_t rows, int64_t columns, uint64_t seed,
                                         uint64_t step, uint64_t first_row, uint64_t path, float p, float scale) {
  drop(x, y, rows, columns, seed, step, first_row, path, p, scale);
}
extern "C" __global__ void drop_path_bf16(const Bf16* x, Bf16* y, int64_t rows, int64_t columns, uint64_t seed,
                                          uint64_t step, uint64_t first_row, uint64_t path, float p, float scale) {
  drop(x, y, rows, columns, seed, step, first_row, path, p, scale);
}
