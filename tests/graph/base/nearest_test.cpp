// The names that a message proposes in place of an unknown name.
#include "graph/base/nearest.h"

#include <ctime>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"

namespace xrun {
namespace {

std::vector<std::string> numbered(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    names.push_back("identity_" + std::to_string(i));
  }
  return names;
}

TEST(NearestNames, ListAllOfAFewNames) {
  std::vector<std::string> names{"cat", "cow", "dog", "fox", "hen", "zebra"};
  EXPECT_EQ(nearest_names("zebr", names), "the nearest is `zebra`; others are cat, cow, dog, fox and hen");
  EXPECT_EQ(nearest_names("Dog", names), "the nearest is `dog`; others are cat, cow, fox, hen and zebra");
  EXPECT_EQ(nearest_names("elephant", names), "no known name is near; they are cat, cow, dog, fox, hen and zebra");
  names.emplace_back("yak");
  EXPECT_EQ(nearest_names("zebr", names), "the nearest is `zebra`; there are 7 names");
  EXPECT_EQ(nearest_names("cou", names), "the nearest is `cow`; there are 7 names");
  EXPECT_EQ(nearest_names("cew", names), "the nearest is `cow`; there are 7 names");
}

TEST(NearestNames, ReportThatNoNameIsNear) {
  const std::vector<std::string> names{"cat", "cow", "dog", "fox", "hen", "yak", "zebra"};
  EXPECT_EQ(nearest_names("elephant", names), "none of the 7 known names is near");
  EXPECT_EQ(nearest_names("elephant", names, "the first line has them"),
            "none of the 7 known names is near; the first line has them");
  EXPECT_EQ(nearest_names("elephant", std::span(names).first(2)), "no known name is near; they are cat and cow");
  EXPECT_EQ(nearest_names("elephant", std::span(names).first(1)), "the only known name is cat");
  EXPECT_EQ(nearest_names("cut", std::span(names).first(1)), "the nearest is `cat`");
  EXPECT_EQ(nearest_names("cut", std::span(names).first(2)), "the nearest is `cat`; the other is cow");
  EXPECT_EQ(nearest_names("cat", {}), "no names are known");
}

// A message that listed all 17 930 names of a folder of faces had 170 KB.
TEST(NearestNames, StayShortForAnyNumberAndLengthOfNames) {
  const std::vector<std::string> names = numbered(17931);
  EXPECT_EQ(
      nearest_names("identity_17930x", names),
      "the nearest is `identity_17930`; identity_1, identity_17, identity_179 and identity_1730 are also near; there "
      "are 17 931 names");
  const std::vector<std::string> long_names(9, std::string(5000, 'n') + "\n");
  EXPECT_LT(nearest_names(std::string(5000, 'm'), long_names).size(), 500U);
  const std::vector<std::string> wide(3, std::string(59, 'n') + "\u00E9");  // the cut falls between two characters
  EXPECT_NE(nearest_names("m", wide).find("nn..., nn"), std::string::npos);
}

// "stage3.0.conv" has one deletion and one replacement, the others one change each.
TEST(NearestNames, AreSortedByTheirDistance) {
  const std::vector<std::string> names{"stage3.0.conv", "stage2.0.bn",   "stage2.0.conv2", "stage2.1.conv1",
                                       "head.weight",   "stage2.0.conv", "stem.conv"};
  EXPECT_EQ(nearest_names("stage2.0.conv1", names),
            "the nearest is `stage2.0.conv2`; stage2.1.conv1, stage2.0.conv, stage3.0.conv and stage2.0.bn are also "
            "near; there are 7 names");
}

TEST(NearestNames, TakeAtMostASecondForAMillionNames) {
  const std::vector<std::string> names = numbered(testing::kSanitized ? 100'000 : 1'000'000);
  const std::clock_t start = std::clock();  // processor time, since other processes may run
  const std::string text = nearest_names("idenitty_99999x", names);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(text.substr(0, 32), "the nearest is `identity_99999`;");
  EXPECT_LT(seconds, testing::kSanitized ? 100 : 10);
}

}  // namespace
}  // namespace xrun
