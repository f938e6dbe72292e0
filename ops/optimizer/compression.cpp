#include "ops/optimizer/compression.h"

namespace xrun::ops {
namespace {

// Number of elements in one inner loop, because at -O2 the compiler vectorizes only loops of constant length.
constexpr int64_t kRun = 16;

template <int64_t n>
void accumulate_run(const CompressScalars& scalars, const float* __restrict gradient, const float* __restrict weight,
                    float* __restrict velocity, float* __restrict residual) {
  const auto [scale, limit, decay, momentum] = scalars;
  for (int64_t i = 0; i < n; ++i) {
    float g = gradient[i] * scale;
    g = g > limit ? limit : g;  // NaN stays NaN
    g = g < -limit ? -limit : g;
    const float u = velocity[i] * momentum + (g + weight[i] * decay);
    velocity[i] = u;
    residual[i] += u;
  }
}

}  // namespace

void accumulate(const CompressScalars& scalars, const float* gradient, const float* weight, float* velocity,
                float* residual, int64_t n) {
  int64_t i = 0;
  for (; i + kRun <= n; i += kRun) {
    accumulate_run<kRun>(scalars, gradient + i, weight + i, velocity + i, residual + i);
  }
  for (; i < n; ++i) {
    accumulate_run<1>(scalars, gradient + i, weight + i, velocity + i, residual + i);
  }
}

void clear_sent(const GradientPair* pairs, int64_t count, float* velocity, float* residual) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[pairs[i].index] = 0;
    residual[pairs[i].index] = 0;
  }
}

void subtract_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, float rate, float* sums,
                    float* weight) {
  const auto each = [&](const auto& body) {
    for (int sender = 0; sender < senders; ++sender) {
      for (int64_t i = 0; i < count; ++i) {
        body(pairs[stride * sender + i]);
      }
    }
  };
  each([&](const GradientPair& pair) { sums[pair.index] = 0; });
  each([&](const GradientPair& pair) { sums[pair.index] += pair.value; });
  // Subtracts each sum only once, even if several senders sent the element.
  each([&](const GradientPair& pair) {
    weight[pair.index] -= sums[pair.index] * rate;
    sums[pair.index] = 0;
  });
}

}  // namespace xrun::ops
