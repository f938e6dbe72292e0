// OwnUpdate: the update of an optimizer that is written in the language, over flat ranges of f32 weights.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/update_rule.h"
#include "ops/jit/element_loop.h"

namespace xrun::ops {

struct UpdateScalars;  // ops/optimizer.h

class OwnUpdate {
 public:
  // Compiled for `compiled_for`, if given (ops/jit/compiler.h). Errors: XG0216 for a rule whose update, or norms of one
  // level together, need more memory than the stack of a thread may provide.
  static Result<OwnUpdate> make(UpdateRule rule, std::optional<Isa> compiled_for);

  int states() const { return rule_.states; }
  int norms() const { return static_cast<int>(rule_.norms.size()); }
  // The norms of one level read only those of lower levels.
  int levels() const { return static_cast<int>(levels_.size()); }
  // The numbers that elements read in one step, computed in f64 with all norms 0. `step` counts from 0.
  std::array<float, kMostUpdateScalars> scalars(double rate, int64_t step, double decay) const;
  // Sets those that depend on norms. REQUIRES: `norms` has norms() values; those of higher levels may be arbitrary.
  void set_norms(std::span<const double> norms, std::array<float, kMostUpdateScalars>& scalars) const;
  // Updates n weights with the instructions of `isa`; gradients are clipped according to `u`, and `u.own` holds the
  // numbers of the tensor. `states` has states() addresses. Any number of threads.
  void run(Isa isa, const UpdateScalars& u, float* w, const float* g, std::span<float* const> states, int64_t n) const;
  // Sets the sums of squares of one level, over n weights, in f64; `sums` has one for each norm. Writes nothing else.
  void norm_squares(Isa isa, int level, const UpdateScalars& u, const float* w, const float* g,
                    std::span<const float* const> states, int64_t n, std::span<double> sums) const;

 private:
  // A function of an element, for both widths of instructions.
  struct Loops {
    Loops(const LoopForm& form, std::optional<Isa> compiled_for);
    const ElementLoop& of(Isa isa) const { return isa >= Isa::kAvx512 ? wide : narrow; }
    ElementLoop narrow;  // AVX2
    ElementLoop wide;    // AVX-512
  };
  OwnUpdate(UpdateRule rule, std::optional<Isa> compiled_for);
  const void** uniform_inputs(const UpdateScalars& u, const void** next) const;

  UpdateRule rule_;
  Loops update_;
  std::vector<int> level_of_;  // index: norm
  std::vector<Loops> levels_;  // the norms of a level in one loop
};

}  // namespace xrun::ops
