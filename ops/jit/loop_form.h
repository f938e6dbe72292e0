// LoopForm: a description of an element-wise loop from which it can be compiled: the function of one element, and the
// memory layout of its operands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/types/scalar_expr.h"
#include "graph/types/tensor_type.h"
#include "ops/simd/isa.h"

namespace xrun::ops {

enum class LoopInput : uint8_t {
  kF32,
  kBF16,
  kF16,
  kUniform,  // one f32 for all elements
};

// The kind of an input that has an element of `dtype` for each element of the loop.
constexpr LoopInput loop_input(DType dtype) {
  return dtype == DType::kBF16 ? LoopInput::kBF16 : dtype == DType::kF16 ? LoopInput::kF16 : LoopInput::kF32;
}

struct LoopForm {
  ScalarExpr expr;                // the function of one element, without nodes that no result needs
  std::vector<LoopInput> inputs;  // inputs of `expr`
  std::vector<DType> outputs;     // types of the results: f32, or bf16 or f16 (rounded to nearest)
  // If set, results are not stored. Each output consists of running sums of the squares of its result (SquareLanes), to
  // which each call adds; the results are f32.
  bool squares = false;
  // If set, compiled code stores results past the caches, at addresses that are multiples of 64; the caller must call
  // ElementLoop::finish afterwards.
  bool streams = false;
};

// Compiled code, which computes whole groups of sixteen elements. It reads the inputs of elements before it stores
// their results, so an output may be the same memory as an input.
using LoopCode = void (*)(const void* const* inputs, void* const* outputs, int64_t elements);

// Returns one line that identifies a loop, such as "avx2 f32 bf16 uniform -> f32: x0 * x2 + x1".
std::string describe(const LoopForm& form, Isa isa);

}  // namespace xrun::ops
