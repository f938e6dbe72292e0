// Interpreter computes a scalar expression for many elements without a compiler, one block of elements at a time. Each
// operation is one loop over the block, and intermediate results stay in the first-level cache. It uses the operations
// of ops/simd/lane_ops.h on f32, so all instruction sets, and compiled loops, give the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/base/units.h"
#include "graph/types/scalar_expr.h"
#include "ops/simd/isa.h"

namespace xrun::ops {

inline constexpr int64_t kScalarBlock = 256;  // elements in a block

class Interpreter {
 public:
  // REQUIRES: `expr` reads only inputs with numbers below `inputs`.
  Interpreter(const ScalarExpr& expr, int inputs, Isa isa);

  // Size of the working memory of one thread, aligned to 64: a list of addresses and the blocks of intermediate
  // results.
  Bytes scratch_bytes() const { return blocks_at_ + blocks_ * kBlockBytes; }
  int results() const { return static_cast<int>(results_.size()); }

  // Returns the list of addresses in `scratch`, which begins with the inputs. The caller must set these to arrays of
  // f32 that can be read up to the number of elements, rounded up to whole lanes.
  const float** inputs(std::byte* scratch) const { return reinterpret_cast<const float**>(scratch); }
  // Computes `n` elements, at most one block. The results stay valid until the next call with this scratch.
  void run(std::byte* scratch, int64_t n) const;
  const float* result(const std::byte* scratch, int index) const;

 private:
  using Loop = void (*)(const float* a, const float* b, const float* c, float* y, int64_t n);
  struct Operation {
    Loop loop = nullptr;
    int32_t args[3] = {0, 0, 0};  // slots of the arguments
    int32_t result = 0;           // slot of the result
  };
  static constexpr Bytes kBlockBytes = kScalarBlock * static_cast<Bytes>(sizeof(float));

  // A slot is an index into the list of addresses: inputs first, then constants, then blocks of scratch.
  int32_t input_count_ = 0;
  int32_t blocks_ = 0;
  Bytes blocks_at_ = 0;
  std::shared_ptr<const float[]> constants_;  // one block of equal numbers for each constant
  int32_t constant_count_ = 0;
  std::vector<Operation> operations_;
  std::vector<int32_t> results_;
};

}  // namespace xrun::ops
