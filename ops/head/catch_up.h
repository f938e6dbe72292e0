// Catches up rows that steps did not use, so that they become what dense training would have made of them
// (docs/internals/algorithms.md, "Rows that no step uses"). If the gradient is zero, SGD with momentum mu and without
// decay does v = mu·v, w -= rate·v (w -= rate·mu·v in Nesterov's form). So n idle steps after step `last` do
//   w -= v · S,  S = sum of rate(last + k) · mu^k over k = 1 .. n    (mu^(k + 1) in Nesterov's form)
//   v *= mu^n
// S is equal for all rows with the same `last`, so it is kept in a table with one entry for each step of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/layouts/head_shape.h"
#include "ops/head/head.h"

namespace xrun::ops {

// The table for a training run. Its values depend only on the rates and the momentum, not on when `advance` is called.
// Passes may read it concurrently, but `advance` must run between them.
class IdleSteps {
 public:
  // REQUIRES: 0 < momentum <= kMostCatchUpMomentum (graph/settings/group_rules.h).
  IdleSteps(double momentum, bool nesterov);

  // Adds the steps before `step`, which is the next one to run. rate(i) is the learning rate of step i.
  void advance(int64_t step, const std::function<double(int64_t)>& rate);
  int64_t step() const { return static_cast<int64_t>(sums_.size()); }

  // Whether a row that was last updated in step `last` has missed steps. A row without any update (-1) has a velocity
  // of zero and misses no step.
  bool missed(int32_t last) const { return last >= 0 && last < step() - 1; }
  // Return S and mu^n for a row that was last updated in step `last`. REQUIRES: missed(last).
  double shift(int32_t last) const { return sums_[static_cast<size_t>(last)]; }
  double decay(int32_t last) const {
    const auto idle = static_cast<size_t>(step() - 1 - last);
    return idle < powers_.size() ? powers_[idle] : 0;
  }

 private:
  // powers_[k] = mu^k, for all k for which mu^k is large enough to change an f32 sum whose first term has factor 1. The
  // sums S end at the last of these k.
  std::vector<double> powers_;
  double factor_;             // factor for the shifts: 1, or mu in Nesterov's form
  std::vector<double> sums_;  // sums_[last] is S for rows that were last updated in step `last`
};

// These functions apply the missed steps to one row of a shard; `weight`, `bias` and `velocity` hold its stored values.
// A row that missed no step does not change. catch_up_weight returns whether the weights have changed.
bool catch_up_weight(const HeadCatchUp& by, int64_t row, int64_t dim, float* weight);
void catch_up_bias(const HeadCatchUp& by, int64_t row, float* bias);
void catch_up_velocity(const HeadCatchUp& by, int64_t row, int64_t n, float* velocity);

// Subtracts the effect of missed steps from several rows: rows -= velocity · shift, with one shift for each row. `rows`
// and `velocity` are [shifts, elements of a row]. The effect is that of catch_up_weight and catch_up_bias.
void shift_rows(std::span<const float> shifts, std::span<const float> velocity, std::span<float> rows);

}  // namespace xrun::ops
