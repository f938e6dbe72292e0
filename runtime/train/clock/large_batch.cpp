#include "runtime/train/clock/large_batch.h"

#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "runtime/train/clock/run_clock.h"

namespace xrun::runtime {

std::optional<Error> warn_of_large_batch(const TrainSpec& train, int64_t samples) {
  if (train.batch <= samples || samples <= 0) {
    return std::nullopt;
  }
  const auto times = static_cast<double>(train.batch) / static_cast<double>(samples);
  const int64_t steps = RunClock(train, samples).steps();
  const bool sums = train.accumulated() > 1 && !train.growth;
  return content_error(
      "XG0417",
      {"a step takes {} samples{}, and `train` has {}: each of them is in a step {:.1f} times on average, and the "
       "whole run has {} {}",
       format_count(train.batch),
       sums ? fmt::format(" (`batch` times grad_accumulation = {})", train.accumulated()) : "", format_count(samples),
       times, format_count(steps), steps == 1 ? "step" : "steps"},
      {"make {} at most {}, or train on more samples", sums ? "their product" : "`batch`", format_count(samples)},
      train.span);
}

}  // namespace xrun::runtime
