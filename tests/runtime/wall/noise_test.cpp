#include "runtime/wall/noise.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

namespace xrun::runtime {
namespace {

planner::Program program_of(int computations) {
  planner::Program program;
  for (int i = 0; i <= computations; ++i) {
    planner::Instruction one;
    one.id = planner::InstructionId(i);
    one.kind = i == computations ? planner::Kind::kSend : planner::Kind::kForward;
    program.instructions.push_back(one);
  }
  return program;
}

TEST(Noise, DependsOnSeedAndStepOnly) {
  const planner::Program program = program_of(20);
  EXPECT_EQ(noise_factors(program, 7, 3, 0.05), noise_factors(program, 7, 3, 0.05));
  EXPECT_NE(noise_factors(program, 7, 3, 0.05), noise_factors(program, 8, 3, 0.05));
  EXPECT_NE(noise_factors(program, 7, 3, 0.05), noise_factors(program, 7, 4, 0.05));
  // The factors of an instruction do not change with what follows it.
  EXPECT_EQ(noise_factors(program_of(50), 7, 3, 0.05)[19], noise_factors(program, 7, 3, 0.05)[19]);
}

TEST(Noise, HasTheDeviationThatWasAskedFor) {
  const int count = 20'000;
  for (const double noise : {0.05, 0.2}) {
    std::vector<double> factors = noise_factors(program_of(count), 1, 0, noise);
    EXPECT_EQ(factors.back(), 1) << "exchanges have no noise";
    factors.pop_back();
    const double mean = std::accumulate(factors.begin(), factors.end(), 0.0) / count;
    double squares = 0;
    for (const double factor : factors) {
      squares += (factor - mean) * (factor - mean);
      EXPECT_GE(factor, 1 - 4 * noise - 1e-9);
    }
    EXPECT_NEAR(mean, 1, 0.05 * noise);
    EXPECT_NEAR(std::sqrt(squares / count), noise, 0.03 * noise);
  }
}

TEST(Noise, IsOneWithoutNoise) { EXPECT_EQ(noise_factors(program_of(3), 5, 2, 0), std::vector<double>(4, 1.0)); }

}  // namespace
}  // namespace xrun::runtime
