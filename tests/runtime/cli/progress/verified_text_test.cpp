// Results of `verification` as text, as fields of a line, and as JSON.
#include "runtime/cli/progress/verified_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace xrun::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// LFW as papers report it.
runtime::VerifiedPairs lfw() {
  return {.key = "lfw",
          .pairs = 6000,
          .different = 3000,
          .folds = 10,
          .accuracy = 0.99783,
          .deviation = 0.0027,
          .threshold = 1.31,
          .tar_at_far = {{0.1, 0.9993, 0.001, 0.1},
                         {0.01, 0.998, 0.002, 0.0101},
                         {0.001, 0.997, 0.003, 0.0009},
                         {0, 0.991}},
          .seconds = 12};
}

TEST(VerifiedText, HasTheSmallestFarThatThePairsMeasure) {
  EXPECT_EQ(verified_line(lfw(), true),
            "lfw   6 000 pairs   accuracy 99.78 ± 0.27 %   threshold 1.31   TAR@FAR=1e-3 99.70 %   12.0 s");
  EXPECT_THAT(verified_line(lfw(), false), HasSubstr("99.78 +- 0.27 %"));
  EXPECT_EQ(
      tar_line(lfw()),
      "TAR@FAR=1e-1 99.93 %   TAR@FAR=1e-2 99.80 %   TAR@FAR=1e-3 99.70 %   TAR@FAR<3.3e-4 99.10 %   3 000 pairs of "
      "different classes");
  EXPECT_EQ(verified_fields(lfw()), " lfw.pairs=6000 lfw.deviation=0.0027 lfw.threshold=1.31 lfw.tar@1e-3=0.9970");
}

TEST(VerifiedText, FewPairsMeasureNoFar) {
  runtime::VerifiedPairs few = lfw();
  few.tar_at_far = {{0, 0.5}};
  few.left_out = 1;
  for (const auto& [different, far] :
       {std::pair<int64_t, const char*>{1, "<1.0e0"}, {9, "<1.1e-1"}, {1000, "<1.0e-3"}}) {
    few.different = different;
    EXPECT_THAT(verified_line(few, true),
                HasSubstr(std::string("TAR@FAR") + far + " 50.00 %   1 pair broken left out"));
    EXPECT_THAT(verified_fields(few), HasSubstr(std::string("lfw.tar@") + far + "=0.5000"));
  }
}

TEST(VerifiedText, PairsOfOneKindHaveNoTar) {
  runtime::VerifiedPairs one = lfw();
  one.tar_at_far.clear();
  EXPECT_THAT(verified_line(one, true), Not(HasSubstr("TAR")));
  EXPECT_EQ(tar_line(one), "");
  EXPECT_THAT(verified_fields(one), Not(HasSubstr("tar")));
  EXPECT_TRUE(verified_json(one)["tar_at_far"].empty());
}

TEST(VerifiedText, JsonHasAllNumbers) {
  EXPECT_EQ(verified_json(lfw()).dump(),
            R"({"pairs":6000,"different":3000,"left_out":0,"folds":10,"accuracy":0.99783,"deviation":0.0027,)"
            R"("threshold":1.31,"tar_at_far":[{"far":0.1,"tar":0.9993,"deviation":0.001,"measured_far":0.1},)"
            R"({"far":0.01,"tar":0.998,"deviation":0.002,"measured_far":0.0101},)"
            R"({"far":0.001,"tar":0.997,"deviation":0.003,"measured_far":0.0009},)"
            R"({"far":0.0,"tar":0.991,"deviation":0.0,"measured_far":0.0,"far_below":0.0003333333333333333}]})");
}

}  // namespace
}  // namespace xrun::cli
