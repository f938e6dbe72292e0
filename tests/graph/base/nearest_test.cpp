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

TEST(NearestNames, ListTheNearestNameAndAtMostFiveOthers) {
  std::vector<std::string> names{"cat", "cow", "dog", "fox", "hen", "zebra"};
  EXPECT_EQ(nearest_names("zebr", names), "the nearest is `zebra`; others are cat, cow, dog, fox and hen");
  EXPECT_EQ(nearest_names("Dog", names), "the nearest is `dog`; others are cat, cow, fox, hen and zebra");
  names.emplace_back("yak");
  EXPECT_EQ(nearest_names("zebr", names), "the nearest is `zebra`; others are cat, cow, dog, fox, hen and 1 more");
}

TEST(NearestNames, ReportThatNoNameIsNear) {
  const std::vector<std::string> names{"cat", "cow", "dog", "fox", "hen", "zebra"};
  EXPECT_EQ(nearest_names("elephant", names), "no known name is near; some are cat, cow, dog, fox, hen and 1 more");
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
      "the nearest is `identity_17930`; others are identity_0, identity_1, identity_2, identity_3, identity_4 and "
      "17 925 more");
  const std::vector<std::string> long_names(9, std::string(5000, 'n') + "\n");
  EXPECT_LT(nearest_names(std::string(5000, 'm'), long_names).size(), 500U);
  const std::vector<std::string> wide(3, std::string(59, 'n') + "\u00E9");  // the cut falls between two characters
  EXPECT_NE(nearest_names("m", wide).find("nn..., nn"), std::string::npos);
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
