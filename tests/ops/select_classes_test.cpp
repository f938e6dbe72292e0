// Selection of the classes of a step (ops/head/select_classes.h).
#include "ops/head/select_classes.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <vector>

#include "tests/ops/head_runner.h"

namespace xrun::ops {
namespace {

struct Selected {
  std::vector<int32_t> classes;
  std::vector<int32_t> targets;  // the class that a row's number stands for; -1 without one
  std::vector<int64_t> of_block;
};

HeadShape selection_of(int64_t classes, int64_t active, int64_t shard, int64_t shards, int64_t rows) {
  const ClassBlocks blocks{classes, class_block(classes, active)};
  return {
      .blocks = blocks, .dim = 8, .shard = blocks.rows_of_shard(shard, shards), .active = active, .step_rows = rows};
}

Selected select(const HeadShape& shape, const std::vector<int32_t>& labels, uint64_t seed, int64_t step, int threads) {
  ThreadWorkers workers(threads);
  const Block memory(head_selection(shape).total);
  const ActiveClasses active = select_classes(shape, labels, seed, step, memory.data(), workers);
  const int64_t blocks = shape.blocks.of_rows(shape.shard).size();
  Selected all{.classes = {active.classes, active.classes + active.offsets[blocks]}};
  for (size_t i = 0; i < labels.size(); ++i) {
    const int32_t number = number_of(active, shape, labels[i]);
    all.targets.push_back(number < 0 ? -1 : active.classes[number]);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    all.of_block.push_back(active.offsets[b + 1] - active.offsets[b]);
  }
  return all;
}

std::vector<int32_t> some_labels(int64_t classes, int64_t rows, uint64_t seed) {
  const RandomStream random(seed, 77);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < rows; ++i) {
    labels.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(classes))));
  }
  return labels;
}

TEST(SelectClasses, EachBlockHasItsTargetsAndItsQuotaOfDifferentClasses) {
  for (const auto& [classes, active] : {std::pair<int64_t, int64_t>{10'000'000, 10'000},
                                        {1'000'000, 10'000},
                                        {20'902, 209},
                                        {20'902, 19'000},
                                        {20'902, 20'901},
                                        {20'902, 20'902},
                                        {300, 3},
                                        {2, 1},
                                        {1, 1}}) {
    SCOPED_TRACE(std::to_string(active) + " of " + std::to_string(classes));
    const HeadShape shape = selection_of(classes, active, 0, 1, 300);
    std::vector<int32_t> labels = some_labels(classes, 300, 5);
    labels[3] = -1;  // rows without a target
    labels[7] = static_cast<int32_t>(classes);
    labels[9] = labels[8];
    const Selected got = select(shape, labels, 1, 17, 2);
    EXPECT_TRUE(std::is_sorted(got.classes.begin(), got.classes.end()));
    EXPECT_EQ(std::set<int32_t>(got.classes.begin(), got.classes.end()).size(), got.classes.size());
    EXPECT_GE(got.classes.front(), 0);
    EXPECT_LT(got.classes.back(), classes);
    std::map<int64_t, std::set<int32_t>> targets;
    for (size_t i = 0; i < labels.size(); ++i) {
      const bool has = labels[i] >= 0 && labels[i] < classes;
      EXPECT_EQ(got.targets[i], has ? labels[i] : -1);
      if (has) {
        targets[labels[i] / shape.blocks.size].insert(labels[i]);
      }
    }
    int64_t quotas = 0;
    std::map<int64_t, int64_t> in_block;
    for (const int32_t one : got.classes) {
      ++in_block[one / shape.blocks.size];
    }
    for (int64_t block = 0; block < shape.blocks.count(); ++block) {
      quotas += head_quota(shape, block);
      EXPECT_EQ(in_block[block], std::max(head_quota(shape, block), static_cast<int64_t>(targets[block].size())));
      EXPECT_EQ(in_block[block], got.of_block[static_cast<size_t>(block)]);
    }
    EXPECT_GE(quotas, active);
    EXPECT_LE(quotas, active + 1) << "a short last block has one at least";
  }
}

TEST(SelectClasses, ShardsAndThreadsSelectTheSameClasses) {
  for (const int64_t active : {2'000, 60'000}) {
    const std::vector<int32_t> labels = some_labels(100'000, 256, 6);
    const Selected whole = select(selection_of(100'000, active, 0, 1, 256), labels, 3, 4, 1);
    for (const int64_t shards : {2, 3, 7}) {
      std::vector<int32_t> joined;
      std::vector<int32_t> targets(labels.size(), -1);
      for (int64_t shard = 0; shard < shards; ++shard) {
        const HeadShape shape = selection_of(100'000, active, shard, shards, 256);
        if (shape.shard.size() == 0) {
          continue;
        }
        const Selected part = select(shape, labels, 3, 4, 3);
        joined.insert(joined.end(), part.classes.begin(), part.classes.end());
        for (size_t i = 0; i < labels.size(); ++i) {
          targets[i] = std::max(targets[i], part.targets[i]);
        }
      }
      EXPECT_EQ(joined, whole.classes) << shards;
      EXPECT_EQ(targets, whole.targets) << shards;
    }
  }
}

TEST(SelectClasses, StepsAndSeedsSelectOthers) {
  const HeadShape shape = selection_of(50'000, 1'000, 0, 1, 0);
  const Selected one = select(shape, {}, 1, 1, 1);
  EXPECT_EQ(select(shape, {}, 1, 1, 2).classes, one.classes);
  EXPECT_NE(select(shape, {}, 1, 2, 1).classes, one.classes);
  EXPECT_NE(select(shape, {}, 2, 1, 1).classes, one.classes);
}

// Each class is as likely as any other, whether it is drawn or left out.
TEST(SelectClasses, EveryClassComesAsOften) {
  constexpr int64_t kClasses = 200;
  constexpr int kSteps = 4000;
  for (const int64_t active : {20, 150}) {
    const HeadShape shape = selection_of(kClasses, active, 0, 1, 2);
    ASSERT_EQ(shape.blocks.count(), 1);
    std::vector<int> counts(kClasses);
    for (int step = 0; step < kSteps; ++step) {
      for (const int32_t one : select(shape, {5, 70}, 9, step, 1).classes) {
        ++counts[static_cast<size_t>(one)];
      }
    }
    const double share = static_cast<double>(active - 2) / (kClasses - 2);
    const double deviation = std::sqrt(kSteps * share * (1 - share));
    for (size_t c = 0; c < counts.size(); ++c) {
      if (c == 5 || c == 70) {
        EXPECT_EQ(counts[c], kSteps);
      } else {
        EXPECT_NEAR(counts[c], kSteps * share, 5 * deviation) << c;
      }
    }
  }
}

}  // namespace
}  // namespace xrun::ops
