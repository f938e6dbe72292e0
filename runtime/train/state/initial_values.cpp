#include "runtime/train/state/initial_values.h"

#include <algorithm>
#include <cmath>

#include "graph/base/random.h"

namespace xrun::runtime {
namespace {

// Draws values that exceed two standard deviations again; each attempt has its own random stream.
void draw_again(uint64_t seed, const std::string& name, uint64_t first, std::span<float> values) {
  constexpr float kMost = 2;
  constexpr uint64_t kAttempts = 64;  // 1 of 22 values is drawn again, so in effect no value stays out of range
  for (size_t i = 0; i < values.size(); ++i) {
    for (uint64_t attempt = 1; std::fabs(values[i]) > kMost && attempt <= kAttempts; ++attempt) {
      values[i] = RandomStream(seed, stable_hash(name), attempt).normal(first + i);
    }
    values[i] = std::clamp(values[i], -kMost, kMost);
  }
}

}  // namespace

void fill_initial_values(const Init& init, uint64_t seed, const std::string& name, uint64_t first,
                         std::span<float> values) {
  if (init.kind == Init::kConstant) {
    std::ranges::fill(values, static_cast<float>(init.value));
    return;
  }
  const double deviation = init.kind == Init::kHeNormal
                               ? std::sqrt(2.0 / static_cast<double>(std::max<int64_t>(init.fan_in, 1)))
                               : init.value;
  const RandomStream stream(seed, stable_hash(name));
  if (init.kind == Init::kUniform) {
    const auto most = static_cast<float>(init.value);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = stream.uniform(first + i, -most, most);
    }
    return;
  }
  stream.fill_normal(first, values);
  if (init.kind == Init::kTruncNormal) {
    draw_again(seed, name, first, values);
  }
  for (float& value : values) {
    value = static_cast<float>(deviation * static_cast<double>(value));
  }
}

}  // namespace xrun::runtime
