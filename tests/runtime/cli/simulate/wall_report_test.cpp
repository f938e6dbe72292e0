#include "runtime/cli/simulate/wall_report.h"

#include <gtest/gtest.h>

#include "tests/support/golden.h"

namespace xrun::cli {
namespace {

WallReport report_of(double noise) {
  return {.model = "face",
          .machine = "4 x cpu on 2 nodes",
          .settings = {{"stages", "2"}, {"replicas", "1"}, {"micro_batches", "8"}, {"pipeline", "one_f_one_b"}},
          .instructions = 812,
          .slow = 12,
          .noise = noise,
          .seed = 7,
          .predicted = 0.1,
          .steps = {{.simulated = noise > 0 ? 0.102 : 0.1, .measured = 0.103},
                    {.simulated = noise > 0 ? 0.104 : 0.1, .measured = 0.104},
                    {.simulated = noise > 0 ? 0.103 : 0.1, .measured = 0.1045}},
          .devices = {{.predicted = 0.75, .measured = 0.741}, {.predicted = 0.5, .measured = 0.4988}}};
}

TEST(WallReport, HasTheSameFiguresInEachForm) {
  EXPECT_TRUE(test::matches_golden(wall_text(report_of(0.05), 0), "simulate/wall.txt"));
  EXPECT_TRUE(test::matches_golden(wall_text(report_of(0), 0), "simulate/wall_without_noise.txt"));
  EXPECT_TRUE(test::matches_golden(wall_csv(report_of(0.05)), "simulate/wall.csv"));
  EXPECT_TRUE(test::matches_golden(wall_json(report_of(0.05)), "simulate/wall.json"));
}

TEST(SpreadOf, HasTheMeanOfTheTwoMiddleValues) {
  const Spread even = spread_of({4, 1, 3, 2});
  EXPECT_EQ(even.low, 1);
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(even.high, 4);
  EXPECT_EQ(spread_of({5, 9, 7}).median, 7);
}

}  // namespace
}  // namespace xrun::cli
