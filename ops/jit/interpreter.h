// Interpreter: computes a scalar expression for many elements without a compiler, a block at a time: each operation is
// one loop over the lanes of a block, and intermediate results stay in the first-level cache. Operations are those of
// ops/lane_ops.h on f32, so that all instruction sets, and compiled loops, give the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/base/units.h"
#include "graph/scalar_expr.h"
#include "ops/isa.h"

namespace xrun::ops {

inline constexpr int64_t kScalarBlock = 256;  // elements

class Interpreter {
 public:
  // REQUIRES: the inputs of `expr` are numbered below `inputs`.
  Interpreter(const ScalarExpr& expr, int inputs, Isa isa);

  // Memory of one thread, aligned to 64: the list of addresses and the blocks of intermediate results.
  Bytes scratch_bytes() const { return blocks_at_ + blocks_ * kBlockBytes; }
  int results() const { return static_cast<int>(results_.size()); }

  // The list of addresses in `scratch`. The caller sets those of the inputs, which come first: f32 that may be read up
  // to the count below, rounded up to whole lanes.
  const float** inputs(std::byte* scratch) const { return reinterpret_cast<const float**>(scratch); }
  // Computes `n` elements, at most a block. Results stay valid until the next call with this scratch.
  void run(std::byte* scratch, int64_t n) const;
  const float* result(const std::byte* scratch, int index) const;

 private:
  using Loop = void (*)(const float* a, const float* b, const float* c, float* y, int64_t n);
  struct Operation {
    Loop loop = nullptr;
    int32_t args[3] = {0, 0, 0};  // slots
    int32_t result = 0;           // slot
  };
  static constexpr Bytes kBlockBytes = kScalarBlock * static_cast<Bytes>(sizeof(float));

  // A slot is an index into the list of addresses: inputs first, then constants, then blocks of scratch.
  int32_t input_count_ = 0;
  int32_t blocks_ = 0;
  Bytes blocks_at_ = 0;
  std::shared_ptr<const float[]> constants_;  // a block of equal numbers for each
  int32_t constant_count_ = 0;
  std::vector<Operation> operations_;
  std::vector<int32_t> results_;
};

}  // namespace xrun::ops
