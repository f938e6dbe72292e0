// Updates of all tensors of a device in one launch: sgd and adamw (ops/gpu/update/update.cu), and the running means of
// weights. Each thread block finds its tensor in a table of entries. The factor on gradients is that of the decision in
// memory of the device; if the decision holds updates back, no number changes. The kernels have the bits of the
// processor.
// Tests: tests/ops/gpu/launch/updates_test.cpp
#include "ops/gpu/row_sums.h"
#include "ops/gpu/update/update_decision.h"
#include "ops/gpu/update/update_table.h"
#include "ops/optimizer/update_formulas.h"

using namespace xrun::ops;

namespace xrun::ops::gpu {

template <class Rule, int kStates>
__device__ void update_all(const UpdateEntry* entries, int64_t count, const GpuDecision* decision) {
  if (decision->held != 0) {
    return;
  }
  const UpdateEntry entry = entry_of_block(entries, count);
  auto* const w = reinterpret_cast<float*>(entry.weight);
  const auto* const g = reinterpret_cast<const float*>(entry.gradient);
  auto* const s0 = reinterpret_cast<float*>(entry.states[0]);
  auto* const s1 = reinterpret_cast<float*>(entry.states[1]);
  auto* const mean = reinterpret_cast<float*>(entry.mean);
  const auto* const touched = reinterpret_cast<const float*>(entry.touched);
  KnownScalars scalars = *reinterpret_cast<const KnownScalars*>(entry.scalars);
  scalars.grad_scale = decision->stage_scale;
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - entry.first_block) * kUpdateElements;
  const int64_t last = begin + kUpdateElements < entry.elements ? begin + kUpdateElements : entry.elements;
#pragma unroll 1
  for (int64_t i = begin + threadIdx.x; i < last; i += kUpdateThreads) {
    float updated = w[i];
    if (touched == nullptr || touched[i / entry.row] != 0) {
      float a = 0, b = 0;
      if constexpr (kStates > 0) {
        a = s0[i];
      }
      if constexpr (kStates > 1) {
        b = s1[i];
      }
      updated = Rule::step(scalars, updated, g[i], a, b);
      w[i] = updated;
      if constexpr (kStates > 0) {
        s0[i] = a;
      }
      if constexpr (kStates > 1) {
        s1[i] = b;
      }
    }
    if (mean != nullptr) {
      mean[i] = moved_mean(mean[i], updated, entry.take);
    }
  }
}

}  // namespace xrun::ops::gpu

using xrun::ops::gpu::GpuDecision;
using xrun::ops::gpu::UpdateEntry;

// Blocks of 256 threads, as many as the entries have together.
extern "C" __global__ void update_all_sgd(const UpdateEntry* entries, int64_t count, const GpuDecision* decision) {
  xrun::ops::gpu::update_all<SgdRule, 0>(entries, count, decision);
}
extern "C" __global__ void update_all_momentum(const UpdateEntry* entries, int64_t count, const GpuDecision* decision) {
  xrun::ops::gpu::update_all<MomentumRule, 1>(entries, count, decision);
}
extern "C" __global__ void update_all_nesterov(const UpdateEntry* entries, int64_t count, const GpuDecision* decision) {
  xrun::ops::gpu::update_all<NesterovRule, 1>(entries, count, decision);
}
extern "C" __global__ void update_all_adamw(const UpdateEntry* entries, int64_t count, const GpuDecision* decision) {
  xrun::ops::gpu::update_all<AdamwRule, 2>(entries, count, decision);
}

// touched[r] = 1 if a number of row r of g [rows, dim] is not zero, else 0. 16 threads a row.
extern "C" __global__ void touched_rows_f32(const float* g, float* touched, int64_t rows, int64_t dim) {
  const RowThread at = RowThread::here();
  int found = 0;
  for (int64_t i = at.lane; at.row < rows && i < dim; i += kLanes) {
    found += g[at.row * dim + i] != 0 ? 1 : 0;  // also for NaN
  }
  const int sum = sum_of_row(found);
  if (at.lane == 0 && at.row < rows) {
    touched[at.row] = sum > 0 ? 1.0F : 0.0F;
  }
}
