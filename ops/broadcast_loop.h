// An element-wise loop over a row block with broadcast operands.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/scalar_expr.h"
#include "ops/broadcast_runs.h"
#include "ops/jit/element_loop.h"
#include "ops/op.h"
#include "ops/parts.h"

namespace xrun::ops {

// Broadcast operands are read in place if their elements are contiguous f32; otherwise they are copied to blocks of
// f32. Blocks that repeat, such as those of a vector with an element for each channel, are copied once.
class BroadcastLoop {
 public:
  // `expr` reads the inputs of the spec and gives its outputs. REQUIRES: broadcast() of their types succeeds.
  BroadcastLoop(const KernelSpec& spec, ScalarExpr expr);
  // Results that a caller reads at once (run_pieces) stay in the caches.
  enum class Stores { kToCaches, kPastThemWhereLarge };
  BroadcastLoop(const KernelSpec& spec, ScalarExpr expr, Stores stores);

  int64_t elements() const { return elements_; }
  Bytes scratch_bytes() const { return loop_.scratch_bytes(); }
  // Computes some of the elements. Any number of threads, each with a scratch of its own.
  void run(const KernelCall& call, Range some) const;
  // Computes some of the elements in pieces of at most `most`: results(begin, outputs) gives the address of element
  // `begin` of each result, done(begin, n) follows each piece.
  template <typename Results, typename Done>
  void run_pieces(std::span<const TensorView> inputs, std::byte* scratch, Range some, int64_t most,
                  const Results& results, const Done& done) const {
    std::array<const void*, kMostOperands> read;
    std::array<void*, kMostOperands> outputs;
    bool has_read = false;  // whether the previous piece read the operands that repeat
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
  int64_t period_ = 0;  // elements after which all broadcast operands repeat; 0: they do not repeat
  int64_t each_ = 0;    // elements of a piece; with a period, whole periods
  int64_t run_ = 0;     // if they do not repeat: pieces end where contiguous elements end; 0: anywhere
  ElementLoop loop_;
};

}  // namespace xrun::ops
