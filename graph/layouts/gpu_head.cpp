#include "graph/layouts/gpu_head.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "graph/base/check.h"
#include "graph/types/scalar_expr.h"

namespace xrun {
namespace {

// Hands out parts of a working memory one after the other.
class Parts {
 public:
  Bytes take(int64_t count, Bytes each) {
    const Bytes begin = end_;
    end_ += align_up(count * each);
    return begin;
  }
  Bytes end() const { return end_; }

 private:
  Bytes end_ = 0;
};

int64_t margin_nodes(const HeadShape& shape) {
  return shape.margin.own == nullptr ? 0 : static_cast<int64_t>(shape.margin.own->nodes().size());
}

// Rows are divided only where both a row block and 32 places end.
std::vector<GpuHeadRows> chunks_of(const HeadShape& shape, const HeadLayout& all) {
  const int64_t unit = kHeadStep / std::gcd(kHeadStep, all.row_block_padded);
  const int64_t blocks = std::max<int64_t>(1, shape.gpu->places / (unit * all.row_block_padded)) * unit;
  std::vector<GpuHeadRows> chunks;
  for (int64_t place = 0, row = 0; place < all.rows_padded;) {
    chunks.push_back({.first_place = place,
                      .places = std::min(blocks * all.row_block_padded, all.rows_padded - place),
                      .first_row = row,
                      .rows = std::min(blocks * shape.norm_rows, shape.rows - row)});
    place += chunks.back().places;
    row += chunks.back().rows;
  }
  return chunks;
}

}  // namespace

GpuHeadLayout gpu_head_layout(const HeadShape& shape) {
  XRUN_CHECK(shape.gpu && shape.shard.size() > 0, "a shard of a head on a GPU has rows");
  GpuHeadLayout layout{.all = head_layout(shape)};
  const BlockRange blocks = layout.all.blocks;
  const auto most = std::max<int64_t>(1, shape.gpu->classes / shape.blocks.size);
  const int level = static_cast<int>(std::bit_width(static_cast<uint64_t>(most))) - 1;
  const int64_t kept = std::min(blocks.end, blocks.begin + shape.kept_blocks);
  for (const BlockRange& part : {BlockRange{blocks.begin, kept}, BlockRange{kept, blocks.end}}) {
    for (const BlockRange& piece : shape.blocks.subtrees(part, level)) {
      layout.kept_pieces += piece.end <= kept ? 1 : 0;
      layout.pieces.push_back(
          {piece.begin * shape.blocks.size, std::min(shape.blocks.classes, piece.end * shape.blocks.size)});
      layout.piece_classes = std::max(layout.piece_classes, layout.pieces.back().size());
      layout.piece_blocks = std::max(layout.piece_blocks, piece.size());
    }
  }
  layout.folds = head_folds(shape.blocks, layout.pieces);
  layout.waiting = depth_of(layout.folds) - 1;
  layout.chunks = chunks_of(shape, layout.all);
  layout.chunk_places = layout.chunks.front().places;
  return layout;
}

GpuHeadScratch gpu_head_scratch(const HeadShape& shape, const GpuHeadLayout& layout, HeadPass pass) {
  const HeadLayout& all = layout.all;
  const bool forward = pass == HeadPass::kForward;
  const bool dx = pass == HeadPass::kBackward;
  const Bytes element = shape.bf16 ? 2 : 4;
  const int64_t places = all.rows_padded, nodes = margin_nodes(shape);
  const int64_t logits = layout.piece_classes * layout.chunk_places;
  const bool all_kept = pass != HeadPass::kUpdate && layout.kept_pieces == static_cast<int64_t>(layout.pieces.size());
  const int64_t slot = forward ? all.stat_planes * places : dx ? places * all.dim_padded : 0;
  Parts parts;
  GpuHeadScratch at;
  at.rows = parts.take(places * all.dim_padded, element);
  at.inverses = parts.take(shape.form.cosine ? places : 0, 8);
  at.labels = parts.take(places, 4);
  at.targets = parts.take(places, 4);
  at.psi = parts.take(places, 8);
  at.slope = parts.take(places, 8);
  at.nodes = parts.take(nodes, kGpuMarginNode);
  at.values = parts.take(nodes * layout.chunk_places, 8);
  at.classes = parts.take(layout.piece_classes * all.dim_padded, element);
  at.logits = parts.take(all_kept && (forward || shape.bf16) ? 0 : logits, 4);
  at.slots = parts.take(layout.piece_blocks > 1 ? layout.piece_blocks * slot : 0, 4);
  at.waiting = parts.take(layout.waiting * slot, 4);
  if (!forward) {
    for (Bytes* const plane : {&at.maxima, &at.factors, &at.smooths, &at.target_gradient, &at.steep}) {
      *plane = parts.take(places, 4);
    }
    at.gradient = shape.bf16 ? parts.take(logits, 2) : at.logits;
    at.weight_gradient = parts.take(layout.piece_classes * all.dim_padded, 4);
    at.lanes = parts.take(shape.form.bias ? layout.piece_classes * 16 : 0, 4);
    at.bias_gradient = parts.take(shape.form.bias ? layout.piece_classes : 0, 4);
    at.squares = parts.take(dx ? 0 : layout.piece_classes, 8);
  }
  at.total = parts.end();
  return at;
}

GpuHeadJoinScratch gpu_join_scratch(const HeadShape& shape, std::span<const ClassRange> shards, bool labels) {
  const HeadLayout all = head_layout(shape);
  const int64_t places = labels ? all.rows_padded : 0, nodes = labels ? margin_nodes(shape) : 0;
  const int64_t waiting = depth_of(head_folds(shape.blocks, shards)) - 1;
  Parts parts;
  GpuHeadJoinScratch at;
  at.labels = parts.take(places, 4);
  at.psi = parts.take(places, 8);
  at.slope = parts.take(places, 8);
  at.nodes = parts.take(nodes, kGpuMarginNode);
  at.values = parts.take(nodes * places, 8);
  at.waiting = parts.take(waiting * all.stat_planes * all.rows_padded, 4);
  at.total = parts.end();
  return at;
}

Bytes gpu_dx_scratch_bytes(const HeadShape& shape, std::span<const ClassRange> terms, int64_t rows) {
  return align_up((depth_of(head_folds(shape.blocks, terms)) - 1) * head_gradient_rows(shape, 0, rows).bytes);
}

}  // namespace xrun
