// Working memory of heads on GPUs: pieces and chunks cover all classes and rows, and parts do not overlap.
#include "graph/layouts/gpu_head.h"

#include <gtest/gtest.h>
#include <random>

namespace xrun {
namespace {

HeadShape some_shape(std::mt19937_64& random) {
  const int64_t classes = 70 + static_cast<int64_t>(random() % 4000),
                norm_rows = 1 + static_cast<int64_t>(random() % 50);
  const ClassBlocks blocks{classes, class_block(classes, classes)};
  const auto shards = static_cast<int64_t>(1 + random() % 4);
  const auto shard = static_cast<int64_t>(random() % static_cast<uint64_t>(shards));
  const bool cosine = random() % 2 == 0;
  return {.blocks = blocks,
          .dim = 1 + static_cast<int64_t>(random() % 100),
          .shard = blocks.rows_of_shard(shard, shards),
          .rows = norm_rows * static_cast<int64_t>(1 + random() % 20),
          .norm_rows = norm_rows,
          .bf16 = random() % 2 == 0,
          .form = {.cosine = cosine, .bias = !cosine},
          .kept_blocks = static_cast<int64_t>(random() % 5),
          .gpu = GpuHeadWork{.classes = int64_t{64} << (random() % 6), .places = int64_t{32} << (random() % 6)}};
}

TEST(GpuHead, PiecesAndChunksCoverAllClassesAndRows) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(trial);
    const HeadShape shape = some_shape(random);
    if (shape.shard.size() == 0) {
      continue;
    }
    const GpuHeadLayout layout = gpu_head_layout(shape);
    int64_t next = shape.shard.begin, kept = 0;
    for (size_t i = 0; i < layout.pieces.size(); ++i) {
      const ClassRange& piece = layout.pieces[i];
      ASSERT_EQ(piece.begin, next);
      next = piece.end;
      EXPECT_LE(piece.size(), std::max(shape.gpu->classes, shape.blocks.size));
      EXPECT_LE(piece.size(), layout.piece_classes);
      kept += static_cast<int64_t>(i) < layout.kept_pieces ? piece.size() : 0;
    }
    EXPECT_EQ(next, shape.shard.end);
    EXPECT_EQ(kept, head_kept_classes(shape));
    int64_t place = 0, row = 0;
    for (const GpuHeadRows& chunk : layout.chunks) {
      ASSERT_EQ(chunk.first_place, place);
      ASSERT_EQ(chunk.first_row, row);
      EXPECT_EQ(chunk.first_place % 32, 0);
      EXPECT_EQ(chunk.first_place, chunk.first_row / shape.norm_rows * layout.all.row_block_padded);
      EXPECT_GT(chunk.rows, 0);
      EXPECT_LE(chunk.places, layout.chunk_places);
      place += chunk.places;
      row += chunk.rows;
    }
    EXPECT_EQ(place, layout.all.rows_padded);
    EXPECT_EQ(row, shape.rows);
    EXPECT_EQ(layout.folds.size(), layout.all.subtrees.size());
  }
}

// A head of 100,000 classes in bf16 with 256 rows of 512 dims.
TEST(GpuHead, ScratchOfALargeHead) {
  const ClassBlocks blocks{100'000, class_block(100'000, 100'000)};
  HeadShape shape{.blocks = blocks,
                  .dim = 512,
                  .shard = {0, 100'000},
                  .rows = 256,
                  .norm_rows = 64,
                  .bf16 = true,
                  .form = {.cosine = true},
                  .gpu = GpuHeadWork{}};
  EXPECT_EQ(gpu_head_layout(shape).piece_blocks, 16);
  const auto kib = [&](HeadPass pass) { return head_scratch_bytes(shape, pass) / 1024; };
  // Rows and their values, classes, logits; statistics of 16 blocks and of 2 pieces that wait.
  EXPECT_EQ(kib(HeadPass::kForward), 256 + 8 + 16'384 + 16'384 + 18 * 6);
  // Gradients of logits and dW; dX of 16 blocks and of 2 pieces, or squares.
  EXPECT_EQ(kib(HeadPass::kBackward), 256 + 13 + 16'384 + 16'384 + 8'192 + 32'768 + 18 * 512);
  EXPECT_EQ(kib(HeadPass::kUpdate), 256 + 13 + 16'384 + 16'384 + 8'192 + 32'768 + 128);
  shape.kept_blocks = blocks.count();
  EXPECT_EQ(kib(HeadPass::kBackward), 256 + 13 + 16'384 + 8'192 + 32'768 + 18 * 512) << "all logits are kept";
  shape.shard = {100'000, 100'000};
  EXPECT_EQ(head_scratch_bytes(shape, HeadPass::kForward), 0) << "a shard without rows";
  shape.gpu.reset();
  shape.shard = {0, 100'000};
  EXPECT_LT(head_scratch_bytes(shape, HeadPass::kForward), Bytes{4} << 20) << "that of one worker of a CPU";
}

TEST(GpuHead, SumsOverShardsNeedScratchOnlyForWaitingResults) {
  const ClassBlocks blocks{8 * 64, 64};
  HeadShape shape{.blocks = blocks, .dim = 40, .shard = {0, 512}, .rows = 64, .norm_rows = 32, .gpu = GpuHeadWork{}};
  const std::vector<ClassRange> one{{0, 512}}, two{{0, 256}, {256, 512}}, uneven{{0, 192}, {192, 512}};
  const Bytes slot = 64 * 64 * 4, stats = 6 * 64 * 4;
  EXPECT_EQ(gpu_dx_scratch_bytes(shape, one, 64), 0);
  EXPECT_EQ(gpu_dx_scratch_bytes(shape, two, 64), slot);
  EXPECT_EQ(gpu_dx_scratch_bytes(shape, two, 32), slot / 2);
  EXPECT_EQ(gpu_dx_scratch_bytes(shape, uneven, 64), 2 * slot);
  EXPECT_EQ(gpu_join_scratch(shape, one, false).total, 0);
  EXPECT_EQ(gpu_join_scratch(shape, two, false).total, stats);
  EXPECT_EQ(gpu_join_scratch(shape, two, true).total, stats + 64 * (4 + 8 + 8)) << "labels, psi and slope";
}

}  // namespace
}  // namespace xrun
