// ElementLoop computes an element-wise loop: with compiled code if there is any, otherwise with the interpreter. Both
// give the same bits.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/base/units.h"
#include "ops/jit/interpreter.h"
#include "ops/jit/loop_form.h"

namespace xrun::ops {

inline constexpr size_t kMostOperands = 64;  // maximum of inputs and outputs of a loop together

// Size above which the results of a call are stored past the caches (LoopForm::streams). A result of this size would
// leave the caches before it is read again, and storing it past them avoids reading its cache lines first.
inline constexpr Bytes kStreamed = Bytes{16} << 20;

class ElementLoop {
 public:
  // If `compile` is set, gets compiled code (ops/jit/compiler.h), which takes milliseconds; a loop that only describes
  // itself for a plan does not need it. REQUIRES: an input for each one that `expr` reads, an output for each of its
  // results, and at most kMostOperands inputs and outputs together.
  ElementLoop(LoopForm form, Isa isa, bool compile);

  // Size of the working memory of one thread, aligned to 64. It is equal for compiled and interpreted loops, so that
  // plans do not depend on the compiler.
  Bytes scratch_bytes() const;
  // The part of the scratch for one block (kScalarBlock) of elements of an input in f32. A caller may store an input
  // there and pass it to `run`.
  float* block(std::byte* scratch, size_t input) const {
    return reinterpret_cast<float*>(scratch + interpreter_.scratch_bytes()) +
           static_cast<int64_t>(input) * kScalarBlock;
  }
  bool compiled() const { return code_ != nullptr; }

  // Computes `n` elements. An output may be the same memory as an input if both begin with the same element. Several
  // threads may call it at once, each with its own scratch.
  void run(const void* const* inputs, void* const* outputs, int64_t n, std::byte* scratch) const;
  // Must be called after a thread's last call of `run`, so that other threads see results stored past the caches.
  void finish() const;

 private:
  void interpret(const void* const* inputs, void* const* outputs, int64_t n, std::byte* scratch) const;
  void run_rest(const void* const* inputs, void* const* outputs, int64_t begin, int64_t n) const;

  LoopForm form_;
  Isa isa_;
  Interpreter interpreter_;
  bool in_place_ = false;  // whether no result is simply an input
  LoopCode code_ = nullptr;
  LoopCode streaming_ = nullptr;  // the code that is compiled with LoopForm::streams
};

}  // namespace xrun::ops
