// Sums over class blocks: every division of the classes adds the same pairs of ranges.
#include "graph/layouts/head_folds.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

namespace xrun {
namespace {

// The pairs of ranges of class blocks that a sum adds, as {begin of left, begin of right, end of right}.
using Sums = std::set<std::array<int64_t, 3>>;

// Takes the steps of all sums and adds the pairs to `sums`. Returns the ranges that are left, one for each sum.
std::vector<BlockRange> take(const ClassBlocks& blocks, const std::vector<ClassRange>& pieces, Sums& sums) {
  std::vector<BlockRange> results;
  for (const std::vector<HeadFold>& steps : head_folds(blocks, pieces)) {
    std::vector<BlockRange> stack;
    for (const HeadFold& step : steps) {
      if (step.piece >= 0) {
        const auto subtrees = blocks.subtrees(blocks.of_rows(pieces[static_cast<size_t>(step.piece)]));
        stack.push_back(subtrees.at(static_cast<size_t>(step.subtree)));
        continue;
      }
      const BlockRange right = stack.back();
      stack.pop_back();
      EXPECT_EQ(stack.back().end, right.begin);
      sums.insert({stack.back().begin, right.begin, right.end});
      stack.back().end = right.end;
    }
    EXPECT_EQ(stack.size(), 1U);
    results.push_back(stack.back());
  }
  return results;
}

TEST(HeadFolds, AddEachPairOfTheTreeForEveryDivision) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const ClassBlocks blocks{.classes = 64 * static_cast<int64_t>(1 + random() % 40) - 9, .size = 64};
    std::vector<ClassRange> single, some;
    int64_t begin = 0;
    for (int64_t b = 0; b < blocks.count(); ++b) {
      single.push_back({b * 64, std::min(blocks.classes, (b + 1) * 64)});
      if (random() % 3 == 0 || b + 1 == blocks.count()) {
        some.push_back({begin, single.back().end});
        begin = single.back().end;
        some.push_back({begin, begin});  // an empty shard
      }
    }
    Sums want, got;
    ASSERT_EQ(take(blocks, single, want), (std::vector<BlockRange>{{0, blocks.count()}})) << "trial " << trial;
    ASSERT_EQ(take(blocks, some, got), (std::vector<BlockRange>{{0, blocks.count()}})) << "trial " << trial;
    // Pairs within a piece are added by the piece.
    for (const auto& pair : got) {
      EXPECT_TRUE(want.contains(pair)) << "trial " << trial;
    }
    for (const ClassRange& piece : some) {
      if (piece.size() > 0) {
        Sums inside;
        std::vector<ClassRange> parts;
        for (const ClassRange& block : single) {
          if (block.begin >= piece.begin && block.end <= piece.end) {
            parts.push_back(block);
          }
        }
        EXPECT_EQ(take(blocks, parts, inside), blocks.subtrees(blocks.of_rows(piece))) << "trial " << trial;
        got.insert(inside.begin(), inside.end());
      }
    }
    EXPECT_EQ(got, want) << "trial " << trial;
  }
}

TEST(HeadFolds, DepthIsTheNumberOfResultsThatWait) {
  const ClassBlocks blocks{.classes = 8 * 64, .size = 64};
  std::vector<ClassRange> single;
  for (int64_t b = 0; b < 8; ++b) {
    single.push_back({b * 64, (b + 1) * 64});
  }
  EXPECT_EQ(depth_of(head_folds(blocks, single)), 4);
  EXPECT_EQ(depth_of(head_folds(blocks, std::vector<ClassRange>{{0, 512}})), 1);
  EXPECT_EQ(depth_of(head_folds(blocks, std::vector<ClassRange>{{0, 256}, {256, 512}})), 2);
}

}  // namespace
}  // namespace xrun
