// Products of many matrices that follow one another in memory, one for each index in the third dimension of the grid.
// They are computed like those of product_f32.cu and product_bf16.cu.
//   products_nt   a [m, k], b [n, k]
//   products_nn   a [m, k], b [k, n]
//   products_tn   a [k, m], b [k, n]
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include "ops/gpu/tile_products.h"

using namespace xrun::ops;

namespace xrun::ops {

template <class Tile, bool kTransposedA, bool kTransposedB, typename T>
__device__ void products(const T* a, const T* b, T* out, int64_t m, int64_t n, int64_t k) {
  const int64_t at = blockIdx.z;
  product<Tile, kTransposedA, kTransposedB, false>(a + at * m * k, b + at * k * n, nullptr, out + at * m * n, m, n, k);
}

}  // namespace xrun::ops

// Grids of ceil(n / 64) x ceil(m / 64) blocks for each product.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    products_nt_f32(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  products<TileF32, false, true>(a, b, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    products_nn_f32(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  products<TileF32, false, false>(a, b, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    products_tn_f32(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  products<TileF32, true, false>(a, b, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    products_nt_bf16(const Bf16* a, const Bf16* b, Bf16* out, int64_t m, int64_t n, int64_t k) {
  products<TileBf16, false, true>(a, b, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    products_nn_bf16(const Bf16* a, const Bf16* b, Bf16* out, int64_t m, int64_t n, int64_t k) {
  products<TileBf16, false, false>(a, b, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    products_tn_bf16(const Bf16* a, const Bf16* b, Bf16* out, int64_t m, int64_t n, int64_t k) {
  products<TileBf16, true, false>(a, b, out, m, n, k);
}
