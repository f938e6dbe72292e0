#include "graph/settings/specs.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace xrun {

std::string to_text(const TrainSpan& span) {
  constexpr std::string_view kUnits[] = {"step", "epoch", "sample"};
  return fmt::format("{:.12g} {}{}", span.amount, kUnits[span.unit], span.amount == 1 ? "" : "s");
}

double TrainSpan::steps(int64_t samples, int64_t batch) const {
  switch (unit) {
    case kSteps:
      return amount;
    case kEpochs:
      return amount * static_cast<double>(samples) / static_cast<double>(batch);
    case kSamples:
      return amount / static_cast<double>(batch);
  }
  return amount;
}

int64_t ActiveSpec::of(int64_t classes) const {
  if (kind == kAll) {
    return classes;
  }
  const double wanted = amount <= 1 ? amount * static_cast<double>(classes) : amount;
  return std::clamp<int64_t>(static_cast<int64_t>(std::llround(wanted)), 1, classes);
}

}  // namespace xrun
