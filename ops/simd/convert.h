// Conversions between f32, bf16 and f16, to the nearest, ties to even.
#pragma once

#include <cstdint>

#include "graph/types/tensor_type.h"
#include "ops/simd/isa.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

void widen(Isa isa, const Bf16* from, float* to, int64_t n);
void narrow(Isa isa, const float* from, Bf16* to, int64_t n);
void widen(Isa isa, const Half* from, float* to, int64_t n);
void narrow(Isa isa, const float* from, Half* to, int64_t n);
// Converts elements of one type to another. REQUIRES: both types are f32, bf16 or f16.
void convert(Isa isa, DType from_type, const void* from, DType to_type, void* to, int64_t n);
// Rounds f32 to the nearest number of a type, stored as f32. `from` may be `to`. REQUIRES: `type` is bf16 or f16.
void round_to(Isa isa, DType type, const float* from, float* to, int64_t n);

}  // namespace xrun::ops
