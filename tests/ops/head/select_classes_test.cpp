// Selection of the classes of a step (ops/head/select_classes.h).
#include "ops/head/select_classes.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "tests/ops/head/head_runner.h"

namespace xrun::ops {
namespace {

constexpr uint64_t kSeed = 20'262;

struct Selected {
  std::vector<int32_t> classes;
  std::vector<float> corrections;  // empty without logQ
  std::vector<int32_t> targets;    // class of each row's target; -1 if the row has no target
  std::vector<int64_t> of_block;
  int64_t all = 0;
  int64_t near = 0;
};

HeadShape selection_of(int64_t classes, int64_t active, int64_t rows, int64_t neighbours = 0) {
  const ClassBlocks blocks{classes, class_block(classes, active)};
  return {.blocks = blocks,
          .dim = 8,
          .shard = {0, classes},
          .active = active,
          .step_rows = rows,
          .neighbours = neighbours,
          .log_q = true};
}

HeadShape shard_of(HeadShape shape, int64_t shard, int64_t shards) {
  shape.shard = shape.blocks.rows_of_shard(shard, shards);
  return shape;
}

struct Draw {
  uint64_t seed = 1;
  int64_t step = 17;
  int threads = 2;
};

Selected select(const HeadShape& shape, const std::vector<int32_t>& labels, const std::vector<int32_t>& lists,
                const Draw& draw = {}) {
  constexpr Bytes kGuard = 256;
  ThreadWorkers workers(draw.threads);
  const Bytes size = head_selection(shape).total;
  const Block memory(size + kGuard);
  const ActiveClasses active = select_classes(shape, labels, draw.seed, draw.step, memory.data(), workers,
                                              lists.empty() ? nullptr : lists.data());
  EXPECT_TRUE(std::all_of(memory.data() + size, memory.data() + size + kGuard, [](std::byte b) {
    return b == std::byte{0xFF};
  })) << "writes behind its memory";
  const int64_t blocks = shape.blocks.of_rows(shape.shard).size();
  const int32_t count = active.offsets[blocks];
  Selected all{.classes = {active.classes, active.classes + count}, .all = active.all, .near = active.near};
  if (shape.log_q) {
    all.corrections.assign(active.corrections, active.corrections + count);
  } else {
    EXPECT_EQ(active.corrections, nullptr);
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    const int32_t number = number_of(active, shape, labels[i]);
    all.targets.push_back(number < 0 ? -1 : active.classes[number]);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    all.of_block.push_back(active.offsets[b + 1] - active.offsets[b]);
  }
  return all;
}

// Returns labels in which two rows have no target and one target occurs twice.
std::vector<int32_t> some_labels(int64_t classes, int64_t rows, uint64_t stream) {
  const RandomStream random(kSeed, stream);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < rows; ++i) {
    labels.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(classes))));
  }
  if (rows > 9) {
    labels[3] = -1;
    labels[7] = static_cast<int32_t>(classes);
    labels[9] = labels[8];
  }
  return labels;
}

// Returns lists that begin with their class and go on with classes near it, some of them twice. `holes` in a hundred
// entries name no class.
std::vector<int32_t> some_lists(int64_t classes, int64_t neighbours, uint64_t holes) {
  std::vector<int32_t> lists;
  const auto around = static_cast<uint64_t>(std::min(classes, 4 * neighbours));
  for (int64_t c = 0; c < classes; ++c) {
    const RandomStream random(kSeed, static_cast<uint64_t>(c), 1);
    lists.push_back(static_cast<int32_t>(c));
    for (int64_t k = 1; k < neighbours; ++k) {
      const auto element = static_cast<uint64_t>(2 * k);
      const bool hole = random.below(element, 100) < holes;
      const auto other = (c + static_cast<int64_t>(random.below(element + 1, around))) % classes;
      lists.push_back(hole ? (k % 2 == 0 ? -1 : static_cast<int32_t>(classes)) : static_cast<int32_t>(other));
    }
  }
  return lists;
}

// The selection by its definition: the targets, and the classes selected from their neighbour lists.
struct Chosen {
  std::set<int32_t> targets;
  std::set<int32_t> near;
};

Chosen choose(const HeadShape& shape, const std::vector<int32_t>& labels, const std::vector<int32_t>& lists,
              int64_t step) {
  const int64_t classes = shape.blocks.classes;
  const auto is_class = [&](int32_t c) { return c >= 0 && c < classes; };
  Chosen chosen;
  std::ranges::copy_if(labels, std::inserter(chosen.targets, chosen.targets.end()), is_class);
  // The smallest position of each class in any target's list.
  std::vector<int64_t> smallest(static_cast<size_t>(classes), shape.neighbours);
  for (const int32_t target : chosen.targets) {
    for (int64_t p = 0; p < shape.neighbours && !lists.empty(); ++p) {
      const int32_t one = lists[static_cast<size_t>(target * shape.neighbours + p)];
      if (is_class(one)) {
        int64_t& least = smallest[static_cast<size_t>(one)];
        least = std::min(least, p);
      }
    }
  }
  // List entries are taken by position, and within a position in the rotated order of the targets, as long as there is
  // space.
  const std::vector<int32_t> targets(chosen.targets.begin(), chosen.targets.end());
  for (int64_t p = 0; p < shape.neighbours && !lists.empty(); ++p) {
    for (size_t i = 0; i < targets.size(); ++i) {
      const int32_t target = targets[(static_cast<size_t>(step) + i) % targets.size()];
      const int32_t one = lists[static_cast<size_t>(target * shape.neighbours + p)];
      const bool fits = static_cast<int64_t>(chosen.targets.size() + chosen.near.size()) < shape.active;
      if (fits && is_class(one) && smallest[static_cast<size_t>(one)] == p && !chosen.targets.contains(one)) {
        chosen.near.insert(one);
      }
    }
  }
  return chosen;
}

// Checks a selection over the whole head.
void expect_selection(const HeadShape& shape, const std::vector<int32_t>& labels, const std::vector<int32_t>& lists) {
  const int64_t classes = shape.blocks.classes;
  const Selected got = select(shape, labels, lists);
  const Chosen want = choose(shape, labels, lists, Draw{}.step);
  const auto is_chosen = [&](int32_t c) { return want.targets.contains(c) || want.near.contains(c); };
  const auto chosen = static_cast<int64_t>(want.targets.size() + want.near.size());
  EXPECT_EQ(got.near, static_cast<int64_t>(want.near.size()));
  EXPECT_EQ(got.all, std::max(shape.active, chosen));
  ASSERT_EQ(static_cast<int64_t>(got.classes.size()), got.all);
  EXPECT_TRUE(std::is_sorted(got.classes.begin(), got.classes.end()));
  EXPECT_TRUE(std::adjacent_find(got.classes.begin(), got.classes.end()) == got.classes.end());
  EXPECT_GE(got.classes.front(), 0);
  EXPECT_LT(got.classes.back(), classes);
  EXPECT_EQ(std::ranges::count_if(got.classes, is_chosen), chosen) << "chosen classes take part";
  for (size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(got.targets[i], want.targets.contains(labels[i]) ? labels[i] : -1);
  }

  const double share = static_cast<double>(got.all - chosen) / static_cast<double>(std::max(classes - chosen, 1L));
  std::vector<int64_t> of_block(static_cast<size_t>(shape.blocks.count()));
  std::vector<int64_t> chosen_of(of_block.size());
  for (const int32_t one : got.classes) {
    ++of_block[static_cast<size_t>(one / shape.blocks.size)];
    chosen_of[static_cast<size_t>(one / shape.blocks.size)] += is_chosen(one) ? 1 : 0;
  }
  EXPECT_EQ(got.of_block, of_block);
  for (size_t i = 0; i < got.classes.size(); ++i) {
    const int64_t block = got.classes[i] / shape.blocks.size;
    const auto b = static_cast<size_t>(block);
    const int64_t size = std::min(classes, (block + 1) * shape.blocks.size) - block * shape.blocks.size;
    const auto drawn = static_cast<double>(of_block[b] - chosen_of[b]);
    const auto others = static_cast<double>(size - chosen_of[b]);
    ASSERT_NEAR(drawn, share * others, 1) << "a block's share of the draws";
    ASSERT_EQ(got.corrections[i], is_chosen(got.classes[i]) ? 0 : static_cast<float>(-std::log(drawn / others)));
  }
}

TEST(SelectClasses, TargetsAndDrawnClassesFillTheActiveClasses) {
  for (const auto& [classes, active] : {std::pair<int64_t, int64_t>{10'000'000, 10'000},
                                        {1'000'000, 10'000},
                                        {20'902, 299},
                                        {20'902, 19'000},
                                        {20'902, 20'901},
                                        {20'902, 20'902},
                                        {300, 3},
                                        {2, 1},
                                        {1, 1}}) {
    SCOPED_TRACE(std::to_string(active) + " of " + std::to_string(classes));
    expect_selection(selection_of(classes, active, 300), some_labels(classes, 300, 5), {});
  }
}

TEST(SelectClasses, ListsAreReadByPositionUntilTheSelectionIsFull) {
  for (const auto& [classes, active, neighbours] : std::vector<std::array<int64_t, 3>>{{20'902, 2'000, 8},
                                                                                       {20'902, 2'000, 100},
                                                                                       {20'902, 130, 4},
                                                                                       {20'902, 20'902, 50},
                                                                                       {3'000, 500, 32},
                                                                                       {3'000, 2'900, 32},
                                                                                       {64, 40, 100},
                                                                                       {64, 64, 3},
                                                                                       {2, 2, 5},
                                                                                       {1, 1, 1},
                                                                                       {1, 1, 7}}) {
    for (const uint64_t holes : {0, 30, 100}) {
      const auto lists = some_lists(classes, neighbours, holes);
      for (const int64_t rows : {0, 1, 12, 100}) {
        SCOPED_TRACE(std::to_string(active) + " of " + std::to_string(classes) + ", K = " + std::to_string(neighbours) +
                     ", rows " + std::to_string(rows) + ", holes " + std::to_string(holes) + ", seed " +
                     std::to_string(kSeed));
        expect_selection(selection_of(classes, active, rows, neighbours), some_labels(classes, rows, 6), lists);
      }
    }
  }
}

// Positions 0 and 1 are two classes; position 2 adds two more.
TEST(SelectClasses, TheLastPositionIsFilledInRotatingOrderOfTheTargets) {
  const std::vector<int32_t> lists = {0, 5, 6, 1, 5, 7, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7};
  for (int64_t active = 1; active <= 8; ++active) {
    HeadShape shape = selection_of(8, active, 2, 3);
    const Selected got = select(shape, {0, 1}, lists);
    EXPECT_EQ(got.near, std::clamp<int64_t>(active - 2, 0, 3)) << active;
    EXPECT_EQ(got.all, std::max<int64_t>(2, active));
  }
  for (const int64_t step : {0, 1, 2}) {
    const Selected got = select(selection_of(8, 4, 2, 3), {0, 1}, lists, {.step = step});
    EXPECT_EQ(got.classes, (std::vector<int32_t>{0, 1, 5, step % 2 == 0 ? 6 : 7})) << step;
  }
}

TEST(SelectClasses, ListsThatContainOnlyTheirClassChangeNothing) {
  std::vector<int32_t> lists(50'000);
  std::iota(lists.begin(), lists.end(), 0);
  const auto labels = some_labels(50'000, 100, 7);
  const Selected with = select(selection_of(50'000, 1'000, 100, 1), labels, lists);
  for (const int64_t neighbours : {0, 1}) {
    const Selected without = select(selection_of(50'000, 1'000, 100, neighbours), labels, {});
    EXPECT_EQ(without.classes, with.classes);
    EXPECT_EQ(without.corrections, with.corrections);
    EXPECT_EQ(without.near, 0);
  }
}

TEST(SelectClasses, ShardsAndThreadsSelectTheSameClasses) {
  for (const int64_t neighbours : {0, 20}) {
    const auto lists = neighbours == 0 ? std::vector<int32_t>() : some_lists(100'000, neighbours, 3);
    for (const int64_t active : {100, 2'000, 60'000}) {
      const std::vector<int32_t> labels = some_labels(100'000, 256, 8);
      const HeadShape head = selection_of(100'000, active, 256, neighbours);
      const Selected whole = select(head, labels, lists, {.threads = 1});
      for (const int64_t shards : {1, 2, 3, 4, 7}) {
        Selected joined{.targets = std::vector<int32_t>(labels.size(), -1)};
        for (int64_t shard = 0; shard < shards; ++shard) {
          const HeadShape shape = shard_of(head, shard, shards);
          const Selected part = select(shape, labels, lists, {.threads = 3});
          joined.classes.insert(joined.classes.end(), part.classes.begin(), part.classes.end());
          joined.corrections.insert(joined.corrections.end(), part.corrections.begin(), part.corrections.end());
          for (size_t i = 0; i < labels.size(); ++i) {
            joined.targets[i] = std::max(joined.targets[i], part.targets[i]);
          }
          EXPECT_EQ(part.all, whole.all);
          EXPECT_EQ(part.near, whole.near);
        }
        EXPECT_EQ(joined.classes, whole.classes) << shards;
        EXPECT_EQ(joined.corrections, whole.corrections) << shards;
        EXPECT_EQ(joined.targets, whole.targets) << shards;
      }
    }
  }
}

// If the lists name only classes of one shard, that shard has all active classes, and the others have hardly any.
TEST(SelectClasses, OneShardMayHaveAllActiveClasses) {
  constexpr int64_t kClasses = 100'000;
  constexpr int64_t kActive = 2'000;
  std::vector<int32_t> labels(40);
  std::iota(labels.begin(), labels.end(), 0);
  std::vector<int32_t> lists(static_cast<size_t>(40 * kActive));  // lists of the targets, which are the first classes
  for (size_t i = 0; i < lists.size(); ++i) {
    lists[i] = static_cast<int32_t>(i % kActive);
  }
  const HeadShape head = selection_of(kClasses, kActive, 40, kActive);
  int64_t sum = 0;
  for (int64_t shard = 0; shard < 4; ++shard) {
    const Selected part = select(shard_of(head, shard, 4), labels, lists);
    EXPECT_EQ(part.classes.size(), shard == 0 ? 2000U : 0U) << shard;
    sum += static_cast<int64_t>(part.classes.size());
  }
  EXPECT_EQ(sum, kActive);
}

TEST(SelectClasses, OtherStepsAndSeedsSelectOtherClasses) {
  HeadShape shape = selection_of(50'000, 1'000, 0);
  shape.log_q = false;
  const Selected one = select(shape, {}, {}, {.seed = 1, .step = 1, .threads = 1});
  EXPECT_EQ(select(shape, {}, {}, {.seed = 1, .step = 1, .threads = 2}).classes, one.classes);
  EXPECT_NE(select(shape, {}, {}, {.seed = 1, .step = 2}).classes, one.classes);
  EXPECT_NE(select(shape, {}, {}, {.seed = 2, .step = 1}).classes, one.classes);
}

// Every class that is not a target or neighbour is equally likely to be drawn, and its correction is the logarithm of
// that probability.
TEST(SelectClasses, AllOtherClassesAreDrawnEquallyOften) {
  constexpr int64_t kClasses = 200;
  constexpr int kSteps = 4000;
  std::vector<int32_t> lists(kClasses * 3);
  for (int32_t c = 0; c < kClasses; ++c) {
    const std::array<int32_t, 3> list = {c, (c + 1) % 200, (c + 64) % 200};
    std::ranges::copy(list, lists.begin() + 3 * c);
  }
  for (const int64_t active : {20, 150}) {
    const HeadShape shape = selection_of(kClasses, active, 2, 3);
    ASSERT_EQ(shape.blocks.count(), 1);
    const std::set<int32_t> chosen = {5, 6, 69, 70, 71, 134};
    std::vector<int> counts(kClasses);
    float correction = 0;
    for (int step = 0; step < kSteps; ++step) {
      const Selected got = select(shape, {5, 70}, lists, {.seed = kSeed, .step = step, .threads = 1});
      for (size_t i = 0; i < got.classes.size(); ++i) {
        ++counts[static_cast<size_t>(got.classes[i])];
        correction = std::max(correction, got.corrections[i]);
      }
    }
    const double share = static_cast<double>(active - 6) / (kClasses - 6);
    EXPECT_NEAR(correction, -std::log(share), 1e-6);
    // Pearson's statistic. The draws of one step exclude each other, so the degrees of freedom are one less than the
    // classes.
    double statistic = 0;
    for (int32_t c = 0; c < kClasses; ++c) {
      const double difference = counts[static_cast<size_t>(c)] - kSteps * share;
      if (chosen.contains(c)) {
        EXPECT_EQ(counts[static_cast<size_t>(c)], kSteps);
      } else {
        statistic += difference * difference / (kSteps * share * (1 - share));
      }
    }
    constexpr double kFreedom = kClasses - 6 - 1;
    EXPECT_NEAR(statistic, kFreedom, 4 * std::sqrt(2 * kFreedom)) << "seed " << kSeed;
  }
}

TEST(SelectClasses, CommonClassesAreCounted) {
  for (uint64_t round = 0; round < 20; ++round) {
    std::set<int32_t> sets[2];
    for (uint64_t i = 0; i < 40; ++i) {
      sets[i % 2].insert(static_cast<int32_t>(RandomStream(kSeed, round, 3).below(i, 10 + 4 * round)));
    }
    const std::vector<int32_t> left(sets[0].begin(), sets[0].end());
    const std::vector<int32_t> right(sets[1].begin(), sets[1].end());
    std::vector<int32_t> common;
    std::ranges::set_intersection(left, right, std::back_inserter(common));
    EXPECT_EQ(count_common(left, right), static_cast<int64_t>(common.size()));
    EXPECT_EQ(count_common(right, left), static_cast<int64_t>(common.size()));
  }
  EXPECT_EQ(count_common({}, std::vector<int32_t>{1}), 0);
}

}  // namespace
}  // namespace xrun::ops
