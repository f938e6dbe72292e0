#include "runtime/train/events/line_means.h"

#include <utility>

#include "graph/base/check.h"

namespace xrun::runtime {

void LineMeans::begin() {
  end_line();
  sums_of_ = {};
  counted_ = clock_.now();
}

LineMeans::Activity LineMeans::turn_to(Activity activity) {
  count_time();
  return std::exchange(activity_, activity);
}

void LineMeans::count_time() {
  const Seconds now = clock_.now();
  const Seconds passed = now - counted_;
  counted_ = now;
  switch (activity_) {
    case Activity::kSteps:
      seconds_ += passed;
      sums_of_.run_seconds += passed;
      break;
    case Activity::kEvaluation:
      sums_of_.evaluation += passed;
      break;
    case Activity::kSave:
      sums_of_.saves += passed;
      break;
  }
}

// Weights steps by their size in units: a step of one unit has the weight 1, so the mean over a single such step equals
// the value of the step bit for bit.
void LineMeans::add(double loss, const NamedValues& metrics, int64_t samples, Seconds step, Seconds data_wait) {
  const double weight = static_cast<double>(samples) / static_cast<double>(unit_);
  ++steps_;
  samples_ += samples;
  weight_ += weight;
  sums_of_.run_samples += samples;
  sums_of_.loss += sums_ ? loss : weight * loss;
  sums_of_.step += step;
  sums_of_.data_wait += data_wait;
  sums_of_.metrics.resize(metrics.size());
  for (size_t m = 0; m < metrics.size(); ++m) {
    sums_of_.metrics[m].first = metrics[m].first;
    sums_of_.metrics[m].second += weight * metrics[m].second;
  }
}

LineReport LineMeans::report() {
  XRUN_CHECK(steps_ > 0, "a line reports steps");
  count_time();
  LineReport line = sums_of_;
  const auto steps = static_cast<double>(steps_);
  line.loss /= sums_ ? steps : weight_;
  for (auto& [name, value] : line.metrics) {
    value /= weight_;
  }
  line.samples_per_second = seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0;
  line.step /= steps;
  line.data_wait /= steps;
  return line;
}

void LineMeans::end_line() {
  const int64_t run_samples = sums_of_.run_samples;
  const Seconds run_seconds = sums_of_.run_seconds;
  sums_of_ = {.run_samples = run_samples, .run_seconds = run_seconds};
  seconds_ = weight_ = 0;
  steps_ = samples_ = 0;
}

}  // namespace xrun::runtime
