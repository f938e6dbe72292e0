// OwnUpdate: the update of an optimizer that is written in the language, over flat ranges of f32 weights.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "graph/update_rule.h"
#include "ops/jit/element_loop.h"

namespace xrun::ops {

struct UpdateScalars;  // ops/optimizer.h

class OwnUpdate {
 public:
  // Compiled for `compiled_for`, if any (ops/jit/compiler.h). Errors: XG0216 for a rule that needs more memory than the
  // stack of a thread may give.
  static Result<OwnUpdate> make(UpdateRule rule, std::optional<Isa> compiled_for);

  int states() const { return rule_.states; }
  // The numbers that elements read in one step, computed in f64. `step` counts from 0.
  std::array<float, kMostUpdateScalars> scalars(double rate, int64_t step, double decay) const;
  // Updates n weights by the instructions of `isa`; gradients are clipped as `u` says, and `u.own` holds scalars(). Any
  // number of threads.
  void run(Isa isa, const UpdateScalars& u, float* w, const float* g, float* s0, float* s1, int64_t n) const;

 private:
  OwnUpdate(UpdateRule rule, std::optional<Isa> compiled_for);

  UpdateRule rule_;
  ElementLoop narrow_;  // AVX2
  ElementLoop wide_;    // AVX-512
};

}  // namespace xrun::ops
