#include "graph/specs.h"

namespace xrun {

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
