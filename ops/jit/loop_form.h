// LoopForm: a description of an element-wise loop from which it can be compiled: the function of one element, and the
// memory layout of its operands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/scalar_expr.h"
#include "graph/tensor_type.h"
#include "ops/isa.h"

namespace xrun::ops {

enum class LoopInput : uint8_t {
  kF32,
  kBF16,
  kUniform,  // one f32 for all elements
};

struct LoopForm {
  ScalarExpr expr;                // pruned
  std::vector<LoopInput> inputs;  // inputs of `expr`
  std::vector<DType> outputs;     // types of its results: f32 or bf16, which rounds to nearest
  // Results are not stored: an output consists of running sums of their squares (SquareLanes), to which a run adds.
  // Outputs are f32.
  bool squares = false;
  // Compiled code stores results past the caches, at multiples of 64 bytes; ElementLoop::finish follows.
  bool streams = false;
};

// Compiled code for whole groups of sixteen elements. Inputs are read before results of the same elements are stored,
// so a result may replace an input.
using LoopCode = void (*)(const void* const* inputs, void* const* outputs, int64_t elements);

// One line that identifies a loop: "avx2 f32 bf16 uniform -> f32: x0 * x2 + x1".
std::string describe(const LoopForm& form, Isa isa);

}  // namespace xrun::ops
