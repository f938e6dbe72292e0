// Tests: tests/ops/jit/element_loop_test.cpp, tests/gpu_loops/kernels_test.cpp
#include "ops/jit/plugin/write_operation.h"

#include <bit>

// Included here because the templates look up the operations of IrLanes where they are used.
#include "ops/simd/lane_ops.h"

namespace xrun::ops {

// Reduces the argument of a sine in f64 (lane_trig.h).
inline QuarterTurns<IrLanes, IrInts> quarter_turns(const IrLanes& given) {
  llvm::IRBuilder<>& to = *given.to;
  IrLanes x = given;
  if (!x.value->getType()->isVectorTy()) {
    // For PTX, arguments whose sine is NaN are replaced, because the conversion of NaN to a whole number is undefined.
    constexpr float kFar = 1073741824.0F;
    const IrLanes zero = fill_like(x, 0);
    x = choose<_CMP_LE_OQ>(x, fill_like(x, kFar), choose<_CMP_LT_OQ>(x, fill_like(x, -kFar), zero, x), zero);
  }
  const IrDoubles wide{&to, to.CreateFPExt(x.value, lanes_like(x.value, to.getDoubleTy()))};
  const auto turns = turns_of(wide);
  // If the number of quarter turns does not fit into 32 bits, it has no meaning. It may then be any value, but must be
  // the same one at each use.
  llvm::Value* const count = to.CreateFreeze(to.CreateFPToSI(turns.count.value, lanes_like(x.value, to.getInt32Ty())));
  return {{&to, to.CreateFPTrunc(turns.rest.value, x.value->getType())}, {&to, count}};
}

IrLanes write_operation(ScalarOp op, const IrLanes& a, const IrLanes& b, const IrLanes& c) {
  return with_scalar_op(op, [&](auto known) { return compute<known(), IrLanes>(a, b, c); });
}

// Compares bits, since comparisons of numbers take denormal ones for 0 in threads that flush them.
bool may_lead_to_denormal(float number) {
  constexpr auto kFar = std::bit_cast<uint32_t>(0x1p100F);
  constexpr auto kNear = std::bit_cast<uint32_t>(0x1p-100F);
  const uint32_t size = std::bit_cast<uint32_t>(number) & 0x7FFFFFFF;
  return size != 0 && !(size > kNear && size < kFar);
}

}  // namespace xrun::ops
