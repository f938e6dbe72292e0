#include "runtime/formats/tables/sparse_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;

TEST(SparseText, TheFirstLineHasThreeCounts) {
  const auto header = parse_sparse_header("15539 5000 3993", "train.txt");
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->rows, 15'539);
  EXPECT_EQ(header->features, 5000);
  EXPECT_EQ(header->labels, 3993);
  for (const char* line : {"", "1 2", "1 2 3 4", "1 2 -3", "0,2 0:0.5", "1 0 3", "a b c", "1.0 2 3"}) {
    const auto bad = parse_sparse_header(line, "train.txt");
    ASSERT_FALSE(bad.ok()) << line;
    EXPECT_EQ(bad.error().code, "XG0412");
    EXPECT_THAT(bad.error().message, HasSubstr("train.txt"));
  }
}

TEST(SparseText, ARowMayLackLabelsOrFeaturesOrBoth) {
  const auto labels = [](std::string_view line) {
    const auto row = parse_sparse_row(line, 20);
    return row.ok() ? std::pair(row->labels, row->first) : std::pair(int64_t{-1}, int64_t{-1});
  };
  EXPECT_EQ(labels("3,17,0 0:0.25 4:1"), std::pair(int64_t{3}, int64_t{3}));
  EXPECT_EQ(labels("17"), std::pair(int64_t{1}, int64_t{17}));
  EXPECT_EQ(labels(" 0:0.25"), std::pair(int64_t{0}, int64_t{-1}));
  EXPECT_EQ(labels("0:0.25"), std::pair(int64_t{0}, int64_t{-1}));
  EXPECT_EQ(labels(""), std::pair(int64_t{0}, int64_t{-1}));
  for (const char* line : {"20", "-1", "3,", ",3", "3,,4", "x", "1.5", "99999999999999999999"}) {
    const auto row = parse_sparse_row(line, 20);
    ASSERT_FALSE(row.ok()) << line;
    EXPECT_EQ(row.error().code, "XG0412");
    EXPECT_THAT(row.error().message, HasSubstr("is not a whole number below the 20 labels"));
  }
}

TEST(SparseText, PairsAreFeaturesWithFiniteValues) {
  std::vector<std::pair<int64_t, float>> pairs;
  const auto add = [&](int64_t feature, float value) { pairs.emplace_back(feature, value); };
  ASSERT_TRUE(for_each_sparse_feature(" 0:0.5  9:-2e-3\t3:1 ", 10, add).ok());
  EXPECT_EQ(pairs, (std::vector<std::pair<int64_t, float>>{{0, 0.5F}, {9, -2e-3F}, {3, 1}}));
  for (const char* text : {"10:1", "-1:1", "1", "1:", ":1", "1:x", "1:nan", "1:inf", "1:1e39", "1:1:1", "0x1:1"}) {
    const Status done = for_each_sparse_feature(text, 10, add);
    ASSERT_FALSE(done.ok()) << text;
    EXPECT_EQ(done.error().code, "XG0412");
  }
}

}  // namespace
}  // namespace xrun::runtime
