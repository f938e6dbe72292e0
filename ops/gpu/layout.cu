// Copies that change the layout: transposes of matrices, copies of columns, rows of a table by their numbers, and the
// gradient of the table. Values do not change; the gradient has the bits of the processor (ops/dense/embed.cpp).
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

namespace xrun::ops {

constexpr int kTile = 32;

// Transposes x [matrices, rows, columns]. Blocks of 32 x 8 threads, for a tile of 32 columns (x) and 32 rows (y) of a
// matrix (z). A tile has one more column than it needs, so that reads of columns meet different banks.
template <typename T>
__device__ void transpose(const T* x, T* y, int64_t rows, int64_t columns) {
  __shared__ T tile[kTile][kTile + 1];
  const int64_t matrix = blockIdx.z * rows * columns;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  for (int r = threadIdx.y; r < kTile; r += blockDim.y) {
    if (first_row + r < rows && first_column + threadIdx.x < columns) {
      tile[r][threadIdx.x] = x[matrix + (first_row + r) * columns + first_column + threadIdx.x];
    }
  }
  __syncthreads();
  for (int c = threadIdx.y; c < kTile; c += blockDim.y) {
    if (first_column + c < columns && first_row + threadIdx.x < rows) {
      y[matrix + (first_column + c) * rows + first_row + threadIdx.x] = tile[threadIdx.x][c];
    }
  }
}

// Copies `columns` numbers of each row. Rows begin `from_stride` and `to_stride` numbers apart.
template <typename T>
__device__ void copy_columns(const T* from, T* to, int64_t rows, int64_t columns, int64_t from_stride,
                             int64_t to_stride) {
  const int64_t i = thread_index();
  if (i < rows * columns) {
    to[i / columns * to_stride + i % columns] = from[i / columns * from_stride + i % columns];
  }
}

template <typename T>
__device__ void add_rows(const int32_t* numbers, const T* dy, float* table, int64_t count, int64_t table_rows,
                         int64_t columns) {
  const int64_t c = thread_index();
  if (c >= columns) {
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (const int64_t row = numbers[i]; row >= 0 && row < table_rows) {
      table[row * columns + c] += to_float(dy[i * columns + c]);
    }
  }
}

}  // namespace xrun::ops

extern "C" __global__ void transpose_32(const uint32_t* x, uint32_t* y, int64_t rows, int64_t columns) {
  transpose(x, y, rows, columns);
}
extern "C" __global__ void transpose_16(const uint16_t* x, uint16_t* y, int64_t rows, int64_t columns) {
  transpose(x, y, rows, columns);
}

extern "C" __global__ void copy_columns_32(const uint32_t* from, uint32_t* to, int64_t rows, int64_t columns,
                                           int64_t from_stride, int64_t to_stride) {
  copy_columns(from, to, rows, columns, from_stride, to_stride);
}
extern "C" __global__ void copy_columns_16(const uint16_t* from, uint16_t* to, int64_t rows, int64_t columns,
                                           int64_t from_stride, int64_t to_stride) {
  copy_columns(from, to, rows, columns, from_stride, to_stride);
}

// y [count, columns] = the rows of the table with these numbers. A number that has no row sets bit 1 of `flags`, and
// its row of y becomes zero. One thread an element.
extern "C" __global__ void gather_rows_f32(const int32_t* numbers, const float* table, float* y, int64_t count,
                                           int64_t table_rows, int64_t columns, uint32_t* flags) {
  const int64_t i = thread_index();
  if (i >= count * columns) {
    return;
  }
  const int64_t row = numbers[i / columns];
  const bool exists = row >= 0 && row < table_rows;
  y[i] = exists ? table[row * columns + i % columns] : 0.0F;
  if (!exists && i % columns == 0) {
    atomicOr(flags, 2U);
  }
}

// Adds dy [count, columns] to the rows of the table in the order of the samples; numbers without a row are left out.
// One thread a column, so that rows of equal numbers are always added in the same order.
extern "C" __global__ void add_rows_f32(const int32_t* numbers, const float* dy, float* table, int64_t count,
                                        int64_t table_rows, int64_t columns) {
  add_rows(numbers, dy, table, count, table_rows, columns);
}
extern "C" __global__ void add_rows_bf16(const int32_t* numbers, const Bf16* dy, float* table, int64_t count,
                                         int64_t table_rows, int64_t columns) {
  add_rows(numbers, dy, table, count, table_rows, columns);
}
