#include "graph/layouts/head_shape.h"

#include <algorithm>
#include <bit>

#include "graph/base/check.h"
#include "graph/layouts/gpu_head.h"
#include "graph/module.h"

namespace xrun {

namespace {

constexpr int64_t kMinBlock = 64;
constexpr int64_t kMaxBlock = 16384;
// The most partial sums over classes that a pass holds at a time, without the first one of each subtree. There are
// three kinds. Each worker makes one. Blocks are handed out in order but finished in any order, so some sums wait for a
// neighbouring block that is not finished: at most half as many as there are workers. A range of consecutive finished
// blocks leaves one sum for each power of two in its length. With less memory some workers would have to wait. A pass
// can still complete if there is memory for one sum per power of two.
int64_t partials_of(int64_t blocks, int64_t subtrees, int64_t workers) {
  const int64_t powers = std::bit_width(static_cast<uint64_t>(blocks));
  return std::min(blocks - subtrees, workers + workers / 2 + powers - 1);
}

}  // namespace

int64_t class_block(int64_t classes, int64_t active) {
  XRUN_CHECK(0 < active && active <= classes, "some of the classes are active");
  const int64_t share = classes / 64;
  int64_t size =
      share <= kMinBlock ? kMinBlock : std::min<int64_t>(kMaxBlock, std::bit_floor(static_cast<uint64_t>(share)));
  const double share_active = static_cast<double>(active) / static_cast<double>(classes);
  while (active < classes && size < classes &&
         static_cast<double>(size) * share_active < static_cast<double>(kHeadTileClasses)) {
    size *= 2;
  }
  return size;
}

ClassBlocks class_blocks(const Module& module, size_t head) {
  const Graph& graph = module.graph;
  const int64_t classes = graph.value(graph.node(graph.heads[head].node).inputs[1]).type.dims[0];
  return {.classes = classes, .size = class_block(classes, module.train.active_classes.of(classes))};
}

BlockRange ClassBlocks::of_shard(int64_t shard, int64_t shards) const {
  return {count() * shard / shards, count() * (shard + 1) / shards};
}

ClassRange ClassBlocks::rows_of_shard(int64_t shard, int64_t shards) const {
  const BlockRange blocks = of_shard(shard, shards);
  return {std::min(classes, blocks.begin * size), std::min(classes, blocks.end * size)};
}

BlockRange ClassBlocks::of_rows(ClassRange rows) const {
  if (rows.size() <= 0) {
    return {};
  }
  XRUN_CHECK(rows.begin % size == 0 && (rows.end % size == 0 || rows.end == classes),
             "a shard owns whole class blocks");
  return {rows.begin / size, (rows.end + size - 1) / size};
}

std::vector<BlockRange> ClassBlocks::subtrees(BlockRange range, int max_level) const {
  const int64_t blocks = count();
  std::vector<BlockRange> parts;
  for (int64_t begin = range.begin; begin < range.end;) {
    int64_t length = 1;
    // The subtree is doubled while the larger one is aligned and inside the range. Past the last block there are no
    // classes, so the larger one may end there.
    for (int level = 0; level < max_level && begin % (2 * length) == 0 &&
                        std::min(begin + 2 * length, blocks) <= range.end && begin + length < range.end;
         ++level) {
      length *= 2;
    }
    const int64_t end = std::min(begin + length, range.end);
    parts.push_back({begin, end});
    begin = end;
  }
  return parts;
}

HeadLayout head_layout(const HeadShape& shape) {
  XRUN_CHECK(shape.norm_rows > 0 && shape.rows % shape.norm_rows == 0, "a head pass takes whole row blocks");
  HeadLayout layout;
  layout.dim_padded = align_up(shape.dim, kHeadStep);
  // In f32 a product sums row by row, so only bf16 row blocks need padding.
  layout.row_block_padded = shape.bf16 ? align_up(shape.norm_rows, kHeadStep) : shape.norm_rows;
  layout.rows_padded = align_up(shape.rows / shape.norm_rows * layout.row_block_padded, kHeadStep);
  layout.tile_classes = std::min(shape.blocks.size, kHeadTileClasses);
  layout.tile_rows = std::min(layout.rows_padded, kHeadTileRows);
  layout.stat_planes = 4 + 2 * shape.top_k;
  layout.blocks = shape.blocks.of_rows(shape.shard);
  layout.subtrees = shape.blocks.subtrees(layout.blocks);
  layout.partials = partials_of(layout.blocks.size(), static_cast<int64_t>(layout.subtrees.size()), shape.workers);
  return layout;
}

Bytes head_prepared_bytes(const HeadShape& shape) { return shape.form.cosine ? align_up(shape.shard.size() * 4) : 0; }

Bytes head_stats_bytes(const HeadShape& shape) {
  const HeadLayout layout = head_layout(shape);
  return align_up(static_cast<Bytes>(layout.subtrees.size()) * layout.stat_planes * layout.rows_padded * 4);
}

Bytes head_gradient_bytes(const HeadShape& shape) {
  const HeadLayout layout = head_layout(shape);
  return static_cast<Bytes>(layout.subtrees.size()) * layout.rows_padded * layout.dim_padded * 4;
}

namespace {

// The active classes of a step: the number that the shape gives, or the step's targets if they are more.
int64_t most_active(const HeadShape& shape) { return std::max(shape.active, shape.step_rows); }

// The largest number of active classes among `classes` classes of a shard: their share of the classes that are drawn,
// which come evenly from all blocks, and in addition at most all targets of the step.
int64_t most_drawn(const HeadShape& shape, int64_t classes) {
  const int64_t share = shape.active * classes / shape.blocks.classes + 1;  // rounded up
  return std::min({classes, most_active(shape), shape.step_rows + share});
}

}  // namespace

HeadSelection head_selection(const HeadShape& shape) {
  const int64_t blocks = shape.blocks.of_rows(shape.shard).size();
  const bool lists = shape.neighbours > 0;
  const int64_t in_lists = shape.step_rows * (shape.neighbours + 1);
  const int64_t chosen = lists ? std::max(shape.step_rows, std::min(shape.active, in_lists)) : shape.step_rows;
  // All classes in the lists of nearest classes may belong to one shard.
  const int64_t most = lists ? std::min(shape.shard.size(), most_active(shape)) : most_drawn(shape, shape.shard.size());
  HeadSelection at{.total = align_up(sizeof(HeadCounts)), .most = most};
  const auto take = [&at](int64_t count) {
    const Bytes begin = at.total;
    at.total += align_up(count * static_cast<Bytes>(sizeof(int32_t)));
    return begin;
  };
  at.slots = lists ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * chosen + 2))) : 0;
  at.chosen = take(chosen);
  at.met = take(at.slots);
  at.counts = take(shape.blocks.count());
  at.offsets = take(blocks + 1);
  at.draws = take(most);
  at.classes = take(most);
  at.corrections = take(shape.log_q ? most : 0);
  at.former = take(most);
  return at;
}

int64_t head_kept_classes(const HeadShape& shape) {
  const int64_t classes = std::min(shape.shard.size(), shape.kept_blocks * shape.blocks.size);
  return shape.active == 0 || classes == 0 ? classes : most_drawn(shape, classes);
}

Bytes head_logits_bytes(const HeadShape& shape) {
  return shape.kept_blocks == 0 ? 0 : head_kept_classes(shape) * head_layout(shape).rows_padded * 4;
}

HeadShape of_all_classes(const HeadShape& shape) {
  HeadShape all = shape;
  all.active = all.neighbours = all.kept_blocks = 0;
  all.log_q = false;
  return all;
}

Bytes head_mass_scratch_bytes(const HeadShape& shape) {
  return head_stats_bytes(shape) + std::max(head_scratch_bytes(shape, HeadPass::kForward),
                                            head_scratch_bytes(of_all_classes(shape), HeadPass::kForward));
}

HeadGradientRows head_gradient_rows(const HeadShape& shape, int64_t row_begin, int64_t row_end) {
  const HeadLayout layout = head_layout(shape);
  const Bytes row = layout.dim_padded * 4;
  const auto place = [&](int64_t begin) { return begin / shape.norm_rows * layout.row_block_padded; };
  return {.begin = place(row_begin) * row,
          .bytes = (place(row_end) - place(row_begin)) * row,
          .step = layout.rows_padded * row,
          .subtrees = static_cast<int64_t>(layout.subtrees.size())};
}

Bytes head_softmax_bytes(const HeadShape& shape) { return align_up(shape.rows * kHeadSoftmaxRow); }

HeadScratch head_scratch(const HeadShape& shape, HeadPass pass) {
  return head_scratch(shape, head_layout(shape), pass);
}

HeadScratch head_scratch(const HeadShape& shape, const HeadLayout& layout, HeadPass pass) {
  HeadScratch scratch;
  if (layout.subtrees.empty()) {
    return scratch;
  }
  const bool forward = pass == HeadPass::kForward;
  const bool dx = pass == HeadPass::kBackward;
  const Bytes rows = layout.rows_padded * layout.dim_padded * 4;
  const Bytes weights = layout.tile_classes * layout.dim_padded * 4;
  const Bytes tile = align_up(layout.tile_classes * (layout.tile_rows + kHeadSkew) * 4);
  scratch.partial_bytes = forward ? layout.stat_planes * layout.rows_padded * 4 : dx ? rows : 0;

  Bytes end = 0;
  const auto take = [&end](Bytes bytes) {
    const Bytes begin = end;
    end += align_up(bytes);
    return begin;
  };
  scratch.logit_rows = take(rows);
  scratch.gradient_rows = take(forward ? 0 : rows);
  scratch.row_values = take(kHeadRowPlanes * layout.rows_padded * 4);
  scratch.steep = take(dx && shape.form.cosine && shape.margin.angular() ? rows : 0);
  scratch.partials = take(scratch.partial_bytes * layout.partials);
  scratch.fold = take(forward || dx ? layout.blocks.size() * kHeadFoldNodeBytes + layout.partials * 8 : 0);
  scratch.workers = end;
  end = 0;
  scratch.logit_weights = take(layout.tile_classes * (layout.dim_padded + kHeadSkew) * 4);
  scratch.gradient_weights = take(dx ? weights : 0);
  scratch.logits = take(tile);
  scratch.pairs = take(forward ? 0 : tile);
  scratch.weight_gradient = take(forward ? 0 : weights);
  scratch.class_values = take(forward ? 0 : layout.tile_classes * 16 * 4);
  const Bytes rows_of_tile = layout.tile_classes * shape.dim * 4;
  const int states = std::max(2, shape.state_count);
  const bool apart = shape.active > 0 || shape.untouched == Untouched::kExact;
  scratch.class_rows = take(shape.weights == RowFormat::kF32 && !apart ? 0 : rows_of_tile);
  scratch.class_states = take((shape.states == RowFormat::kF32 && !apart) || forward ? 0 : states * rows_of_tile);
  scratch.class_vectors = take(apart ? (2 + states) * layout.tile_classes * 4 : 0);
  scratch.worker_bytes = end;
  scratch.total = scratch.workers + scratch.worker_bytes * shape.workers;
  return scratch;
}

Bytes head_scratch_bytes(const HeadShape& shape, HeadPass pass) {
  const Bytes processor = head_scratch(shape, pass).total;
  // Processors can also run a program for GPUs, if their inputs are copied.
  return shape.gpu && shape.shard.size() > 0
             ? std::max(processor, gpu_head_scratch(shape, gpu_head_layout(shape), pass).total)
             : processor;
}

}  // namespace xrun
