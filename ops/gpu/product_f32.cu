// Products of f32 matrices by tiles: out [m, n] = sum over k of a * b. Each element of the result is one chain of fused
// multiply-adds with k ascending, so its bits depend neither on m, n nor on the grouping of blocks. A block of 256
// threads has a tile of 64 x 64 elements, and copies 16 terms of k at a time to shared memory while it computes the 16
// before (cp.async, two stages). The parts of a tile outside of the matrices are zero.
//   product_nt   a [m, k], b [n, k]    y = x * weight^T
//   product_nn   a [m, k], b [k, n]    dx = dy * weight
//   product_tn   a [k, m], b [k, n]    dweight = dy^T * x
// Tests: tests/ops/gpu/product_test.cpp
#include "ops/gpu/tile_products.h"

using namespace xrun::ops;

// `bias` [n] may be null. Grids of ceil(n / 64) x ceil(m / 64) blocks.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    product_nt_f32(const float* a, const float* b, const float* bias, float* out, int64_t m, int64_t n, int64_t k) {
  product<TileF32, false, true, false>(a, b, bias, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    product_nn_f32(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  product<TileF32, false, false, false>(a, b, nullptr, out, m, n, k);
}
// Adds the product to `out`, an accumulator of gradients.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    product_tn_f32(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  product<TileF32, true, false, true>(a, b, nullptr, out, m, n, k);
}
