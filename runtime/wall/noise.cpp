#include "runtime/wall/noise.h"

#include <algorithm>

#include "graph/base/random.h"

namespace xrun::runtime {

std::vector<double> noise_factors(const planner::Program& program, uint64_t seed, int step, double noise) {
  constexpr float kMostDeviations = 4;
  const RandomStream random(seed, stable_hash("noise of times"), static_cast<uint64_t>(step));
  std::vector<double> factors;
  for (const planner::Instruction& one : program.instructions) {
    const float normal = random.normal(static_cast<uint64_t>(one.id.index));
    const double deviations = std::clamp(normal, -kMostDeviations, kMostDeviations);
    factors.push_back(communicates(one.kind) ? 1.0 : 1 + noise * deviations);
  }
  return factors;
}

}  // namespace xrun::runtime
