// Conversions between f32 and bf16, to the nearest, ties to even.
#pragma once

#include <cstdint>

#include "ops/simd/isa.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

void widen(Isa isa, const Bf16* from, float* to, int64_t n);
void narrow(Isa isa, const float* from, Bf16* to, int64_t n);
// Rounds f32 to the nearest bf16, stored as f32. `from` may be `to`.
void round_to_bf16(Isa isa, const float* from, float* to, int64_t n);

}  // namespace xrun::ops
