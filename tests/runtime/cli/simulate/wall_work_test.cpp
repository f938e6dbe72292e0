#include "runtime/cli/simulate/wall_work.h"

#include <gtest/gtest.h>

namespace xrun::cli {
namespace {

using planner::Kind;

planner::Program program_of(int devices, int threads, const std::vector<std::pair<Kind, Seconds>>& instructions) {
  planner::Program program;
  program.devices = devices;
  program.threads.assign(static_cast<size_t>(devices), threads);
  for (const auto& [kind, time] : instructions) {
    planner::Instruction one;
    one.id = planner::InstructionId(program.instructions.size());
    one.kind = kind;
    one.predicted = time;
    program.instructions.push_back(one);
  }
  return program;
}

TEST(WallWork, ComputationsTakeTheirPredictedTimesSlowedDown) {
  const planner::Program program = program_of(2, 1, {{Kind::kForward, 3}, {Kind::kUpdate, 2}});
  const auto model = wall_model(program, {.cores = 2, .devices = 2, .threads = 2}, 10);
  EXPECT_EQ(model.work[0].time, 30);
  EXPECT_EQ(model.work[1].time, 20);
  EXPECT_TRUE(model.work[0].uses.empty()) << "there are enough cores";
  EXPECT_TRUE(model.rates.empty());
}

TEST(WallWork, WorkersShareCoresIfThereAreTooFew) {
  const planner::Program program = program_of(4, 2, {{Kind::kForward, 3}});
  const auto model = wall_model(program, {.cores = 3, .devices = 4, .threads = 8}, 10);
  EXPECT_EQ(model.rates, std::vector<double>{3}) << "cores are not slowed down: computations are";
  ASSERT_EQ(model.work[0].uses.size(), 1U);
  EXPECT_EQ(model.work[0].uses[0].rate, 2) << "workers of the device";
}

TEST(WallWork, UpdatesOfManyWorkersShareTheMemoryOfTheirNode) {
  const planner::Program program = program_of(16, 1, {{Kind::kForward, 3}, {Kind::kUpdate, 2}});
  const auto model = wall_model(program, {.cores = 16, .devices = 16, .threads = 16}, 1);
  EXPECT_EQ(model.rates, std::vector<double>{8});
  EXPECT_TRUE(model.work[0].uses.empty());
  EXPECT_EQ(model.work[1].uses.size(), 1U);
}

TEST(WallWork, GpusShareNeitherCoresNorMemory) {
  const planner::Program program = program_of(16, 1, {{Kind::kForward, 3}, {Kind::kUpdate, 2}});
  const auto model = wall_model(program, {.cores = 2, .devices = 16, .threads = 16, .gpu = "h100"}, 1);
  EXPECT_TRUE(model.rates.empty());
}

TEST(SlowEnough, GivesTheMedianPassTwentyMilliseconds) {
  EXPECT_DOUBLE_EQ(
      slow_enough(program_of(1, 1, {{Kind::kForward, 1e-3}, {Kind::kBackward, 2e-3}, {Kind::kForward, 9}})), 10);
  EXPECT_DOUBLE_EQ(slow_enough(program_of(1, 1, {{Kind::kForward, 0.3e-3}})), 67);
  EXPECT_DOUBLE_EQ(slow_enough(program_of(1, 1, {{Kind::kForward, 17e-6}})), 1200);
  EXPECT_DOUBLE_EQ(slow_enough(program_of(1, 1, {{Kind::kForward, 0.5}})), 1);
  EXPECT_DOUBLE_EQ(slow_enough(program_of(1, 1, {{Kind::kUpdate, 1e-6}})), 1) << "no passes";
}

}  // namespace
}  // namespace xrun::cli
