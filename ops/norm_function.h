// NormFunction: the function of one number that follows a batch norm in its node (attribute `then`), and its gradient.
// Rows are read once: the result of the norm is never stored.
#pragma once

#include <cstdint>

#include "graph/base/result.h"
#include "ops/jit/element_loop.h"
#include "ops/op.h"
#include "ops/parts.h"

namespace xrun::ops {

// Per channel: bn(x) = (x - mean) · scale + bias.
struct NormColumns {
  const float* mean = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const float* rstd = nullptr;
  const float* slope = nullptr;  // slope of a prelu after the norm
};

// The number of operations of `then`; 0 without it.
double function_operations(const Attrs& attrs);

class NormFunction {
 public:
  enum class Way { kForward, kGradient };

  // `spec`: that of `bn` or of its gradient, whose input 0 is x; `channels`: those of its rows. Errors: XG0303 if the
  // text is not a function.
  static Result<NormFunction> make(const KernelSpec& spec, int64_t channels, Way way);

  Bytes scratch_bytes() const;  // memory of a thread, aligned to 64

  // REQUIRES: Way::kForward. y = function(bn(x)) for rows [rows, channels] of the spec's type; bn(x) is first rounded
  // to that type.
  void run(const NormColumns& p, const std::byte* x, int64_t rows, std::byte* y, std::byte* scratch) const;
  // REQUIRES: Way::kGradient. g = dy · function'(bn(x)) for some channels, in rows of the spec's type; `g` points to
  // the first of these channels.
  void run_gradient(const NormColumns& p, const std::byte* x, const std::byte* dy, int64_t rows, Range some,
                    std::byte* g, std::byte* scratch) const;

 private:
  NormFunction(const ScalarExpr& function, const KernelSpec& spec, int64_t channels, Way way);
  struct Operands;
  void run_loop(const NormColumns& p, const Operands& all, int64_t rows, Range some, std::byte* scratch) const;

  int64_t channels_;
  int64_t run_rows_;   // rows that one loop computes, so that short rows do not cost a call each
  Bytes value_bytes_;  // size of an element
  ElementLoop loop_;
};

}  // namespace xrun::ops
