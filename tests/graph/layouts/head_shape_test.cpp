#include "graph/layouts/head_shape.h"

#include <gtest/gtest.h>

namespace xrun {
namespace {

ClassBlocks blocks_of(int64_t classes) { return {classes, class_block(classes, classes)}; }

TEST(HeadShape, ClassBlocksAreTheDocumentedOnes) {
  EXPECT_EQ(blocks_of(10).size, 64);
  EXPECT_EQ(blocks_of(8191).size, 64);
  EXPECT_EQ(blocks_of(8192).size, 128);
  EXPECT_EQ(blocks_of(20902).size, 256);
  EXPECT_EQ(blocks_of(20902).count(), 82);
  EXPECT_EQ(blocks_of(1'000'000).size, 8192);
  EXPECT_EQ(blocks_of(1'000'000).count(), 123);
  EXPECT_EQ(blocks_of(100'000'000).size, 16384);
}

// With few active classes, class blocks become so large that each has a tile of active classes on average. There is at
// least one block.
TEST(HeadShape, WithFewActiveClassesBlocksAreLargerByAPowerOfTwo) {
  EXPECT_EQ(class_block(10'000'000, 10'000'000), 16384);
  EXPECT_EQ(class_block(10'000'000, 100'000), 16384) << "164 active ones a block";
  EXPECT_EQ(class_block(10'000'000, 10'000), 131'072) << "131 active ones a block";
  EXPECT_EQ(class_block(1'000'000, 10'000), 16384);
  EXPECT_EQ(class_block(20'902, 209), 16384) << "a block of 8,192 would have 82";
  EXPECT_EQ(class_block(20'902, 10), 32768) << "one block has all classes";
  EXPECT_EQ(class_block(10, 1), 64);
  for (const int64_t classes : {2, 64, 1000, 20902, 1'000'000, 100'000'000}) {
    for (int64_t active = classes; active > 0; active /= 3) {
      const int64_t size = class_block(classes, active);
      const int64_t all = class_block(classes, classes);
      EXPECT_EQ(size % all, 0);
      EXPECT_EQ((size / all) & (size / all - 1), 0) << "a power of two";
      EXPECT_TRUE(active == classes || size >= classes ||
                  static_cast<double>(active) * static_cast<double>(size) >= 127.9 * static_cast<double>(classes));
    }
  }
}

TEST(HeadShape, ShardsCoverAllClassesOnceInWholeBlocks) {
  for (const int64_t classes : {2, 64, 65, 1000, 20902, 1'000'000}) {
    for (int64_t shards = 1; shards <= 9; ++shards) {
      int64_t next = 0;
      for (int64_t shard = 0; shard < shards; ++shard) {
        const ClassRange range = blocks_of(classes).rows_of_shard(shard, shards);
        EXPECT_EQ(range.begin, next);
        EXPECT_TRUE(range.end % blocks_of(classes).size == 0 || range.end == classes);
        next = range.end;
      }
      EXPECT_EQ(next, classes);
    }
  }
}

// Returns whether the range is a node of the binary tree over all blocks.
bool is_node(BlockRange range, int64_t blocks) {
  for (int64_t size = 1;; size *= 2) {
    if (range.begin % size == 0 && range.end == std::min(range.begin + size, blocks)) {
      return true;
    }
    if (size > blocks) {
      return false;
    }
  }
}

TEST(HeadShape, SubtreesAreTheFewestTreeNodesThatCoverARange) {
  for (const int64_t blocks : {1, 2, 3, 7, 16, 82, 123}) {
    const int64_t classes = blocks * 64;
    ASSERT_EQ(blocks_of(classes).count(), blocks) << "blocks of 64 are used up to 8191 classes";
    for (int64_t begin = 0; begin < blocks; ++begin) {
      for (int64_t end = begin + 1; end <= blocks; ++end) {
        for (const int level : {0, 1, 2, 62}) {
          int64_t next = begin;
          const auto subtrees = blocks_of(classes).subtrees({begin, end}, level);
          for (const BlockRange& subtree : subtrees) {
            EXPECT_EQ(subtree.begin, next);
            EXPECT_TRUE(is_node(subtree, blocks)) << subtree.begin << ".." << subtree.end << " of " << blocks;
            EXPECT_LE(subtree.size(), int64_t{1} << std::min(level, 20));
            next = subtree.end;
          }
          EXPECT_EQ(next, end);
          if (level == 62) {
            EXPECT_LE(subtrees.size(), 14U);  // 2 · log2(128)
            if (begin == 0 && end == blocks) {
              EXPECT_EQ(subtrees.size(), 1U);
            }
          }
        }
      }
    }
  }
}

HeadShape million(int workers) {
  return {.blocks = blocks_of(1'000'000),
          .dim = 512,
          .shard = {0, 1'000'000},
          .rows = 256,
          .norm_rows = 64,
          .form = {.cosine = true},
          .workers = workers};
}

// In addition to the working memory of each worker, a pass needs memory for its own partial result and half of another
// one that waits for it.
TEST(HeadShape, MemoryForPartialResultsDependsOnTheNumberOfWorkers) {
  for (const int workers : {1, 2, 8, 64}) {
    const HeadShape shape = million(workers);
    const HeadLayout layout = head_layout(shape);
    const HeadScratch at = head_scratch(shape, HeadPass::kBackward);
    EXPECT_EQ(at.partial_bytes, 256 * 512 * 4);
    const Bytes rows = 2 * at.partial_bytes + align_up(kHeadRowPlanes * 256 * 4);
    EXPECT_LE(at.workers - rows, (3 * workers / 2 + 7) * at.partial_bytes + 4 * kKiB) << workers;
    EXPECT_GE(layout.partials, std::min<int64_t>(122, workers + 6)) << workers;
  }
}

// One step of the sum over rows takes 32 rows in bf16 and one row in f32.
TEST(HeadShape, RowBlocksArePaddedToTheStepOfTheSum) {
  for (const int64_t g : {4, 8, 24, 32, 64}) {
    HeadShape shape{.blocks = blocks_of(1000), .dim = 64, .shard = {0, 1000}, .rows = 4 * g, .norm_rows = g};
    EXPECT_EQ(head_layout(shape).rows_padded, align_up(4 * g, 32)) << g;
    EXPECT_EQ(head_layout(shape).row_block_padded, g);
    shape.bf16 = true;
    EXPECT_EQ(head_layout(shape).rows_padded, 4 * align_up(g, 32)) << g;
  }
}

// The bound is explained in docs/internals/memory.md, "A million classes".
TEST(HeadShape, AMillionClassesNeedAtMost64MiBBesidesWeightsAndState) {
  for (const int workers : {1, 2, 8, 16}) {
    const HeadShape shape{.blocks = blocks_of(1'000'000),
                          .dim = 512,
                          .shard = {0, 1'000'000},
                          .rows = 256,
                          .norm_rows = 64,
                          .bf16 = true,
                          .form = {.cosine = true},
                          .workers = workers};
    const Bytes all =
        head_prepared_bytes(shape) + head_stats_bytes(shape) + head_gradient_bytes(shape) + head_softmax_bytes(shape) +
        std::max(head_scratch_bytes(shape, HeadPass::kForward), head_scratch_bytes(shape, HeadPass::kBackward));
    EXPECT_LE(all, 64 * kMiB) << workers << " workers: " << format_bytes(all);
  }
}

TEST(HeadShape, AnEmptyShardNeedsNoMemory) {
  const HeadShape shape{
      .blocks = blocks_of(64), .dim = 8, .shard = blocks_of(64).rows_of_shard(0, 4), .rows = 4, .norm_rows = 4};
  EXPECT_EQ(shape.shard.size(), 0);
  EXPECT_EQ(head_stats_bytes(shape), 0);
  EXPECT_EQ(head_gradient_bytes(shape), 0);
  EXPECT_EQ(head_scratch_bytes(shape, HeadPass::kBackward), 0);
}

}  // namespace
}  // namespace xrun
