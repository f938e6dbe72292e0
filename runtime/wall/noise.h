// Random factors on the times of computations, which depend on a seed only.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/program/program.h"

namespace xrun::runtime {

// The largest standard deviation. Normal numbers are cut at four deviations, so that factors are at least 0.2.
inline constexpr double kMostNoise = 0.2;

// Returns the factor on the time of each instruction of a step: 1 plus a normal number with the standard deviation
// `noise` for computations, 1 for exchanges. REQUIRES: 0 <= noise <= kMostNoise.
std::vector<double> noise_factors(const planner::Program& program, uint64_t seed, int step, double noise);

}  // namespace xrun::runtime
