// Conversions between f32 and the types of two bytes, bf16 and f16, for lanes that write LLVM instructions.
#pragma once

#include "ops/jit/plugin/ir_lanes.h"

namespace xrun::ops {

// The nearest bf16, ties to even; NaN stays NaN.
inline IrLanes rounded_to_bf16(const IrLanes& x) {
  const IrInts bits = bits_of(x);
  const IrInts odd = (bits >> 16) & 1;
  const IrInts raised{x.to, x.to->CreateAdd((bits + 0x7FFF).value, odd.value)};
  constexpr auto kUpperHalf = static_cast<int32_t>(0xFFFF0000U);
  return if_number(x, from_bits(raised & kUpperHalf), from_bits((bits | 0x400000) & kUpperHalf));
}

// The bf16 numbers, in 16 bits each, in f32.
inline IrLanes widened_from_bf16(llvm::IRBuilder<>& to, llvm::Value* halves) {
  llvm::Value* const bits = to.CreateShl(to.CreateZExt(halves, lanes_like(halves, to.getInt32Ty())), 16);
  return {&to, to.CreateBitCast(bits, lanes_like(halves, to.getFloatTy()))};
}
// The nearest bf16 in 16 bits.
inline llvm::Value* narrowed_to_bf16(const IrLanes& x) {
  return x.to->CreateTrunc(x.to->CreateLShr(bits_of(rounded_to_bf16(x)).value, 16),
                           lanes_like(x.value, x.to->getInt16Ty()));
}

// The nearest f16, ties to even; NaN stays NaN. LLVM uses the instructions of F16C, like simd.h.
inline llvm::Value* narrowed_to_f16(const IrLanes& x) {
  return x.to->CreateFPTrunc(x.value, lanes_like(x.value, x.to->getHalfTy()));
}
// The f16 numbers in f32. For PTX, LLVM would write a conversion with `.ftz`; this one keeps denormal f16 numbers.
inline IrLanes widened_from_f16(llvm::IRBuilder<>& to, llvm::Value* halves) {
  if (halves->getType()->isVectorTy()) {
    return {&to, to.CreateFPExt(halves, lanes_like(halves, to.getFloatTy()))};
  }
  llvm::Value* const bits = to.CreateBitCast(halves, to.getInt16Ty());
  return {&to, written(to, "cvt.f32.f16 $0, $1;", "=f,h", bits, to.getFloatTy())};
}
inline IrLanes rounded_to_f16(const IrLanes& x) { return widened_from_f16(*x.to, narrowed_to_f16(x)); }

}  // namespace xrun::ops
