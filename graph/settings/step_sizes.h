// The sizes of the steps of a run. A run counts its progress in units of TrainSpec::unit() samples: a step is one unit,
// or several if the batch grows.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/settings/specs.h"

namespace xrun {

// The length of a run in whole units, rounded up. `samples`: samples of an epoch.
int64_t units_of_run(const TrainSpec& train, int64_t samples);

// Consecutive steps of one size.
struct SizedSteps {
  int64_t first_step = 0;
  int64_t begin = 0;  // first unit of the first of these steps
  int64_t units = 1;  // units of each step
};

// The steps of a run. With a growing batch, the step at unit t has n(t) units, where a and b are the spans `after` and
// `over`:
//   n(t) = round(1 + (times - 1) · (1 - cos(pi · (t - a) / b)) / 2)   for a <= t <= a + b
// Before that range a step has one unit, and after it `times` units. The last step may extend beyond the end of the
// run. Source: "continuous" growth of FCCS, Song et al., "Large-Scale Training System for 100-Million Classification at
// Alibaba", KDD 2020; the formula is ours, since theirs is not public.
class StepSizes {
 public:
  StepSizes(const TrainSpec& train, int64_t samples);

  int64_t steps() const { return steps_; }  // steps of the whole run
  int64_t units_of(int64_t step) const { return run_of(step).units; }
  // The first unit of a step, which equals the number of units done before it. `step` may lie after the end of the run.
  int64_t begin_of(int64_t step) const;
  // The first step that begins with unit `unit` or a later one.
  int64_t step_at(int64_t unit) const;
  // The steps in order, as groups of one size. The last group has no end.
  const std::vector<SizedSteps>& all() const { return sizes_; }

 private:
  const SizedSteps& run_of(int64_t step) const;

  std::vector<SizedSteps> sizes_;
  int64_t steps_ = 0;
};

}  // namespace xrun
