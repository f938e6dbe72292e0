// Compares the time of steps with the prediction and warns of slow steps, with made-up times on two stages with a
// sharded head.
#include "runtime/train/watch/step_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::Kind;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class StepWatchTest : public ::testing::Test {
 protected:
  // Returns times in which instructions run one after another for a millisecond each. Those that `slow` selects take
  // `factor` times as long.
  template <typename Slow>
  std::vector<Timing> timings(const Slow& slow, double factor = 1) const {
    std::vector<Timing> list;
    double now = 0;
    for (const Instruction& one : program_.instructions) {
      const double begin = now;
      now += 1e-3 * (slow(one) ? factor : 1);
      list.push_back({.begin = begin, .end = now, .moving = begin, .moved = now});
    }
    return list;
  }
  std::vector<Timing> predicted() const {
    return timings([](const Instruction&) { return false; });
  }

  // Returns the warnings about steps with these times, which take `outside` seconds longer than the work of their
  // devices.
  std::vector<WarnEvent> watch(const std::vector<Timing>& measured, Seconds outside = 0, Seconds wait = 0) {
    const auto expected = predicted();
    TimeTable table(program_, {0, program_.devices});
    StepWatch watch(StepProfile(program_, prepared_.module.graph, expected, {0, program_.devices}),
                    table.measure(expected).seconds);
    std::vector<WarnEvent> found;
    for (int step = 0; step < 40; ++step) {
      const StepTimes& times = table.measure(measured);
      const StepReport report{.seconds = times.seconds + outside + wait, .data_wait = wait};
      const bool last = step + 1 == StepWatch::kWarmUp + StepWatch::kMeasured;
      if (!watch.wants_step()) {
        EXPECT_TRUE(step < StepWatch::kWarmUp || step >= StepWatch::kWarmUp + StepWatch::kMeasured) << step;
        continue;
      }
      const auto warnings = watch.add(report, measured, times);
      EXPECT_TRUE(warnings.empty() || last) << step;
      found.insert(found.end(), warnings.begin(), warnings.end());
    }
    return found;
  }

  const testing::Prepared prepared_ =
      testing::prepare_for(testing::make_module({.classes = 130, .head = true, .dropout = 0.1}));
  const planner::Program program_ =
      testing::make_program(prepared_, {.devices = 2, .threads = 2, .stages = 2, .micro_batches = 2, .shards = 2})
          .value();
};

TEST_F(StepWatchTest, RowsOfADeviceAddUpToTheStep) {
  const auto measured = timings([](const Instruction& one) { return one.kind == Kind::kBackward; }, 3);
  TimeTable table(program_, {0, program_.devices});
  const StepTimes& times = table.measure(measured);
  StepProfile profile(program_, prepared_.module.graph, predicted(), {0, program_.devices});
  profile.add(measured, times);
  profile.add(measured, times);
  EXPECT_EQ(profile.steps(), 2);
  std::vector<Seconds> sums(2);
  std::vector<Seconds> expected(2);
  int backward = 0;
  for (const ProfileRow& row : profile.rows()) {
    sums[static_cast<size_t>(row.device)] += row.seconds;
    expected[static_cast<size_t>(row.device)] += row.predicted;
    if (row.what.rfind("backward of stage", 0) == 0) {
      ++backward;
      EXPECT_EQ(row.count, 2) << "of two micro-batches";
      EXPECT_DOUBLE_EQ(row.seconds, 6e-3);
      EXPECT_DOUBLE_EQ(row.predicted, 2e-3);
      EXPECT_THAT(row.what, HasSubstr(row.device == 0 ? " (stem .. " : " .. ")) << "the layers are named";
    }
  }
  EXPECT_EQ(backward, 2);
  for (size_t d = 0; d < 2; ++d) {
    EXPECT_NEAR(sums[d], times.seconds, 1e-12);
    EXPECT_NEAR(expected[d], 1e-3 * static_cast<double>(program_.instructions.size()), 1e-12);
  }
}

TEST_F(StepWatchTest, StepsAsPredictedCauseNoWarning) { EXPECT_TRUE(watch(predicted()).empty()); }

TEST_F(StepWatchTest, ASlowPassIsNamedWithItsDevice) {
  const auto found =
      watch(timings([](const Instruction& one) { return one.kind == Kind::kBackward && one.device == 1; }, 20));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "XG0811");
  EXPECT_THAT(found[0].message, StartsWith("a step takes "));
  EXPECT_THAT(found[0].message, HasSubstr("; most of the difference is on cpu 1: backward of stage 1 ("));
  EXPECT_THAT(found[0].message, HasSubstr(" takes 40.0 ms instead of the predicted 2.0 ms"));
}

TEST_F(StepWatchTest, ASlowShardIsNamedWithItsHead) {
  const auto found =
      watch(timings([](const Instruction& one) { return one.kind == Kind::kHeadBackward && one.device == 0; }, 30));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].message, HasSubstr("on cpu 0: backward of head "));
  EXPECT_THAT(found[0].message, HasSubstr(" (shard 0) takes 30.0 ms instead of the predicted 1.0 ms"));
}

TEST_F(StepWatchTest, TimeOutsideOfInstructionsIsReportedAsWaitingOrOutside) {
  const auto slow_moves = watch(timings([](const Instruction& one) { return one.kind == Kind::kRecv; }, 30));
  ASSERT_EQ(slow_moves.size(), 1u);
  EXPECT_THAT(slow_moves[0].message, HasSubstr(": data under way, nothing to compute takes "));
  const auto slow_host = watch(predicted(), 0.1);
  ASSERT_EQ(slow_host.size(), 1u);
  EXPECT_THAT(slow_host[0].message,
              HasSubstr("outside the devices: reading results and starting the step takes 100.0 ms"));
}

TEST_F(StepWatchTest, WaitingForDataHasItsOwnWarning) {
  const auto found = watch(predicted(), 0, 0.1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "XG0812");
  EXPECT_THAT(found[0].message, HasSubstr("waits 100.0 ms for data"));
}

}  // namespace
}  // namespace xrun::runtime
