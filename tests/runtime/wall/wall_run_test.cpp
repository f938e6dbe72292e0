// Steps by the clock. Times are compared with the least possible ones, since a busy machine may delay any thread. Tests
// of the largest times repeat a short step, and need a single one that is not delayed.
#include "runtime/wall/wall_run.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "tests/runtime/executor/number_programs.h"

namespace xrun::runtime::testing {
namespace {

constexpr Seconds kRounding = 1e-6;  // error of times since the clock's start

// Returns a model in which each computation takes `time` and each exchange at least `least`.
WallModel model_of(const Program& program, Seconds time, Seconds least = 0) {
  Program timed = program;
  for (Instruction& one : timed.instructions) {
    one.predicted = least;
  }
  WallModel model;
  model.work.resize(program.instructions.size());
  for (const Instruction& one : program.instructions) {
    model.work[static_cast<size_t>(one.id.index)].time = communicates(one.kind) ? 0 : time;
  }
  add_exchanges(timed, planner::Machine{.devices = program.devices}, 1, model);
  return model;
}

WallStep step_of(const Program& program, WallModel model) {
  auto run = WallRun::start(program, std::move(model));
  EXPECT_TRUE(run.ok());
  auto step = (*run)->step({});
  EXPECT_TRUE(step.ok());
  return *step;
}

// Whether one of 50 steps takes less than `time`.
bool can_be_shorter(const Program& program, const WallModel& model, Seconds time) {
  auto run = WallRun::start(program, model);
  EXPECT_TRUE(run.ok());
  for (int i = 0; i < 50; ++i) {
    if ((*run)->step({})->time < time) {
      return true;
    }
  }
  return false;
}

TEST(WallRun, AChainTakesTheSumOfItsTimes) {
  Builder builder(2, 4);
  for (int i = 0; i < 3; ++i) {
    builder.compute(0, {0}, {0});
    builder.send(0, 1, 2 * i);
    builder.compute(1, {1}, {1});
    builder.send(1, 0, 2 * i + 1);
  }
  planner::derive_dependences(builder.program);
  const WallModel model = model_of(builder.program, 4e-3, 1e-3);
  const WallStep step = step_of(builder.program, model);
  EXPECT_GE(step.time, 6 * 4e-3 + 6 * 1e-3 - kRounding);
  EXPECT_LE(step.busy[0] + step.busy[1], step.time + kRounding) << "one device at a time";
  EXPECT_TRUE(can_be_shorter(builder.program, model, 1.5 * 30e-3));
}

TEST(WallRun, DevicesComputeAtTheSameTime) {
  Builder builder(16, 16);
  for (int device = 0; device < 16; ++device) {
    for (int i = 0; i < 4; ++i) {
      builder.compute(device, {device}, {device});
    }
  }
  planner::derive_dependences(builder.program);
  const WallModel model = model_of(builder.program, 3e-3);
  EXPECT_GE(step_of(builder.program, model).time, 12e-3 - kRounding);
  EXPECT_TRUE(can_be_shorter(builder.program, model, 2 * 12e-3)) << "and not 16 times that";
}

TEST(WallRun, FactorsMultiplyTheTimesOfComputations) {
  Builder builder(1, 1);
  builder.compute(0, {0}, {0});
  builder.compute(0, {0}, {0});
  planner::derive_dependences(builder.program);
  auto run = WallRun::start(builder.program, model_of(builder.program, 2e-3));
  ASSERT_TRUE(run.ok());
  EXPECT_GE((*run)->step(std::vector<double>{3, 5})->time, 16e-3 - kRounding);
}

// Delays of wake-ups do not add up on a device that always has work.
TEST(WallRun, ManyShortComputationsTakeTheSumOfTheirTimes) {
  Builder builder(1, 1);
  for (int i = 0; i < 100; ++i) {
    builder.compute(0, {0}, {0});
  }
  planner::derive_dependences(builder.program);
  const WallModel model = model_of(builder.program, 0.3e-3);
  EXPECT_GE(step_of(builder.program, model).time, 30e-3 - kRounding);
  EXPECT_TRUE(can_be_shorter(builder.program, model, 30e-3 + 2e-3)) << "100 delays of 0.1 ms would be 10 ms";
}

TEST(WallRun, RandomProgramsKeepTheirDependences) {
  const uint32_t first = std::random_device()() % 100'000;
  for (uint32_t seed = first; seed < first + 8; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const int devices = 1 + static_cast<int>(seed % 4);
    const Program program = random_program(seed, devices, 3);
    auto run = WallRun::start(program, model_of(program, 0.2e-3, 0.1e-3));
    ASSERT_TRUE(run.ok());
    for (int i = 0; i < 3; ++i) {
      const auto step = (*run)->step({});
      ASSERT_TRUE(step.ok());
      std::vector<Seconds> ends(static_cast<size_t>(devices), 0);  // end of the last computation
      for (const Instruction& one : program.instructions) {
        const Timing& timing = (*run)->timings()[static_cast<size_t>(one.id.index)];
        for (const InstructionId dep : one.deps) {
          EXPECT_GE(timing.begin, (*run)->timings()[static_cast<size_t>(dep.index)].end) << dep.index;
        }
        if (!communicates(one.kind)) {
          EXPECT_GE(timing.begin, ends[static_cast<size_t>(one.device)]) << "instructions of a device in order";
          ends[static_cast<size_t>(one.device)] = timing.end;
        }
      }
    }
  }
}

TEST(WallRun, WorkersShareACoreBucket) {
  Builder builder(4, 4);
  for (int device = 0; device < 4; ++device) {
    builder.compute(device, {device}, {device});
  }
  planner::derive_dependences(builder.program);
  WallModel model = model_of(builder.program, 10e-3);
  model.rates = {2};  // cores
  for (WallWork& work : model.work) {
    work.uses = {{.bucket = 0, .rate = 1}};
  }
  EXPECT_GE(step_of(builder.program, model).time, 4 * 10e-3 / 2 - kRounding);
  EXPECT_TRUE(can_be_shorter(builder.program, model, 1.5 * 20e-3));
  model.rates = {4};
  EXPECT_TRUE(can_be_shorter(builder.program, model, 1.5 * 10e-3)) << "enough cores";
}

}  // namespace
}  // namespace xrun::runtime::testing
