// The clock of a run: converts between steps, samples and epochs, and decides which events are due after a step.
#pragma once

#include <cstdint>

#include "graph/settings/rate_curve.h"
#include "graph/settings/specs.h"
#include "graph/settings/step_sizes.h"

namespace xrun::runtime {

class RunClock {
 public:
  // `samples`: samples in an epoch.
  RunClock(const TrainSpec& train, int64_t samples);

  int64_t steps() const { return sizes_.steps(); }  // steps of the whole run
  const StepSizes& sizes() const { return sizes_; }
  int64_t samples_after(int64_t steps) const { return sizes_.begin_of(steps) * unit_; }
  double epochs_after(int64_t steps) const;
  // The number of epochs in the run: a whole number if an epoch ends within the last step, else rounded up.
  double epochs() const;
  // The learning rate of step `step`, counted from 0.
  double rate(int64_t step) const { return curve_.at(sizes_.begin_of(step)); }

  // Whether an event with the period `every` is due when `done` steps are done. It is due at the first step at or after
  // each multiple of the period. A period in steps counts steps, whatever the size of each step.
  bool is_due(const TrainSpan& every, int64_t done) const;
  // Whether at least `span` lies between `from` and `to`, two numbers of steps done.
  bool lies_between(const TrainSpan& span, int64_t from, int64_t to) const;

 private:
  double progress(const TrainSpan& span, int64_t done) const;  // done steps as a multiple of `span`

  int64_t samples_;
  int64_t unit_;
  StepSizes sizes_;
  Curve curve_;
};

}  // namespace xrun::runtime
