#include "graph/specs.h"

#include <fmt/format.h>

namespace xrun {

std::string to_text(const TrainSpan& span) {
  constexpr std::string_view kUnits[] = {"steps", "epochs", "samples"};
  return fmt::format("{:.12g} {}", span.amount, kUnits[span.unit]);
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

}  // namespace xrun
