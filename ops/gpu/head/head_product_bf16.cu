// Products of a classifier head on tensor cores: bf16 operands, f32 results. Each element takes 16 terms at a time
// (mma.sync m16n8k16).
// Tests: tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/head/head_products.h"

using namespace xrun::ops;

extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    product_head_logits_bf16(const Bf16* classes, const Bf16* rows, const float* bias, float* z, int64_t count,
                             int64_t places, int64_t dims, uint32_t clamp) {
  head_logits<TileBf16>(classes, rows, bias, z, count, places, dims, clamp);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    product_head_dx_bf16(const Bf16* g, const Bf16* classes, float* dx, int64_t count, int64_t size, int64_t places,
                         int64_t dims, int64_t slot) {
  head_dx<TileBf16>(g, classes, dx, count, size, places, dims, slot);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    product_head_dw_bf16(const Bf16* g, const Bf16* rows, float* dw, int64_t count, int64_t places, int64_t terms,
                         int64_t dims, uint32_t add) {
  head_dw<TileBf16>(g, rows, dw, count, places, terms, dims, add);
}
