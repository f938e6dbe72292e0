#include "runtime/train/watch/step_watch.h"

#include "graph/base/units.h"

namespace xrun::runtime {

std::optional<ProfileRow> slowest_row(const std::vector<ProfileRow>& rows, Seconds excess) {
  const auto loss = [](const ProfileRow& row) { return row.seconds - row.predicted; };
  const ProfileRow* computes = nullptr;
  const ProfileRow* waits = nullptr;
  for (const ProfileRow& row : rows) {
    const ProfileRow*& worst = row.sort == ProfileRow::kCompute ? computes : waits;
    if (loss(row) > 0 && (worst == nullptr || loss(row) > loss(*worst))) {
      worst = &row;
    }
  }
  // If a device is slow, the others wait for it. So a row of waiting explains the excess only if no row of computation
  // explains half of it.
  const ProfileRow* found = computes;
  if (waits != nullptr && (computes == nullptr || (loss(*computes) < excess / 2 && loss(*waits) > loss(*computes)))) {
    found = waits;
  }
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::vector<WarnEvent> StepWatch::add(const StepReport& report, std::span<const Timing> timings,
                                      const StepTimes& times) {
  profile_.add(timings, times);
  measured_ += report.seconds - report.data_wait;
  waited_ += report.data_wait;
  on_devices_ += times.seconds;
  if (steps_ < kWarmUp + kMeasured) {
    return {};
  }
  const Seconds step = measured_ / kMeasured;
  const Seconds wait = waited_ / kMeasured;
  std::vector<WarnEvent> found;
  if (predicted_step_ > 0 && step > 1.15 * predicted_step_) {
    found.push_back(explain(step));
  }
  if (wait > 0.15 * step) {
    found.push_back({"XG0812", "a step of " + format_seconds(step) + " waits " + format_seconds(wait) +
                                   " for data: reading and decoding are too slow"});
  }
  return found;
}

WarnEvent StepWatch::explain(Seconds step) const {
  const auto compare = [](Seconds measured, Seconds predicted) {
    return format_seconds(measured) + " instead of the predicted " + format_seconds(predicted);
  };
  const Seconds excess = step - predicted_step_;
  const Seconds outside = step - on_devices_ / kMeasured;
  WarnEvent event{"XG0811", "a step takes " + compare(step, predicted_step_)};
  if (outside > excess / 2) {
    event.message += "; most of the difference is outside the devices: reading results and starting the step takes " +
                     format_seconds(outside);
  } else if (const auto row = slowest_row(profile_.rows(), excess)) {
    event.message += "; most of the difference is on cpu " + std::to_string(row->device) + ": " + row->what +
                     " takes " + compare(row->seconds, row->predicted);
  }
  return event;
}

}  // namespace xrun::runtime
