// The scale of the loss in `mixed(f16)`. The loss is multiplied by it, so that gradients are not too small for f16; the
// gradients of weights are divided by it again. It is a power of two, so the two operations change no bit of a gradient
// that f16 can represent (docs/internals/algorithms.md, "The scale of the loss").
#pragma once

#include <cstdint>

#include "graph/settings/train_parts.h"

namespace xrun::runtime {

// The number of steps without an overflow after which a dynamic scale doubles.
inline constexpr int64_t kStepsToDouble = 2000;

// The scale of the next step, and the counts from which it follows. Checkpoints contain it.
struct LossScale {
  double scale = 1;
  int64_t good_steps = 0;     // updates since the scale last changed
  int64_t skipped_steps = 0;  // steps of the whole run that made no update

  bool operator==(const LossScale&) const = default;
};

// The scale with which a run begins; 1 if it does not scale its loss.
LossScale first_scale(const LossScaleSpec& spec);

// The scale with which a run with this setting continues after a checkpoint with `saved`. Only a dynamic scale adopts
// the saved one; the count of skipped steps is kept in any case.
LossScale resumed_scale(const LossScaleSpec& spec, const LossScale& saved);

// The values that a checkpoint keeps. Only a dynamic scale is kept: a run that continues another one with a dynamic
// scale begins with its first scale. LossScale(): nothing is kept.
LossScale saved_scale(const LossScaleSpec& spec, const LossScale& scale);

// Whether the values can be those of a run after `step` steps; a checkpoint is damaged if they cannot.
bool is_possible(const LossScale& scale, int64_t step);

// Follows a step. `skipped`: a gradient of the step was not finite, so it made no update. A dynamic scale then halves;
// it doubles after `interval` updates in a row, up to kLargestLossScale. REQUIRES: a step is skipped only if the scale
// is dynamic and above 1.
void follow_step(const LossScaleSpec& spec, bool skipped, LossScale& scale, int64_t interval = kStepsToDouble);

}  // namespace xrun::runtime
