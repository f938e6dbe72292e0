// Products of a classifier head in f32. Each element is one chain of fused multiply-adds.
// Tests: tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/head/head_products.h"

using namespace xrun::ops;

extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    product_head_logits_f32(const float* classes, const float* rows, const float* bias, float* z, int64_t count,
                            int64_t places, int64_t dims, uint32_t clamp) {
  head_logits<TileF32>(classes, rows, bias, z, count, places, dims, clamp);
}
extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    product_head_dx_f32(const float* g, const float* classes, float* dx, int64_t count, int64_t size, int64_t places,
                        int64_t dims, int64_t slot) {
  head_dx<TileF32>(g, classes, dx, count, size, places, dims, slot);
}
extern "C" __global__ void __launch_bounds__(TileF32::kThreads)
    product_head_dw_f32(const float* g, const float* rows, float* dw, int64_t count, int64_t places, int64_t terms,
                        int64_t dims, uint32_t add) {
  head_dw<TileF32>(g, rows, dw, count, places, terms, dims, add);
}
