// Conversions between f32 and bf16: to the nearest, ties to even, or at random to one of both neighbours, for rows of
// class weights and states (ops/head/row_format.h). The kernels have the bits of the processor.
#include "graph/base/philox.h"
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

extern "C" __global__ void widen_bf16(const Bf16* from, float* to, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    to[i] = to_float(from[i]);
  }
}

extern "C" __global__ void narrow_bf16(const float* from, Bf16* to, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    to[i] = to_bf16(from[i]);
  }
}

// Rounds a tensor [rows, columns, depth] and stores it as [rows, depth, columns], like the weights of convolutions
// (conv.cu, `packed`). One thread an element.
extern "C" __global__ void narrow_packed_bf16(const float* from, Bf16* to, int64_t rows, int64_t columns,
                                              int64_t depth) {
  const int64_t i = thread_index();
  if (i < rows * columns * depth) {
    const int64_t column = i % columns, line = i / columns;
    to[i] = to_bf16(from[(line / depth * columns + column) * depth + line % depth]);
  }
}

// Rounds rows of `columns` numbers at random: sixteen random bits are added below the last bit that bf16 keeps, and the
// bits below that one are cut off. `keys` has the stream of each row; element c has the half c % 2 of the word c / 2 %
// 4 of the block c / 8. One thread an element.
extern "C" __global__ void round_rows_bf16(const float* from, const xrun::StreamKey* keys, Bf16* to, int64_t rows,
                                           int64_t columns) {
  const int64_t i = thread_index();
  if (i >= rows * columns) {
    return;
  }
  const int64_t row = i / columns, column = i % columns;
  const xrun::PhiloxWords draws = keys[row].block(static_cast<uint64_t>(column / 8));
  const uint32_t low = column % 4 < 2 ? draws.word[0] : draws.word[1];
  const uint32_t high = column % 4 < 2 ? draws.word[2] : draws.word[3];
  const uint32_t word = column % 8 < 4 ? low : high;
  const uint32_t draw = column % 2 == 0 ? word & 0xFFFFU : word >> 16;
  const float x = from[i];
  const uint32_t u = __float_as_uint(x);
  to[i] = Bf16{static_cast<uint16_t>(x == x ? (u + draw) >> 16 : (u >> 16) | 0x40U)};
}
