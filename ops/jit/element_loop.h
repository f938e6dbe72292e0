// ElementLoop: computes an element-wise loop, with compiled code if available, otherwise with the interpreter; both
// give the same bits.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/base/units.h"
#include "ops/jit/interpreter.h"
#include "ops/jit/loop_form.h"

namespace xrun::ops {

inline constexpr size_t kMostOperands = 64;  // inputs and outputs of a loop

// Results of a kernel's call that are larger than this leave the caches before they are read: storing them past the
// caches (LoopForm::streams) avoids reading their lines first.
inline constexpr Bytes kStreamed = Bytes{16} << 20;

class ElementLoop {
 public:
  // `compile`: asks for compiled code (ops/jit/compiler.h), which takes milliseconds; a loop that is only described for
  // a plan does not need it. REQUIRES: inputs for all that `expr` reads, an output for each of its results, and at most
  // kMostOperands of both together.
  ElementLoop(LoopForm form, Isa isa, bool compile);

  // Memory of one thread, aligned to 64; equal for compiled loops, so that a plan does not depend on them.
  Bytes scratch_bytes() const;
  // Space in the scratch for a block (kScalarBlock) of elements of an input, in f32: it may hold the input of a run.
  float* block(std::byte* scratch, size_t input) const {
    return reinterpret_cast<float*>(scratch + interpreter_.scratch_bytes()) +
           static_cast<int64_t>(input) * kScalarBlock;
  }
  bool compiled() const { return code_ != nullptr; }

  // Computes `n` elements. An output may be an input, with the same first element. Any number of threads, each with its
  // own scratch.
  void run(const void* const* inputs, void* const* outputs, int64_t n, std::byte* scratch) const;
  // Call after the last run of a thread: other threads then see results that were stored past the caches.
  void finish() const;

 private:
  void interpret(const void* const* inputs, void* const* outputs, int64_t n, std::byte* scratch) const;
  void run_rest(const void* const* inputs, void* const* outputs, int64_t begin, int64_t n) const;

  LoopForm form_;
  Isa isa_;
  Interpreter interpreter_;
  bool in_place_ = false;  // no result is simply an input
  LoopCode code_ = nullptr;
  LoopCode streaming_ = nullptr;  // LoopForm::streams
};

}  // namespace xrun::ops
