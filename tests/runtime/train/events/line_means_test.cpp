// Means and times over the steps of a line of the log, measured with a clock of the test.
#include "runtime/train/events/line_means.h"

#include <gtest/gtest.h>

namespace xrun::runtime {
namespace {

struct Hands final : Clock {
  Seconds now() const override { return time; }
  Seconds time = 1000;
};

constexpr auto kEvaluation = LineMeans::Activity::kEvaluation;
constexpr auto kSave = LineMeans::Activity::kSave;

TEST(LineMeans, HaveTheBitsOfASingleStep) {
  const Hands clock;
  LineMeans line(7, false, clock);
  line.begin();
  line.add(0.1, {{"accuracy", 1.0 / 3}}, 7, 0, 0);
  EXPECT_EQ(line.report().loss, 0.1);
  EXPECT_EQ(line.report().metrics[0].second, 1.0 / 3);
}

TEST(LineMeans, WeightSamplesEquallyIfTheBatchGrows) {
  const Hands clock;
  LineMeans line(8, false, clock);
  line.begin();
  line.add(2, {{"accuracy", 0}}, 8, 0.5, 0.25);
  line.add(1, {{"accuracy", 1}}, 24, 1.5, 0);
  const LineReport report = line.report();
  EXPECT_EQ(report.loss, (2.0 * 8 + 1.0 * 24) / 32);
  EXPECT_EQ(report.metrics[0].second, 0.75);
  EXPECT_EQ(report.step, 1);
  EXPECT_EQ(report.data_wait, 0.125);
  // With `reduce = sum` the loss of a step is a sum, and the line reports the mean of these sums.
  LineMeans sums(8, true, clock);
  sums.begin();
  sums.add(16, {}, 8, 0, 0);
  sums.add(24, {}, 24, 0, 0);
  EXPECT_EQ(sums.report().loss, 20);
}

TEST(LineMeans, SamplesPerSecondExcludeEvaluationsAndSaves) {
  Hands clock;
  LineMeans line(32, false, clock);
  clock.time += 100;  // preparations before the first step
  line.begin();
  for (int step = 0; step < 4; ++step) {
    clock.time += 2;
    line.add(1, {}, 32, 1.5, 0);  // half a second passes between two steps
  }
  EXPECT_EQ(line.report().samples_per_second, 16);
  line.end_line();
  {
    const CountedAs evaluation(line, kEvaluation);
    clock.time += 40;
    {
      const CountedAs save(line, kSave);  // the best step is saved in the middle of an evaluation
      clock.time += 7;
    }
    clock.time += 3;
  }
  clock.time += 1;
  line.add(1, {}, 32, 1, 0);
  const LineReport report = line.report();
  EXPECT_EQ(report.samples_per_second, 32);
  EXPECT_EQ(report.evaluation, 43);
  EXPECT_EQ(report.saves, 7);
  EXPECT_EQ(report.run_samples, 5 * 32);
  EXPECT_EQ(report.run_seconds, 9);
  line.end_line();
  clock.time += 4;
  line.add(3, {}, 32, 1, 0);
  EXPECT_EQ(line.report().loss, 3) << "nothing is left of the lines before";
  EXPECT_EQ(line.report().evaluation, 0);
}

// Heartbeats and progress bars ask for a report between two lines of the log. It covers the steps since the last line.
TEST(LineMeans, AReportBetweenTwoLinesDoesNotStartANewLine) {
  Hands clock;
  LineMeans line(1, false, clock);
  line.begin();
  for (int step = 1; step <= 3; ++step) {
    clock.time += 1;
    line.add(step, {}, 10, 1, 0);
    EXPECT_EQ(line.report().loss, (1 + step) / 2.0);
    EXPECT_EQ(line.report().samples_per_second, 10);
  }
}

}  // namespace
}  // namespace xrun::runtime
