// Sums of gradient partials, of gradients of replicas and of tied weights, for all tensors of a device in one launch.
// The terms of each element are added in the order of a binary tree over their index, like those of the processor
// (docs/internals/determinism.md, "Gradient partials").
// Tests: tests/ops/gpu/launch/updates_test.cpp
#include "ops/gpu/update/update_table.h"

using xrun::ops::gpu::FoldEntry;

// Blocks of 256 threads, as many as the entries have together.
extern "C" __global__ void fold_terms_f32(const FoldEntry* entries, int64_t count) {
  using namespace xrun::ops::gpu;
  const FoldEntry entry = entry_of_block(entries, count);  // a copy, which stays in registers
  const int64_t terms = entry.count;
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - entry.first_block) * kUpdateElements;
  const int64_t last = begin + kUpdateElements < entry.elements ? begin + kUpdateElements : entry.elements;
#pragma unroll 1
  for (int64_t i = begin + threadIdx.x; i < last; i += kUpdateThreads) {
    float values[kFoldTerms];
#pragma unroll
    for (int t = 0; t < kFoldTerms; ++t) {
      values[t] = t < terms ? reinterpret_cast<const float*>(entry.terms[t])[i] : 0.0F;
    }
#pragma unroll
    for (int stride = 1; stride < kFoldTerms; stride *= 2) {
#pragma unroll
      for (int t = 0; t + stride < kFoldTerms; t += 2 * stride) {
        values[t] = t + stride < terms ? values[t] + values[t + stride] : values[t];
      }
    }
    reinterpret_cast<float*>(entry.sum)[i] = values[0];
  }
}
