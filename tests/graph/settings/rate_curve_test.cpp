#include "graph/settings/rate_curve.h"

#include <gtest/gtest.h>

namespace xrun {
namespace {

TEST(Curve, PiecesFollowEachOtherAndTheLastValueIsKept) {
  const Curve curve{{{.kind = CurvePiece::kWarmup, .from = 0, .to = 1, .steps = 10},
                     {.kind = CurvePiece::kCosine, .from = 1, .to = 0, .steps = 20}}};
  EXPECT_DOUBLE_EQ(curve.at(0), 0);
  EXPECT_DOUBLE_EQ(curve.at(5), 0.5);
  EXPECT_DOUBLE_EQ(curve.at(10), 1);
  EXPECT_NEAR(curve.at(20), 0.5, 1e-12);
  EXPECT_NEAR(curve.at(30), 0, 1e-12);
  EXPECT_NEAR(curve.at(1000), 0, 1e-12);
}

TEST(Curve, PolyAndStepsFollowTheirFormulas) {
  const Curve poly{{{.kind = CurvePiece::kPoly, .from = 0.4, .to = 0, .steps = 100, .power = 2}}};
  EXPECT_NEAR(poly.at(50), 0.1, 1e-12);
  const Curve steps{{{.kind = CurvePiece::kSteps, .from = 1, .steps = 100, .at = {10, 20}, .by = 0.1}}};
  EXPECT_DOUBLE_EQ(steps.at(9), 1);
  EXPECT_DOUBLE_EQ(steps.at(10), 0.1);
  EXPECT_NEAR(steps.at(99), 0.01, 1e-15);
}

}  // namespace
}  // namespace xrun
