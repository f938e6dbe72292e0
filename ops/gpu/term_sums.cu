// Sums of a tensor to a smaller shape, whose dimensions are 1 or those of the tensor (ops/reduce/sums.cpp). One thread
// a sum, which adds its terms in the order of the memory. The kernels have the bits of the processor.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

namespace xrun::ops {

// The kept dimensions of the terms with the steps of terms and sums, and the dimensions that are summed; the innermost
// comes first. Kept dimensions have no size for the outermost.
struct Axes {
  int64_t kept[3];
  int64_t term_steps[4];
  int64_t sum_steps[4];
  int64_t summed[4];
  int64_t summed_steps[4];
};

// The first term of a sum, and the place of the sum.
struct Places {
  int64_t term, sum;

  __device__ static Places of(int64_t index, const Axes& axes) {
    Places at{0, 0};
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      at.term += index % axes.kept[d] * axes.term_steps[d];
      at.sum += index % axes.kept[d] * axes.sum_steps[d];
      index /= axes.kept[d];
    }
    return {at.term + index * axes.term_steps[3], at.sum + index * axes.sum_steps[3]};
  }
};

template <typename S, typename T>
__device__ S total(const T* terms, const Axes& axes, S sum) {
  for (int64_t a = 0; a < axes.summed[3]; ++a) {
    for (int64_t b = 0; b < axes.summed[2]; ++b) {
      for (int64_t c = 0; c < axes.summed[1]; ++c) {
        const T* const run = terms + a * axes.summed_steps[3] + b * axes.summed_steps[2] + c * axes.summed_steps[1];
        for (int64_t d = 0; d < axes.summed[0]; ++d) {
          sum += static_cast<S>(to_float(run[d * axes.summed_steps[0]]));
        }
      }
    }
  }
  return sum;
}

__device__ inline Axes axes_of(int64_t k0, int64_t k1, int64_t k2, int64_t t0, int64_t t1, int64_t t2, int64_t t3,
                               int64_t s0, int64_t s1, int64_t s2, int64_t s3, int64_t r0, int64_t r1, int64_t r2,
                               int64_t r3, int64_t u0, int64_t u1, int64_t u2, int64_t u3) {
  return {{k0, k1, k2}, {t0, t1, t2, t3}, {s0, s1, s2, s3}, {r0, r1, r2, r3}, {u0, u1, u2, u3}};
}

}  // namespace xrun::ops

// Sums in f32, which replace the sums.
extern "C" __global__ void sum_samples_f32(const float* terms, float* sums, int64_t count, int64_t k0, int64_t k1,
                                           int64_t k2, int64_t t0, int64_t t1, int64_t t2, int64_t t3, int64_t s0,
                                           int64_t s1, int64_t s2, int64_t s3, int64_t r0, int64_t r1, int64_t r2,
                                           int64_t r3, int64_t u0, int64_t u1, int64_t u2, int64_t u3) {
  const int64_t i = thread_index();
  if (i < count) {
    const Axes axes = axes_of(k0, k1, k2, t0, t1, t2, t3, s0, s1, s2, s3, r0, r1, r2, r3, u0, u1, u2, u3);
    const Places at = Places::of(i, axes);
    sums[at.sum] = total(terms + at.term, axes, 0.0F);
  }
}
extern "C" __global__ void sum_samples_bf16(const Bf16* terms, Bf16* sums, int64_t count, int64_t k0, int64_t k1,
                                            int64_t k2, int64_t t0, int64_t t1, int64_t t2, int64_t t3, int64_t s0,
                                            int64_t s1, int64_t s2, int64_t s3, int64_t r0, int64_t r1, int64_t r2,
                                            int64_t r3, int64_t u0, int64_t u1, int64_t u2, int64_t u3) {
  const int64_t i = thread_index();
  if (i < count) {
    const Axes axes = axes_of(k0, k1, k2, t0, t1, t2, t3, s0, s1, s2, s3, r0, r1, r2, r3, u0, u1, u2, u3);
    const Places at = Places::of(i, axes);
    assign(sums[at.sum], total(terms + at.term, axes, 0.0F));
  }
}

// Sums in f64, rounded and added to the sums.
extern "C" __global__ void add_sums_f32(const float* terms, float* sums, int64_t count, int64_t k0, int64_t k1,
                                        int64_t k2, int64_t t0, int64_t t1, int64_t t2, int64_t t3, int64_t s0,
                                        int64_t s1, int64_t s2, int64_t s3, int64_t r0, int64_t r1, int64_t r2,
                                        int64_t r3, int64_t u0, int64_t u1, int64_t u2, int64_t u3) {
  const int64_t i = thread_index();
  if (i < count) {
    const Axes axes = axes_of(k0, k1, k2, t0, t1, t2, t3, s0, s1, s2, s3, r0, r1, r2, r3, u0, u1, u2, u3);
    const Places at = Places::of(i, axes);
    sums[at.sum] += static_cast<float>(total(terms + at.term, axes, 0.0));
  }
}
extern "C" __global__ void add_sums_bf16(const Bf16* terms, float* sums, int64_t count, int64_t k0, int64_t k1,
                                         int64_t k2, int64_t t0, int64_t t1, int64_t t2, int64_t t3, int64_t s0,
                                         int64_t s1, int64_t s2, int64_t s3, int64_t r0, int64_t r1, int64_t r2,
                                         int64_t r3, int64_t u0, int64_t u1, int64_t u2, int64_t u3) {
  const int64_t i = thread_index();
  if (i < count) {
    const Axes axes = axes_of(k0, k1, k2, t0, t1, t2, t3, s0, s1, s2, s3, r0, r1, r2, r3, u0, u1, u2, u3);
    const Places at = Places::of(i, axes);
    sums[at.sum] += static_cast<float>(total(terms + at.term, axes, 0.0));
  }
}

// Terms added to the sums in f32, one after the other.
extern "C" __global__ void add_terms_f32(const float* terms, float* sums, int64_t count, int64_t k0, int64_t k1,
                                         int64_t k2, int64_t t0, int64_t t1, int64_t t2, int64_t t3, int64_t s0,
                                         int64_t s1, int64_t s2, int64_t s3, int64_t r0, int64_t r1, int64_t r2,
                                         int64_t r3, int64_t u0, int64_t u1, int64_t u2, int64_t u3) {
  const int64_t i = thread_index();
  if (i < count) {
    const Axes axes = axes_of(k0, k1, k2, t0, t1, t2, t3, s0, s1, s2, s3, r0, r1, r2, r3, u0, u1, u2, u3);
    const Places at = Places::of(i, axes);
    sums[at.sum] = total(terms + at.term, axes, sums[at.sum]);
  }
}
extern "C" __global__ void add_terms_bf16(const Bf16* terms, float* sums, int64_t count, int64_t k0, int64_t k1,
                                          int64_t k2, int64_t t0, int64_t t1, int64_t t2, int64_t t3, int64_t s0,
                                          int64_t s1, int64_t s2, int64_t s3, int64_t r0, int64_t r1, int64_t r2,
                                          int64_t r3, int64_t u0, int64_t u1, int64_t u2, int64_t u3) {
  const int64_t i = thread_index();
  if (i < count) {
    const Axes axes = axes_of(k0, k1, k2, t0, t1, t2, t3, s0, s1, s2, s3, r0, r1, r2, r3, u0, u1, u2, u3);
    const Places at = Places::of(i, axes);
    sums[at.sum] = total(terms + at.term, axes, sums[at.sum]);
  }
}
