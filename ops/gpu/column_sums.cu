// Sums of columns, such as the gradients of biases: sums [columns] += sums of x [rows, columns]. Blocks of 32 x 8
// threads, one for 32 columns. The kernels have the bits of the processor.
#include "ops/gpu/column_sums.h"
#include "ops/gpu/grid.h"

using namespace xrun::ops;

namespace xrun::ops {

template <typename T>
__device__ void add_sums(const T* x, float* sums, int64_t rows, int64_t columns) {
  reduce_columns<1>(
      rows, columns, [=](int64_t r, int64_t c, float* acc) { acc[0] += to_float(x[r * columns + c]); },
      [=](int64_t c, const double* totals) { sums[c] += static_cast<float>(totals[0]); });
}

}  // namespace xrun::ops

extern "C" __global__ void column_sums_f32(const float* x, float* sums, int64_t rows, int64_t columns) {
  add_sums(x, sums, rows, columns);
}
extern "C" __global__ void column_sums_bf16(const Bf16* x, float* sums, int64_t rows, int64_t columns) {
  add_sums(x, sums, rows, columns);
}

// Adds `count` parts of n elements to `sums` in ascending order, one thread an element.
extern "C" __global__ void add_parts_f32(const float* parts, float* sums, int64_t n, int64_t count) {
  const int64_t i = thread_index();
  if (i < n) {
    float sum = sums[i];
    for (int64_t p = 0; p < count; ++p) {
      sum += parts[p * n + i];
    }
    sums[i] = sum;
  }
}
