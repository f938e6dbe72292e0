// An element-wise loop over a row block with broadcast operands.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/types/scalar_expr.h"
#include "ops/jit/element_loop.h"
#include "ops/loops/broadcast_runs.h"
#include "ops/op.h"
#include "ops/parts.h"

namespace xrun::ops {

// Computes a scalar expression for each element of a row block. Broadcast operands are read in place if their elements
// are contiguous f32; otherwise they are copied to blocks of f32. A block that repeats, such as a vector with an
// element for each channel, is copied only once.
class BroadcastLoop {
 public:
  // `expr` reads the inputs of the spec and gives its outputs. REQUIRES: broadcast() of their types succeeds.
  BroadcastLoop(const KernelSpec& spec, ScalarExpr expr);
  // Where results are stored. Use kToCaches if the caller reads the results at once (run_pieces).
  enum class Stores { kToCaches, kPastThemWhereLarge };
  BroadcastLoop(const KernelSpec& spec, ScalarExpr expr, Stores stores);

  int64_t elements() const { return elements_; }
  Bytes scratch_bytes() const { return loop_.scratch_bytes(); }
  // Computes the elements of `some`. Several threads may call it at once, each with its own scratch.
  void run(const KernelCall& call, Range some) const;
  // Computes the elements of `some` in pieces of at most `most` elements. results(begin, outputs) must write to
  // `outputs` the address of element `begin` of each result; done(begin, n) is called after each piece.
  template <typename Results, typename Done>
  void run_pieces(std::span<const TensorView> inputs, std::byte* scratch, Range some, int64_t most,
                  const Results& results, const Done& done) const {
    std::array<const void*, kMostOperands> read;
    std::array<void*, kMostOperands> outputs;
    bool has_read = false;  // the previous piece began with a period, so its copies of broadcast operands can be reused
    for (int64_t begin = some.begin, n = 0; begin < some.end; begin += n) {
      n = piece(begin, std::min(some.end, begin + most));
      has_read = read_operands(inputs, scratch, begin, n, has_read, read.data());
      results(begin, outputs.data());
      loop_.run(read.data(), outputs.data(), n, scratch);
      done(begin, n);
    }
    loop_.finish();
  }

 private:
  struct Operand {
    BroadcastReader reader;
    LoopInput kind = LoopInput::kF32;
    Bytes size = 0;  // size of an element; 0 if the operand is broadcast
    bool is_read() const { return size == 0 && kind != LoopInput::kUniform; }
  };
  static std::vector<Operand> operands_of(const KernelSpec& spec);
  static LoopForm form_of(const KernelSpec& spec, const std::vector<Operand>& operands, ScalarExpr expr, Stores stores);
  void choose_pieces();
  int64_t piece(int64_t begin, int64_t end) const;
  bool read_operands(std::span<const TensorView> inputs, std::byte* scratch, int64_t begin, int64_t n, bool has_read,
                     const void** read) const;

  int64_t elements_ = 0;  // elements of a result in the row block
  Bytes result_size_ = 0;
  std::vector<Operand> operands_;
  int64_t period_ = 0;  // number of elements after which all broadcast operands repeat; 0: they do not repeat
  int64_t each_ = 0;    // number of elements in a piece; a multiple of the period if there is one
  int64_t run_ = 0;     // without a period: pieces end at multiples of this number, where runs end; 0: anywhere
  ElementLoop loop_;
};

}  // namespace xrun::ops
