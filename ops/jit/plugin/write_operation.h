// Writes an operation of a scalar expression as LLVM instructions. The operations are those of ops/simd/lane_ops.h,
// called with lanes that write instructions instead of computing (IrLanes), so compiled code does exactly the
// operations of the interpreter.
#pragma once

#include "graph/types/scalar_expr.h"
#include "ops/jit/plugin/ir_narrow.h"

namespace xrun::ops {

// Operands that the operation does not have are ignored. REQUIRES: `op` is neither an input nor a constant.
IrLanes write_operation(ScalarOp op, const IrLanes& a, const IrLanes& b, const IrLanes& c);

// LLVM computes with constants while it compiles, and does not flush denormal numbers as the processor does
// (compute_modes.h). Returns whether a constant may lead to a denormal number, so that its value must be hidden.
bool may_lead_to_denormal(float number);

}  // namespace xrun::ops
