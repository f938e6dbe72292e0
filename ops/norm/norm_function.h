// NormFunction: the scalar function that a node applies to the result of its batch norm (attribute `then`), and the
// gradient of this function. Rows are read once; the result of the norm is not stored.
#pragma once

#include <cstdint>

#include "graph/base/result.h"
#include "ops/jit/element_loop.h"
#include "ops/op.h"
#include "ops/parts.h"

namespace xrun::ops {

// The numbers of each channel: bn(x) = (x - mean) · scale + bias.
struct NormColumns {
  const float* mean = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const float* rstd = nullptr;
  const float* slope = nullptr;  // slope of a prelu after the norm
};

// Returns the number of operations of the attribute `then`, or 0 without it.
double function_operations(const Attrs& attrs);

class NormFunction {
 public:
  enum class Way { kForward, kGradient };

  // `spec` is the spec of a batch norm or of its gradient; input 0 is x. `channels` is the number of channels of its
  // rows. Errors: XG0303 if the text of `then` is not a function.
  static Result<NormFunction> make(const KernelSpec& spec, int64_t channels, Way way);

  Bytes scratch_bytes() const;  // working memory of one thread, aligned to 64

  // Computes y = function(bn(x)) for rows [rows, channels] of the spec's type. bn(x) is first rounded to that type, as
  // if it had been stored. REQUIRES: Way::kForward.
  void run(const NormColumns& p, const std::byte* x, int64_t rows, std::byte* y, std::byte* scratch) const;
  // Computes g = dy · function'(bn(x)) for the channels `some`, in rows of the spec's type. `g` points to the first of
  // these channels. REQUIRES: Way::kGradient.
  void run_gradient(const NormColumns& p, const std::byte* x, const std::byte* dy, int64_t rows, Range some,
                    std::byte* g, std::byte* scratch) const;

 private:
  NormFunction(const ScalarExpr& function, const KernelSpec& spec, int64_t channels, Way way);
  struct Operands;
  void run_loop(const NormColumns& p, const Operands& all, int64_t rows, Range some, std::byte* scratch) const;

  int64_t channels_;
  int64_t run_rows_;   // rows per call of the loop; several if rows are short, to save calls
  Bytes value_bytes_;  // size of an element of the rows
  ElementLoop loop_;
};

}  // namespace xrun::ops
