#include "runtime/train/clock/run_clock.h"

#include <cmath>

#include "runtime/train/clock/rate.h"

namespace xrun::runtime {
namespace {

// Allows for rounding: the number of steps in a span such as 3 epochs, computed in floating point, may be slightly
// above or below a whole number.
constexpr double kSlack = 1e-9;

}  // namespace

RunClock::RunClock(const TrainSpec& train, int64_t samples)
    : samples_(samples), unit_(train.unit()), sizes_(train, samples), curve_(make_curve(train, samples)) {}

double RunClock::epochs_after(int64_t steps) const {
  return static_cast<double>(samples_after(steps)) / static_cast<double>(samples_);
}

double RunClock::epochs() const {
  const double whole = std::floor(epochs_after(steps()) + kSlack);
  return whole > epochs_after(steps() - 1) ? whole : std::ceil(epochs_after(steps()));
}

double RunClock::progress(const TrainSpan& span, int64_t done) const {
  const int64_t count = span.unit == TrainSpan::kSteps ? done : sizes_.begin_of(done);
  return static_cast<double>(count) / span.steps(samples_, unit_) * (1 + kSlack);
}

bool RunClock::is_due(const TrainSpan& every, int64_t done) const {
  return every.amount > 0 && done > 0 && std::floor(progress(every, done)) > std::floor(progress(every, done - 1));
}

bool RunClock::lies_between(const TrainSpan& span, int64_t from, int64_t to) const {
  return progress(span, to) - progress(span, from) >= 1;
}

}  // namespace xrun::runtime
