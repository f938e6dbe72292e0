// The decision about the updates of a step in memory of a GPU, and the parts of the sums from which it is made
// (ops/gpu/update/update_decision.cu). No value of it passes through the host during a step.
#pragma once

#include <cstdint>

namespace xrun::ops::gpu {

// Bits of the flag word of a device. Updates change nothing while one of them is set.
inline constexpr uint32_t kFlagNotFinite = 1;  // a number is not finite
inline constexpr uint32_t kFlagNoRow = 2;      // an index has no row
inline constexpr uint32_t kFlagSkips = 4;      // the step makes no update, since a lower scale of the loss may help

// Consecutive sums of squares of one tensor (graph/layouts/norm_layout.h). The parts of a table are in the order of the
// sums and have no gaps between them.
struct GradientPart {
  int64_t first = 0;
  int64_t count = 0;
  uint32_t of_head = 0;  // 1: the gradients do not have the scale of the loss
  uint32_t counts = 1;   // 1: the norm that is clipped contains these sums
};

// The decision of `decide_update`, which each instruction that updates weights launches before its updates. The initial
// values are those of a step without clipping and without a scale of the loss.
struct GpuDecision {
  double norm = 0;        // norm of all gradients before clipping
  double of_stages = 1;   // factor on gradients of stages: removes the scale of the loss, and clips
  double of_heads = 1;    // factor on gradients of heads
  float stage_scale = 1;  // both factors as KnownScalars::grad_scale
  float head_scale = 1;
  float held = 0;       // 1 if the flag word is not 0: updates change nothing
  uint32_t finite = 1;  // 1: all gradients are finite
  uint32_t skips = 0;   // 1: the step makes no update
  uint32_t unused = 0;
};

}  // namespace xrun::ops::gpu
