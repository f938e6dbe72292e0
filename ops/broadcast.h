// Operands of one rank whose dimensions are equal or 1: their common shape, and the gradients of those that were
// broadcast.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/autodiff.h"
#include "graph/base/result.h"
#include "graph/tensor_type.h"

namespace xrun::ops {

// The type of an element-wise result. Activations have one rank and one element type; parameters have no batch, and
// their last dimension stands under the last one of the activations: [D] goes with [N, T, D]. `verb`: "add", for
// messages. Errors: XG0301, XG0304.
Result<TensorType> broadcast(std::string_view verb, std::span<const TensorType> operands);

// Dimensions of an operand with those of 1 that it lacks in front. REQUIRES: at most `rank` of them.
TensorType aligned(const TensorType& operand, int rank);

// Gives `grad`, of the shape of the result, to an input that may have been broadcast, or is a parameter.
Status set_broadcast_grad(GradBuilder& builder, int input, ValueId grad);

// Reads an operand as if it had the shape of the result: f32, in the result's order in memory.
class BroadcastReader {
 public:
  // REQUIRES: broadcast() of these types succeeds. `rows`: of the row block.
  BroadcastReader(const TensorType& operand, const TensorType& result, int64_t rows);

  // Whether the operand has the elements of the result, in the same order: then there is nothing to copy.
  bool is_whole() const { return is_whole_; }
  // The number of elements after which the operand repeats, 1 for a single number; 0: it does not.
  int64_t period() const;
  // Elements of the innermost run, which follow one another in memory or are one that repeats; whether runs are read
  // without a copy: f32 that follow one another.
  int64_t run() const { return dims_.back(); }
  bool lies_there() const { return is_f32_ && steps_.back() == 1; }
  // The address of `n` elements from `begin` on: of the operand itself where they lie there in f32, one after the
  // other, else of `block`, to which they are copied.
  const float* read(const std::byte* operand, int64_t begin, int64_t n, float* block) const;

 private:
  template <typename T>
  const float* read_as(const T* operand, int64_t begin, int64_t n, float* block) const;

  bool is_f32_ = true;
  bool is_whole_ = true;  // dims_ is one run
  std::vector<int64_t> dims_;
  std::vector<int64_t> steps_;
};

}  // namespace xrun::ops
