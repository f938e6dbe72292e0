#include "ops/optimizer/compression.h"

#include "graph/settings/known_update.h"

namespace xrun::ops {
namespace {

// Number of elements in one inner loop, because at -O2 the compiler vectorizes only loops of constant length.
constexpr int64_t kRun = 16;

template <int64_t n, bool nesterov>
void accumulate_run(const CompressScalars& scalars, const float* __restrict gradient, const float* __restrict weight,
                    float* __restrict velocity, float* __restrict residual) {
  const auto [scale, limit, decay, momentum, unused] = scalars;
  for (int64_t i = 0; i < n; ++i) {
    float g = gradient[i] * scale;
    g = g > limit ? limit : g;  // NaN stays NaN
    g = g < -limit ? -limit : g;
    const float a = g + weight[i] * decay;
    const float u = velocity[i] * momentum + a;
    velocity[i] = u;
    residual[i] += nesterov ? a + u * momentum : u;
  }
}

template <bool nesterov>
void accumulate_all(const CompressScalars& scalars, const float* gradient, const float* weight, float* velocity,
                    float* residual, int64_t n) {
  int64_t i = 0;
  for (; i + kRun <= n; i += kRun) {
    accumulate_run<kRun, nesterov>(scalars, gradient + i, weight + i, velocity + i, residual + i);
  }
  for (; i < n; ++i) {
    accumulate_run<1, nesterov>(scalars, gradient + i, weight + i, velocity + i, residual + i);
  }
}

// Calls body(pair) for the pairs of all senders, in the order of the senders.
template <typename Body>
void for_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, const Body& body) {
  for (int sender = 0; sender < senders; ++sender) {
    for (int64_t i = 0; i < count; ++i) {
      body(pairs[stride * sender + i]);
    }
  }
}

void sum_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, float* sums) {
  for_pairs(pairs, count, stride, senders, [&](const GradientPair& pair) { sums[pair.index] = 0; });
  for_pairs(pairs, count, stride, senders, [&](const GradientPair& pair) { sums[pair.index] += pair.value; });
}

}  // namespace

void accumulate(const CompressScalars& scalars, const float* gradient, const float* weight, float* velocity,
                float* residual, int64_t n) {
  (scalars.nesterov ? accumulate_all<true> : accumulate_all<false>)(scalars, gradient, weight, velocity, residual, n);
}

void clear_sent(const GradientPair* pairs, int64_t count, float* velocity, float* residual) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[pairs[i].index] = 0;
    residual[pairs[i].index] = 0;
  }
}

double squares_of_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, float* sums) {
  sum_pairs(pairs, count, stride, senders, sums);
  double squares = 0;
  // Counts each sum only once, even if several senders sent the element.
  for_pairs(pairs, count, stride, senders, [&](const GradientPair& pair) {
    const double sum = sums[pair.index];
    squares += sum * sum;
    sums[pair.index] = 0;
  });
  return squares;
}

double trust_ratio(double trust, double weight, double sent) {
  return weight == 0 || sent == 0 ? 1 : trust * weight / (sent + kTrustEps);
}

void subtract_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, float rate, float* sums,
                    float* weight) {
  sum_pairs(pairs, count, stride, senders, sums);
  // Subtracts each sum only once, even if several senders sent the element.
  for_pairs(pairs, count, stride, senders, [&](const GradientPair& pair) {
    weight[pair.index] -= sums[pair.index] * rate;
    sums[pair.index] = 0;
  });
}

}  // namespace xrun::ops
