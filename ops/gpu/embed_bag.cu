// embed_bag (ops/dense/embed_bag.cpp): for each sample, the sum or the mean of the rows of a table that its numbers
// name; the number `padding` names none. The kernels have the bits of the processor.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

namespace xrun::ops {

// The table, and how numbers select its rows.
struct Bags {
  int64_t length;  // numbers of a sample
  int64_t rows;
  int64_t padding;
  uint32_t mean;

  // The factor on the rows of a sample.
  __device__ float factor(const int32_t* numbers) const {
    int32_t count = 0;
    for (int64_t l = 0; l < length; ++l) {
      count += numbers[l] != padding ? 1 : 0;
    }
    return mean != 0 && count > 0 ? 1.0F / static_cast<float>(count) : 1.0F;
  }
  __device__ bool has(int32_t number) const { return number >= 0 && number < rows; }
};

// Adds the rows in the order of the samples. One thread a column, so that rows of equal numbers are always added in the
// same order.
template <typename T>
__device__ void add_bags(const int32_t* numbers, const T* dy, float* table, int64_t samples, int64_t columns,
                         const Bags& bags) {
  const int64_t c = thread_index();
  for (int64_t n = 0; n < samples && c < columns; ++n) {
    const int32_t* const own = numbers + n * bags.length;
    const float term = to_float(dy[n * columns + c]) * bags.factor(own);
    for (int64_t l = 0; l < bags.length; ++l) {
      if (own[l] != bags.padding && bags.has(own[l])) {
        table[own[l] * columns + c] += term;
      }
    }
  }
}

}  // namespace xrun::ops

// y [samples, columns] from numbers [samples, length] and table [rows, columns], in the order of the numbers. A number
// without a row sets bit 1 of `flags`. One thread an element of y.
extern "C" __global__ void embed_bag_f32(const int32_t* numbers, const float* table, float* y, int64_t samples,
                                         int64_t columns, int64_t length, int64_t rows, int64_t padding, uint32_t mean,
                                         uint32_t* flags) {
  const int64_t i = thread_index();
  if (i >= samples * columns) {
    return;
  }
  const Bags bags{length, rows, padding, mean};
  const int32_t* const own = numbers + i / columns * length;
  float sum = 0;
  for (int64_t l = 0; l < length; ++l) {
    if (own[l] == padding) {
      continue;
    }
    if (bags.has(own[l])) {
      sum += table[own[l] * columns + i % columns];
    } else {
      atomicOr(flags, 2U);
    }
  }
  y[i] = sum * bags.factor(own);
}

// Adds dy [samples, columns] times the factor of each sample to the rows of its numbers. One thread a column.
extern "C" __global__ void embed_bag_grad_f32(const int32_t* numbers, const float* dy, float* table, int64_t samples,
                                              int64_t columns, int64_t length, int64_t rows, int64_t padding,
                                              uint32_t mean) {
  add_bags(numbers, dy, table, samples, columns, {length, rows, padding, mean});
}
extern "C" __global__ void embed_bag_grad_bf16(const int32_t* numbers, const Bf16* dy, float* table, int64_t samples,
                                               int64_t columns, int64_t length, int64_t rows, int64_t padding,
                                               uint32_t mean) {
  add_bags(numbers, dy, table, samples, columns, {length, rows, padding, mean});
}
