#include "runtime/train/state/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "graph/base/check.h"

namespace xrun::runtime {

LossScale first_scale(const LossScaleSpec& spec) { return {.scale = spec.is_on() ? spec.first : 1}; }

LossScale resumed_scale(const LossScaleSpec& spec, const LossScale& saved) {
  LossScale scale = spec.kind == LossScaleSpec::kDynamic ? saved : first_scale(spec);
  scale.skipped_steps = saved.skipped_steps;
  return scale;
}

LossScale saved_scale(const LossScaleSpec& spec, const LossScale& scale) {
  if (spec.kind == LossScaleSpec::kDynamic) {
    return scale;
  }
  return scale.skipped_steps == 0 ? LossScale()
                                  : LossScale{.scale = LossScaleSpec().first, .skipped_steps = scale.skipped_steps};
}

bool is_possible(const LossScale& scale, int64_t step) {
  return is_loss_scale(scale.scale) && scale.good_steps >= 0 && scale.skipped_steps >= 0 &&
         scale.skipped_steps <= step && scale.good_steps <= step - scale.skipped_steps;
}

void follow_step(const LossScaleSpec& spec, bool skipped, LossScale& scale, int64_t interval) {
  if (skipped) {
    XRUN_CHECK(spec.kind == LossScaleSpec::kDynamic && scale.scale > 1, "this scale of the loss skips no step");
    scale.scale /= 2;
    scale.good_steps = 0;
    ++scale.skipped_steps;
    return;
  }
  if (spec.kind == LossScaleSpec::kDynamic && ++scale.good_steps >= interval) {
    scale.scale = std::min(2 * scale.scale, kLargestLossScale);
    scale.good_steps = 0;
  }
}

}  // namespace xrun::runtime
