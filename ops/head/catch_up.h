// Rows that no step uses, as dense training would have them (docs/internals/algorithms.md, "Rows that no step uses").
// SGD with momentum mu and without decay does v = mu·v, w -= rate·v if the gradient is zero (w -= rate·mu·v in
// Nesterov's form). So n idle steps after step `last` do
//   w -= v · S,  S = sum of rate(last + k) · mu^k over k = 1 .. n    (mu^(k + 1) in Nesterov's form)
//   v *= mu^n
// S is equal for all rows with the same `last`, so a table has it for every step of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/head_shape.h"
#include "ops/head.h"

namespace xrun::ops {

// The table of a run. Its values depend only on rates and momentum, not on the calls of `advance`. Passes may read it
// concurrently; `advance` runs between them.
class IdleSteps {
 public:
  // REQUIRES: 0 < momentum <= kMostCatchUpMomentum (graph/group_rules.h).
  IdleSteps(double momentum, bool nesterov);

  // Adds the steps before `step`, which runs next. `rate`: the learning rate of a step.
  void advance(int64_t step, const std::function<double(int64_t)>& rate);
  int64_t step() const { return static_cast<int64_t>(sums_.size()); }

  // Whether a row that was last updated in step `last` has missed steps. A row without any update (-1) has a velocity
  // of zero and misses no step.
  bool missed(int32_t last) const { return last >= 0 && last < step() - 1; }
  // S and mu^n. REQUIRES: missed(last).
  double shift(int32_t last) const { return sums_[static_cast<size_t>(last)]; }
  double decay(int32_t last) const {
    const auto idle = static_cast<size_t>(step() - 1 - last);
    return idle < powers_.size() ? powers_[idle] : 0;
  }

 private:
  // mu^k while it can change an f32 sum when added to its first term; the sums also end there.
  std::vector<double> powers_;
  double factor_;             // factor for the shifts: 1, or mu in Nesterov's form
  std::vector<double> sums_;  // index: `last`
};

// Apply the missed steps to a row of a shard; `weight`, `bias` and `velocity` hold its stored values. A row that missed
// no step does not change. catch_up_weight returns whether the weights have changed.
bool catch_up_weight(const HeadCatchUp& by, int64_t row, int64_t dim, float* weight);
void catch_up_bias(const HeadCatchUp& by, int64_t row, float* bias);
void catch_up_velocity(const HeadCatchUp& by, int64_t row, int64_t n, float* velocity);

// rows -= velocity · shift, each [shifts, elements of a row]: the effect of catch_up_weight and catch_up_bias on a row.
void shift_rows(std::span<const float> shifts, std::span<const float> velocity, std::span<float> rows);

}  // namespace xrun::ops
