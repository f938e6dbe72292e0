// OwnUpdate: the update rule of an optimizer that is written in the language, applied to contiguous ranges of f32
// weights.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/settings/update_rule.h"
#include "ops/jit/element_loop.h"
#include "ops/jit/gpu_loop.h"

namespace xrun::ops {

struct UpdateScalars;  // ops/optimizer/optimizer.h

class OwnUpdate {
 public:
  // Makes the update; it is compiled for `compiled_for` if that is given (ops/jit/compiler.h), else interpreted.
  // Errors: XG0216 if the update, or the norms of one level together, need more memory than the stack of a thread may
  // provide.
  static Result<OwnUpdate> make(UpdateRule rule, std::optional<Isa> compiled_for);

  int states() const { return rule_.states; }
  int norms() const { return static_cast<int>(rule_.norms.size()); }
  // Returns the number of levels of norms. The norms of a level read only norms of lower levels.
  int levels() const { return static_cast<int>(levels_.size()); }
  // Computes the numbers of one step that the update of an element reads, in f64 and with all norms 0. `step` counts
  // from 0.
  std::array<float, kMostUpdateScalars> scalars(double rate, int64_t step, double decay) const;
  // Sets the numbers in `scalars` that depend on norms. REQUIRES: `norms` has norms() values; norms of higher levels
  // that are not known yet may be arbitrary.
  void set_norms(std::span<const double> norms, std::array<float, kMostUpdateScalars>& scalars) const;
  // Updates n weights with the instructions of `isa`. `u` determines how gradients are clipped first; `u.own` has the
  // numbers from scalars() and set_norms(). `states` has states() addresses. Several threads may call it at once.
  void run(Isa isa, const UpdateScalars& u, float* w, const float* g, std::span<float* const> states, int64_t n) const;
  // Sets `sums`, which has an element for each norm, to the sums of squares of n weights for the norms of one level, in
  // f64. Elements of other levels do not change.
  void norm_squares(Isa isa, int level, const UpdateScalars& u, const float* w, const float* g,
                    std::span<const float* const> states, int64_t n, std::span<double> sums) const;

 private:
  // The loop of a function, for both widths of instructions.
  struct Loops {
    Loops(const LoopForm& form, std::optional<Isa> compiled_for);
    const ElementLoop& of(Isa isa) const { return isa >= Isa::kAvx512 ? wide : narrow; }
    ElementLoop narrow;  // loop in AVX2 instructions
    ElementLoop wide;    // loop in AVX-512 instructions
  };
  OwnUpdate(UpdateRule rule, std::optional<Isa> compiled_for);
  const void** uniform_inputs(const UpdateScalars& u, const void** next) const;

  UpdateRule rule_;
  Loops update_;
  std::vector<int> level_of_;  // level of each norm
  std::vector<Loops> levels_;  // one loop for each level, which computes all norms of the level
};

// The kernels of an update on a GPU. Their operands are, in this order, weight, gradient and states (an element each),
// the numbers of OwnUpdate::scalars() that the rule has, and grad_scale and grad_limit of UpdateScalars (one f32 in
// memory each). The results have the bits of `update` and `norm_squares` (ops/optimizer/optimizer.h, update_norms.h).
//
// update_kernel writes the weight and the states, which may be the memory of the operands. Its next operand is one f32:
// unless it is 0, no result differs from its old value. With `row` > 0, a further operand has an f32 for each row of
// `row` elements, and rows whose number is 0 keep their weights and states. With `keeps_mean` it also moves the running
// mean of the weight: two more operands, the mean and the fraction 1 - ema in memory, and one more result. norm_kernel
// writes, for each norm of the level, a sum of squares in f64 for every `piece` elements.
GpuLoop update_kernel(const UpdateRule& rule, bool keeps_mean, int64_t row = 0);
GpuLoop norm_kernel(const UpdateRule& rule, int level, int64_t piece);

}  // namespace xrun::ops
