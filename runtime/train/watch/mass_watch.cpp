#include "runtime/train/watch/mass_watch.h"

#include <fmt/format.h>

namespace xrun::runtime {
namespace {

constexpr double kSmall = 0.5;
// The warning needs this number of measurements below a half, which span this part of the run. Early in a run the
// softmax is flat, so the share is small whatever the active classes are, and a single measurement proves nothing.
constexpr int kMeasurements = 3;
constexpr double kPartOfRun = 0.1;

}  // namespace

std::optional<WarnEvent> MassWatch::add(int64_t step, const std::vector<ActiveReport>& heads) {
  for (const ActiveReport& head : heads) {
    const bool was_measured = head.mass >= 0;  // false if the mass is NaN
    if (!looks() || !was_measured) {
      continue;
    }
    Low& low = low_[head.head];
    if (head.mass >= kSmall) {
      low = {};
      continue;
    }
    low.first_step = low.count == 0 ? step : low.first_step;
    ++low.count;
    if (low.count < kMeasurements ||
        static_cast<double>(step - low.first_step) < kPartOfRun * static_cast<double>(steps_)) {
      continue;
    }
    told_ = true;
    const bool is_knn = active_.kind == ActiveSpec::kKnn;
    return WarnEvent{"XG0847",
                     fmt::format("the active classes of `{}` have {:.0f} % of the softmax, and less than half of it "
                                 "since step {}: the loss misses most of what the other classes would add; make more "
                                 "classes active with a larger `{}` of `active_classes`{}",
                                 head.head, 100 * head.mass, low.first_step, is_knn ? "active" : "p",
                                 is_knn ? ", or build the graph more often with a shorter `rebuild`" : "")};
  }
  return std::nullopt;
}

}  // namespace xrun::runtime
