#include "graph/settings/step_sizes.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/base/check.h"

namespace xrun {
namespace {

// Absorbs rounding errors: 3 epochs of 1000 samples in batches of 10 may come out slightly above or below a whole
// number.
constexpr double kSlack = 1e-9;

// More units or steps than this count as an endless run.
constexpr double kMost = 0x1p50;

int64_t whole(double number) { return static_cast<int64_t>(std::clamp(std::ceil(number), 0.0, kMost)); }

// The unit at which the size of steps grows to n + 1 units, for 1 <= n < times.
double end_of(const GrowthSpec& growth, int64_t n, int64_t samples) {
  const double reached = (static_cast<double>(n) - 0.5) / static_cast<double>(growth.times - 1);
  return growth.after.steps(samples, growth.first) +
         growth.over.steps(samples, growth.first) * std::acos(1 - 2 * reached) / std::numbers::pi;
}

}  // namespace

int64_t units_of_run(const TrainSpec& train, int64_t samples) {
  return whole(train.duration.steps(samples, train.unit()) * (1 - kSlack));
}

StepSizes::StepSizes(const TrainSpec& train, int64_t samples) : sizes_{{}} {
  for (int64_t n = 1; train.growth && n < train.growth->times; ++n) {
    const SizedSteps& last = sizes_.back();
    const double left = end_of(*train.growth, n, samples) * (1 - kSlack) - static_cast<double>(last.begin);
    const int64_t steps = whole(left / static_cast<double>(n));
    const SizedSteps next{last.first_step + steps, last.begin + steps * n, n + 1};
    if (steps == 0) {
      sizes_.back() = next;
    } else {
      sizes_.push_back(next);
    }
  }
  steps_ = step_at(units_of_run(train, samples));
}

const SizedSteps& StepSizes::run_of(int64_t step) const {
  return *std::prev(std::ranges::upper_bound(sizes_, step, {}, &SizedSteps::first_step));
}

int64_t StepSizes::begin_of(int64_t step) const {
  XRUN_CHECK(step >= 0, "steps are counted from 0");
  const SizedSteps& run = run_of(step);
  return run.begin + (step - run.first_step) * run.units;
}

int64_t StepSizes::step_at(int64_t unit) const {
  XRUN_CHECK(unit >= 0, "units are counted from 0");
  const SizedSteps& run = *std::prev(std::ranges::upper_bound(sizes_, unit, {}, &SizedSteps::begin));
  return run.first_step + (unit - run.begin + run.units - 1) / run.units;
}

}  // namespace xrun
