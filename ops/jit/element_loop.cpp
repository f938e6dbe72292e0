// If there is compiled code, it computes all whole groups of sixteen elements, and the remaining elements are computed
// on copies (run_rest). Otherwise the interpreter computes one block after the other: inputs that are not f32 in memory
// are converted to blocks in the scratch, and results are converted to the type of their output.
#include "ops/jit/element_loop.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

#include "ops/jit/compiler.h"
#include "ops/simd/convert.h"
#include "ops/simd/simd.h"
#include "ops/simd/square_sums.h"

namespace xrun::ops {
namespace {

bool is_narrow(LoopInput input) { return input == LoopInput::kBF16 || input == LoopInput::kF16; }
// REQUIRES: is_narrow(input).
DType type_of(LoopInput input) { return input == LoopInput::kF16 ? DType::kF16 : DType::kBF16; }

int64_t bytes_of(LoopInput input) { return is_narrow(input) ? sizeof(Bf16) : sizeof(float); }

const std::byte* element(const void* operand, LoopInput input, int64_t i) {
  return static_cast<const std::byte*>(operand) + (input == LoopInput::kUniform ? 0 : i * bytes_of(input));
}

std::byte* element(void* operand, DType dtype, int64_t i) {
  return static_cast<std::byte*>(operand) + i * xrun::size_of(dtype);
}

bool is_aligned(const void* operand) { return reinterpret_cast<uintptr_t>(operand) % 64 == 0; }

LoopForm pruned(LoopForm form) {
  form.expr.prune();
  return form;
}

}  // namespace

ElementLoop::ElementLoop(LoopForm form, Isa isa, bool compile)
    : form_(pruned(std::move(form))), isa_(isa), interpreter_(form_.expr, static_cast<int>(form_.inputs.size()), isa) {
  in_place_ = std::ranges::none_of(form_.expr.results(),
                                   [&](ScalarId id) { return form_.expr.node(id).op == ScalarOp::kInput; });
  if (compile) {
    streaming_ = form_.streams ? compile_loop(form_, isa) : nullptr;
    form_.streams = false;
    code_ = compile_loop(form_, isa);
  }
}

// The scratch has the interpreter's memory, then a block in f32 for each input.
Bytes ElementLoop::scratch_bytes() const {
  return interpreter_.scratch_bytes() +
         static_cast<Bytes>(form_.inputs.size()) * kScalarBlock * static_cast<Bytes>(sizeof(float));
}

void ElementLoop::run(const void* const* inputs, void* const* outputs, int64_t n, std::byte* scratch) const {
  if (code_ == nullptr) {
    interpret(inputs, outputs, n, scratch);
    return;
  }
  const int64_t whole = n / kLanes * kLanes;
  if (whole > 0) {
    const bool streams = streaming_ != nullptr && std::all_of(outputs, outputs + form_.outputs.size(), is_aligned);
    (streams ? streaming_ : code_)(inputs, outputs, whole);
  }
  if (whole < n) {
    run_rest(inputs, outputs, whole, n - whole);
  }
}

void ElementLoop::finish() const {
  if (streaming_ != nullptr) {
    _mm_sfence();
  }
}

void ElementLoop::interpret(const void* const* inputs, void* const* outputs, int64_t n, std::byte* scratch) const {
  const float** const addresses = interpreter_.inputs(scratch);
  for (size_t i = 0; i < form_.inputs.size(); ++i) {
    float* const own = block(scratch, i);
    addresses[i] = own;
    if (form_.inputs[i] == LoopInput::kUniform) {
      std::fill_n(own, kScalarBlock, *static_cast<const float*>(inputs[i]));
    }
  }
  for (int64_t begin = 0; begin < n; begin += kScalarBlock) {
    const int64_t count = std::min(kScalarBlock, n - begin);
    for (size_t i = 0; i < form_.inputs.size(); ++i) {
      const std::byte* const from = element(inputs[i], form_.inputs[i], begin);
      float* const own = block(scratch, i);
      if (is_narrow(form_.inputs[i])) {
        convert(isa_, type_of(form_.inputs[i]), from, DType::kF32, own, count);
      } else if (form_.inputs[i] == LoopInput::kF32) {
        // An input is read in place if no element after its last one would be read, and if no result is simply an
        // input, which might be overwritten.
        const auto* const numbers = reinterpret_cast<const float*>(from);
        if (in_place_ && count % kLanes == 0) {
          addresses[i] = numbers;
        } else {
          std::memmove(own, numbers, static_cast<size_t>(count) * sizeof(float));
          addresses[i] = own;
        }
      }
    }
    interpreter_.run(scratch, count);
    for (size_t r = 0; r < form_.outputs.size(); ++r) {
      const float* const result = interpreter_.result(scratch, static_cast<int>(r));
      if (form_.squares) {
        run_for<SquaresBody>(isa_, result, count, static_cast<SquareLanes*>(outputs[r]));
        continue;
      }
      std::byte* const to = element(outputs[r], form_.outputs[r], begin);
      if (xrun::is_narrow(form_.outputs[r])) {
        convert(isa_, DType::kF32, result, form_.outputs[r], to, count);
      } else {
        std::copy_n(result, count, reinterpret_cast<float*>(to));
      }
    }
  }
}

// Computes the last elements, fewer than a group of sixteen, on copies that have space for whole lanes. Only the first
// n lanes of results and of running sums are copied back, since the other lanes have no elements.
void ElementLoop::run_rest(const void* const* inputs, void* const* outputs, int64_t begin, int64_t n) const {
  struct alignas(64) Lanes {
    std::byte bytes[kLanes * sizeof(double)];
  };
  Lanes copies[kMostOperands];
  const void* from[kMostOperands];
  void* to[kMostOperands];
  Lanes* copy = copies;
  for (size_t i = 0; i < form_.inputs.size(); ++i, ++copy) {
    const int64_t count = form_.inputs[i] == LoopInput::kUniform ? 1 : n;
    std::memset(copy, 0, kLanes * sizeof(float));
    std::memcpy(copy, element(inputs[i], form_.inputs[i], begin),
                static_cast<size_t>(count * bytes_of(form_.inputs[i])));
    from[i] = copy;
  }
  for (size_t r = 0; r < form_.outputs.size(); ++r, ++copy) {
    to[r] = copy;
    if (form_.squares) {
      std::memcpy(copy, outputs[r], sizeof(SquareLanes));
    }
  }
  code_(from, to, kLanes);
  for (size_t r = 0; r < form_.outputs.size(); ++r) {
    if (form_.squares) {
      std::memcpy(outputs[r], to[r], static_cast<size_t>(n) * sizeof(double));
    } else {
      std::memcpy(element(outputs[r], form_.outputs[r], begin), to[r],
                  static_cast<size_t>(n * xrun::size_of(form_.outputs[r])));
    }
  }
}

}  // namespace xrun::ops
