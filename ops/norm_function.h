// NormFunction: the function of one number that follows a batch norm in its node (attribute `then`), and its gradient.
// Rows are read once: what the norm gives is never stored.
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
  const float* slope = nullptr;  // of a prelu behind the norm
};

// The operations of `then`; 0 without one.
double function_operations(const Attrs& attrs);

class NormFunction {
 public:
  enum class Way { kForward, kGradient };

  // `spec`: of `bn` or of its gradient, whose input 0 is x; `channels`: of its rows. Errors: XG0303 for a text that is
  // no function.
  static Result<NormFunction> make(const KernelSpec& spec, int64_t channels, Way way);

  Bytes scratch_bytes() const;  // of a thread, aligned to 64

  // REQUIRES: Way::kForward. y = function(bn(x)) of rows [rows, channels] of the spec's type; bn(x) is rounded to it
  // first.
  void run(const NormColumns& p, const std::byte* x, int64_t rows, std::byte* y, std::byte* scratch) const;
  // REQUIRES: Way::kGradient. g = dy · function'(bn(x)) of some channels, in rows of the spec's type; `g` is the first
  // of these channels.
  void run_gradient(const NormColumns& p, const std::byte* x, const std::byte* dy, int64_t rows, Range some,
                    std::byte* g, std::byte* scratch) const;

 private:
  NormFunction(const ScalarExpr& function, const KernelSpec& spec, int64_t channels, Way way);
  struct Operands;
  void run_loop(const NormColumns& p, const Operands& all, int64_t rows, Range some, std::byte* scratch) const;

  int64_t channels_;
  int64_t run_rows_;   // rows that one loop computes, so that short rows do not cost a call each
  Bytes value_bytes_;  // of an element
  ElementLoop loop_;
};

}  // namespace xrun::ops
