#include "ops/head/catch_up.h"

#include <algorithm>
#include <immintrin.h>

#include "graph/base/check.h"
#include "graph/settings/group_rules.h"

namespace xrun::ops {
namespace {

constexpr double kSmallestPower = 1e-18;

// The loops use eight lanes, since sixteen lanes go through memory in code for AVX2.
constexpr int64_t kEight = 8;

// Computes to -= from · by.
void subtract(float* to, const float* from, float by, int64_t n) {
  int64_t i = 0;
  for (; i + kEight <= n; i += kEight) {
    const __m256 moved = _mm256_mul_ps(_mm256_loadu_ps(from + i), _mm256_set1_ps(by));
    _mm256_storeu_ps(to + i, _mm256_sub_ps(_mm256_loadu_ps(to + i), moved));
  }
  for (; i < n; ++i) {
    to[i] -= from[i] * by;
  }
}

void multiply(float* values, float by, int64_t n) {
  int64_t i = 0;
  for (; i + kEight <= n; i += kEight) {
    _mm256_storeu_ps(values + i, _mm256_mul_ps(_mm256_loadu_ps(values + i), _mm256_set1_ps(by)));
  }
  for (; i < n; ++i) {
    values[i] *= by;
  }
}

}  // namespace

IdleSteps::IdleSteps(double momentum, bool nesterov) {
  XRUN_CHECK(momentum > 0 && momentum <= kMostCatchUpMomentum, "a table of idle steps has an end");
  const double mu = static_cast<float>(momentum);  // rounded to f32, as in updates
  factor_ = nesterov ? mu : 1;
  for (double power = 1; power >= kSmallestPower; power *= mu) {
    powers_.push_back(power);
  }
}

void IdleSteps::advance(int64_t step, const std::function<double(int64_t)>& rate) {
  const auto window = static_cast<int64_t>(powers_.size()) - 1;
  for (int64_t now = this->step(); now < step; ++now) {
    const double moved = rate(now) * factor_;
    for (int64_t last = std::max<int64_t>(0, now - window); last < now; ++last) {
      sums_[static_cast<size_t>(last)] += moved * powers_[static_cast<size_t>(now - last)];
    }
    sums_.push_back(0);
  }
}

bool catch_up_weight(const HeadCatchUp& by, int64_t row, int64_t dim, float* weight) {
  const int32_t last = by.last[row];
  if (!by.steps->missed(last)) {
    return false;
  }
  subtract(weight, by.velocity + row * dim, static_cast<float>(by.steps->shift(last) * by.weight_factor), dim);
  return true;
}

void catch_up_bias(const HeadCatchUp& by, int64_t row, float* bias) {
  const int32_t last = by.last[row];
  if (by.steps->missed(last)) {
    *bias -= by.bias_velocity[row] * static_cast<float>(by.steps->shift(last) * by.bias_factor);
  }
}

void catch_up_velocity(const HeadCatchUp& by, int64_t row, int64_t n, float* velocity) {
  const int32_t last = by.last[row];
  if (by.steps->missed(last)) {
    multiply(velocity, static_cast<float>(by.steps->decay(last)), n);
  }
}

void shift_rows(std::span<const float> shifts, std::span<const float> velocity, std::span<float> rows) {
  const auto dim = static_cast<int64_t>(rows.size() / std::max<size_t>(1, shifts.size()));
  for (int64_t row = 0; row < std::ssize(shifts); ++row) {
    if (shifts[static_cast<size_t>(row)] != 0) {
      subtract(rows.data() + row * dim, velocity.data() + row * dim, shifts[static_cast<size_t>(row)], dim);
    }
  }
}

}  // namespace xrun::ops
