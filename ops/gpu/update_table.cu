// Updates of all tensors of a device in one launch: sgd and adamw (ops/gpu/update.cu), and the running means of
// weights. Each thread block finds its tensor in a table of entries in ascending order of `first_block`. The kernels
// have the bits of the processor.
// Tests: tests/ops/gpu/launch/updates_test.cpp
#include "ops/gpu/grid.h"
#include "ops/gpu/update_table.h"
#include "ops/optimizer/update_formulas.h"

using namespace xrun::ops;

namespace xrun::ops::gpu {

template <class Rule, int kStates>
__device__ void update_all(const UpdateEntry* entries, int64_t count) {
  int64_t at = 0, end = count;
  while (end - at > 1) {
    const int64_t middle = at + (end - at) / 2;
    if (entries[middle].first_block <= static_cast<int64_t>(blockIdx.x)) {
      at = middle;
    } else {
      end = middle;
    }
  }
  const UpdateEntry entry = entries[at];
  auto* const w = reinterpret_cast<float*>(entry.weight);
  const auto* const g = reinterpret_cast<const float*>(entry.gradient);
  auto* const s0 = reinterpret_cast<float*>(entry.states[0]);
  auto* const s1 = reinterpret_cast<float*>(entry.states[1]);
  auto* const mean = reinterpret_cast<float*>(entry.mean);
  const KnownScalars& scalars = *reinterpret_cast<const KnownScalars*>(entry.scalars);
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - entry.first_block) * kUpdateElements;
  const int64_t last = begin + kUpdateElements < entry.elements ? begin + kUpdateElements : entry.elements;
#pragma unroll 1
  for (int64_t i = begin + threadIdx.x; i < last; i += kUpdateThreads) {
    float a = 0, b = 0;
    if constexpr (kStates > 0) {
      a = s0[i];
    }
    if constexpr (kStates > 1) {
      b = s1[i];
    }
    const float updated = Rule::step(scalars, w[i], g[i], a, b);
    w[i] = updated;
    if constexpr (kStates > 0) {
      s0[i] = a;
    }
    if constexpr (kStates > 1) {
      s1[i] = b;
    }
    if (mean != nullptr) {
      mean[i] = moved_mean(mean[i], updated, entry.take);
    }
  }
}

}  // namespace xrun::ops::gpu

using xrun::ops::gpu::UpdateEntry;

// Blocks of 256 threads, as many as the entries have together.
extern "C" __global__ void update_all_sgd(const UpdateEntry* entries, int64_t count) {
  xrun::ops::gpu::update_all<SgdRule, 0>(entries, count);
}
extern "C" __global__ void update_all_momentum(const UpdateEntry* entries, int64_t count) {
  xrun::ops::gpu::update_all<MomentumRule, 1>(entries, count);
}
extern "C" __global__ void update_all_nesterov(const UpdateEntry* entries, int64_t count) {
  xrun::ops::gpu::update_all<NesterovRule, 1>(entries, count);
}
extern "C" __global__ void update_all_adamw(const UpdateEntry* entries, int64_t count) {
  xrun::ops::gpu::update_all<AdamwRule, 2>(entries, count);
}
