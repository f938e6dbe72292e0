#include "ops/head/tree_fold.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "tests/ops/head/head_runner.h"

namespace xrun::ops {
namespace {

// The results of a fold, one for each subtree. The value of a sum shows the order of its additions.
struct Folded {
  std::vector<uint64_t> sums;
  int64_t blocks = 0;  // number of blocks that were computed, each once
};

uint64_t leaf(int64_t block) { return static_cast<uint64_t>(block) * 0x9E3779B97F4A7C15U + 1; }
uint64_t sum(uint64_t left, uint64_t right) { return (left ^ (left >> 29)) * 0xBF58476D1CE4E5B9U + 3 * right; }

uint64_t expected(int64_t begin, int64_t end) {
  if (end - begin == 1) {
    return leaf(begin);
  }
  int64_t half = 1;
  while (2 * half < end - begin) {
    half *= 2;
  }
  return sum(expected(begin, begin + half), expected(begin + half, end));
}

HeadShape shape_with(int64_t shard, int64_t shards, int workers) {
  const ClassBlocks blocks{1'000'000, 8192};  // 123 blocks
  return {.blocks = blocks,
          .dim = 8,
          .shard = blocks.rows_of_shard(shard, shards),
          .rows = 32,
          .norm_rows = 32,
          .workers = workers};
}

Folded fold(const HeadShape& shape, const std::function<void(int64_t)>& make) {
  const HeadLayout layout = head_layout(shape);
  const HeadScratch at = head_scratch(shape, HeadPass::kForward);
  const Block out(at.partial_bytes * static_cast<Bytes>(layout.subtrees.size()));
  const Block scratch(at.total);
  std::vector<std::atomic<int>> seen(static_cast<size_t>(layout.blocks.end));
  ThreadWorkers workers(shape.workers);
  const auto write = [](std::byte* to, uint64_t value) { std::memcpy(to, &value, sizeof value); };
  const auto read = [](const std::byte* from) {
    uint64_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  TreeFold(layout, at, out.data(), scratch.data())
      .run(
          workers,
          [&](int64_t block, std::byte* partial, int) {
            ++seen[static_cast<size_t>(block)];
            write(partial, leaf(block));
            make(block);
            EXPECT_EQ(read(partial), leaf(block)) << "another block has this place, too";
          },
          [&](std::byte* left, std::byte* right) { write(left, sum(read(left), read(right))); });
  Folded folded;
  for (size_t s = 0; s < layout.subtrees.size(); ++s) {
    folded.sums.push_back(read(out.data() + static_cast<Bytes>(s) * at.partial_bytes));
  }
  for (int64_t block = layout.blocks.begin; block < layout.blocks.end; ++block) {
    folded.blocks += seen[static_cast<size_t>(block)] == 1 ? 1 : 0;
  }
  return folded;
}

void expect_right(const HeadShape& shape, const std::function<void(int64_t)>& make) {
  const HeadLayout layout = head_layout(shape);
  const Folded folded = fold(shape, make);
  EXPECT_EQ(folded.blocks, layout.blocks.size());
  for (size_t s = 0; s < layout.subtrees.size(); ++s) {
    EXPECT_EQ(folded.sums[s], expected(layout.subtrees[s].begin, layout.subtrees[s].end)) << s;
  }
}

TEST(TreeFold, SumsDoNotDependOnTheOrderInWhichBlocksFinish) {
  for (const int workers : {1, 2, 5, 16}) {
    for (const auto& [shard, shards] : {std::pair{0, 1}, std::pair{1, 3}, std::pair{4, 5}, std::pair{70, 123}}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, shard " + std::to_string(shard));
      expect_right(shape_with(shard, shards, workers), [](int64_t block) {
        for (uint64_t i = 0; i < leaf(block) % 7; ++i) {
          std::this_thread::yield();
        }
      });
    }
  }
}

// While one block takes long, the other worker computes the remaining blocks of its share. There are enough buffers to
// continue for some time.
TEST(TreeFold, ASlowBlockDoesNotStopTheOtherWorker) {
  constexpr int64_t kOthers = 16;
  constexpr int64_t kBlocks = 123;
  for (const int64_t slow : {0, 1, 5, 64, 100}) {
    std::atomic<int64_t> done = 0;
    expect_right(shape_with(0, 1, 2), [&](int64_t block) {
      // Waits for at most all blocks, because the other worker may have finished them before this worker looks.
      for (const int64_t enough = std::min(done + kOthers, kBlocks - 1); block == slow && done < enough;) {
        std::this_thread::yield();
      }
      ++done;
    });
  }
}

}  // namespace
}  // namespace xrun::ops
