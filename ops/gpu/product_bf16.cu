// Products of bf16 matrices on tensor cores by tiles: out [m, n] = sum over k of a * b, in f32. The sum of each element
// takes 16 terms at a time with k ascending (mma.sync m16n8k16), so its bits depend neither on m, n nor on the grouping
// of blocks. A block of four warps has a tile of 64 x 64 elements and copies 32 terms of k at a time to shared memory
// while it computes the 32 before (cp.async, two stages). The parts of a tile outside of the matrices are zero.
//   product_nt   a [m, k], b [n, k]    y = x * weight^T
//   product_nn   a [m, k], b [k, n]    dx = dy * weight
//   product_tn   a [k, m], b [k, n]    dweight = dy^T * x
// Tests: tests/ops/gpu/product_test.cpp
#include "ops/gpu/tile_products.h"

using namespace xrun::ops;

// `bias` [n] may be null. Grids of ceil(n / 64) x ceil(m / 64) blocks.
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    product_nt_bf16(const Bf16* a, const Bf16* b, const float* bias, Bf16* out, int64_t m, int64_t n, int64_t k) {
  product<TileBf16, false, true, false>(a, b, bias, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    product_nn_bf16(const Bf16* a, const Bf16* b, Bf16* out, int64_t m, int64_t n, int64_t k) {
  product<TileBf16, false, false, false>(a, b, nullptr, out, m, n, k);
}
// Adds the product to `out`, an accumulator of gradients in f32.
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    product_tn_bf16(const Bf16* a, const Bf16* b, float* out, int64_t m, int64_t n, int64_t k) {
  product<TileBf16, true, false, true>(a, b, nullptr, out, m, n, k);
}
