// Decides about the updates of a step from the sums of squares of all gradients: how gradients are clipped, and whether
// all updates are skipped because a gradient left the range of f16. The decision has the bits of that of the processor
// (runtime/device/gradient_sums.h).
// Tests: tests/ops/gpu/update/update_test.cpp
#include "ops/gpu/update/sums_in_order.h"
#include "ops/gpu/update/update_decision.h"

using namespace xrun::ops;
using namespace xrun::ops::gpu;

// Sums that a thread has found not to be finite: those of all tensors, and those of heads.
enum Found : uint32_t { kSome = 1, kOfHead = 2 };

// `parts` [part_count] describe `sums`; without parts, gradients are not clipped. `limit` is that of `clip = norm`, or
// infinite. `clips_heads` and `is_dynamic`: 1 if heads are clipped, and if the scale of the loss changes. Gradients
// that are not finite set bits of `flags`: kFlagSkips if a lower scale may help, else kFlagNotFinite. One block of 256
// threads.
extern "C" __global__ void decide_update(const double* sums, const GradientPart* parts, int64_t part_count,
                                         float loss_scale, double limit, int32_t clips_heads, int32_t is_dynamic,
                                         GpuDecision* decision, uint32_t* flags) {
  __shared__ double terms[kTermsInOrder];
  __shared__ uint32_t founds[256];
  const auto scale = static_cast<double>(loss_scale);
  const double of_stages = 1 / (scale * scale);  // a power of two
  const int64_t count = part_count == 0 ? 0 : parts[part_count - 1].first + parts[part_count - 1].count;
  uint32_t found = 0;
  const double total = sum_in_order(count, terms, [&](int64_t i) {
    int64_t at = 0, end = part_count;
    while (end - at > 1) {
      const int64_t middle = at + (end - at) / 2;
      if (parts[middle].first <= i) {
        at = middle;
      } else {
        end = middle;
      }
    }
    const GradientPart& part = parts[at];
    const double sum = sums[i];
    if (sum - sum != 0) {
      found |= part.of_head != 0 ? kSome | kOfHead : kSome;
    }
    return part.counts == 0 ? 0.0 : part.of_head != 0 ? sum : sum * of_stages;
  });
  founds[threadIdx.x] = found;
  __syncthreads();
  if (threadIdx.x != 0) {
    return;
  }
  for (int i = 0; i < 256; ++i) {
    found |= founds[i];
  }
  GpuDecision made;
  made.norm = __dsqrt_rn(total);
  made.of_stages = 1 / scale;
  made.finite = found == 0 ? 1 : 0;
  made.skips = found == kSome && is_dynamic != 0 && scale > 1 ? 1 : 0;
  if (found == 0 && made.norm > limit) {
    const double factor = limit / made.norm;
    made.of_stages = factor / scale;
    made.of_heads = clips_heads != 0 ? factor : 1.0;
  }
  made.stage_scale = static_cast<float>(made.of_stages);
  made.head_scale = static_cast<float>(made.of_heads);
  const uint32_t flag = found == 0 ? 0 : made.skips != 0 ? kFlagSkips : kFlagNotFinite;
  const uint32_t now = *flags | flag;
  *flags = now;
  made.held = now != 0 ? 1.0F : 0.0F;
  *decision = made;
}
