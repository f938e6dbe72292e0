#include "runtime/executor/median_times.h"

#include <gtest/gtest.h>

namespace xrun::runtime {
namespace {

TEST(MedianTimes, AreNotChangedByOneSlowStep) {
  planner::Program program;
  program.instructions.resize(3);
  program.instructions[0].device = 0;
  program.instructions[1].device = 1;
  program.instructions[2].device = 2;  // on another rank
  MedianTimes medians(program, {.first = 0, .count = 2}, 5);
  for (const double slow : {1.0, 1.1, 9.0, 0.9, 1.0}) {
    const std::vector<Timing> timings{{.begin = 0, .end = slow}, {.begin = slow, .end = 2 * slow}, {}};
    medians.add(timings, 2 * slow);
  }
  EXPECT_EQ(medians.step(), 2.0);
  const std::vector<MedianTime> times = medians.instructions();
  ASSERT_EQ(times.size(), 3U);
  EXPECT_EQ(times[0].end, 1.0);
  EXPECT_EQ(times[1].begin, 1.0);
  EXPECT_EQ(times[1].end, 2.0);
  EXPECT_LT(times[2].begin, 0);
  EXPECT_LT(times[2].end, 0);
}

}  // namespace
}  // namespace xrun::runtime
