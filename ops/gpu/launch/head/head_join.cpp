// Tests: tests/ops/gpu/head/gpu_head_join_test.cpp, tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/launch/head/head_join.h"

#include "graph/base/check.h"
#include "ops/gpu/launch/head/head_list.h"

namespace xrun::ops::gpu {

GpuHeadJoin::GpuHeadJoin(const HeadShape& shape, std::vector<ClassRange> shards, GpuTarget target)
    : shape_(shape),
      layout_(head_layout(shape)),
      shards_(std::move(shards)),
      folds_(head_folds(shape.blocks, shards_)),
      target_(target) {}

std::vector<GpuLaunch> GpuHeadJoin::combine_stats(const GpuCombine& what) const {
  XRUN_CHECK(folds_.size() == 1, "the shards have all classes");
  XRUN_CHECK(what.labels || (!what.loss && what.hits.empty()), "losses need labels");
  HeadList list(shape_, layout_, target_);
  const GpuHeadJoinScratch at = gpu_join_scratch(shape_, shards_, what.labels);
  const Bytes slot = list.stats_slot() * 4;
  const GpuArgument stats = HeadList::fold(
      folds_[0],
      [&](const HeadFold& step, int64_t) {
        return in(what.stats(static_cast<size_t>(step.piece)), step.subtree * slot);
      },
      [&](int64_t depth) { return scratch(at.waiting + depth * slot); },
      [&](const auto& sum, const auto& left, const auto& right) { list.merge_stats(sum, left, right); });
  const int64_t places = layout_.rows_padded, padded = layout_.row_block_padded, block = shape_.norm_rows;
  const int64_t rows = shape_.rows, classes = shape_.blocks.classes;
  const GpuArgument labels = scratch(at.labels), psi = scratch(at.psi);
  if (what.labels) {
    list.store_nodes(scratch(at.nodes));
    list.each("head_stats", "head_labels", places, in(GpuCombine::kLabels), labels, rows, block, padded, places,
              classes);
    list.margin({.targets = after(stats, 3 * places * 4),
                 .labels = labels,
                 .psi = psi,
                 .slope = scratch(at.slope),
                 .nodes = scratch(at.nodes),
                 .values = scratch(at.values)},
                places, {0, classes});
  }
  list.each("head_stats", "head_loss", rows, stats, psi, address_if(what.labels, labels),
            address_if(what.factors, in(GpuCombine::kFactors)), address_if(what.softmax, in(GpuCombine::kSoftmax)),
            address_if(what.loss, in(GpuCombine::kLoss)),
            address_if(what.checks_loss, of_call(GpuArgument::Kind::kFlags)), rows, block, padded, places, classes,
            shape_.margin.scale, shape_.margin.smoothing);
  for (size_t i = 0; i < what.hits.size(); ++i) {
    list.each("head_stats", "head_hits", rows, stats, labels, in(what.hit(i)), what.hits[i], rows, block, padded,
              places, shape_.top_k);
  }
  for (size_t i = 0; i < what.best.size(); ++i) {
    const GpuArgument best = in(what.best_classes(i)), scores = in(what.best_scores(i));
    if (what.best[i].by_class) {
      XRUN_CHECK(what.best[i].k == shape_.top_k && shape_.top_k == classes, "the statistics have all classes");
      list.each("head_stats", "head_top_by_class", rows, stats, best, scores, rows, block, padded, places,
                shape_.top_k);
    } else {
      list.each("head_stats", "head_top", rows, stats, best, scores, what.best[i].k, rows, block, padded, places,
                shape_.top_k);
    }
  }
  return list.take();
}

std::vector<GpuLaunch> GpuHeadJoin::reduce_dx(std::span<const Bytes> steps, int64_t rows) const {
  XRUN_CHECK(folds_.size() == 1, "the shards have all classes");
  HeadList list(shape_, layout_, target_);
  const Bytes bytes = head_gradient_rows(shape_, 0, rows).bytes;
  const GpuArgument sum = HeadList::fold(
      folds_[0],
      [&](const HeadFold& step, int64_t) {
        const auto piece = static_cast<size_t>(step.piece);
        return in(dx(piece), step.subtree * steps[piece]);
      },
      [&](int64_t depth) { return scratch(depth * bytes); },
      [&](const auto& to, const auto& left, const auto& right) { list.merge_dx(to, left, right, bytes / 4); });
  GpuArgument scale = argument_of(1.0F);
  scale.kind = GpuArgument::Kind::kLossScale;
  list.rows("head_rows", "head_reduce_dx_" + list.features(), rows, sum, in(kFeatures), shape_.form.cosine ? 1U : 0U,
            in(kSum), rows, shape_.norm_rows, layout_.row_block_padded, shape_.dim, layout_.dim_padded, scale);
  return list.take();
}

std::vector<GpuLaunch> GpuHeadJoin::sum_dx(std::span<const Bytes> steps, int64_t rows, Bytes step) const {
  HeadList list(shape_, layout_, target_);
  const Bytes bytes = head_gradient_rows(shape_, 0, rows).bytes;
  for (size_t s = 0; s < folds_.size(); ++s) {
    const GpuArgument out = in(kSum, static_cast<Bytes>(s) * step);
    const GpuArgument sum = HeadList::fold(
        folds_[s],
        [&](const HeadFold& fold, int64_t) {
          const auto piece = static_cast<size_t>(fold.piece);
          return in(dx(piece), fold.subtree * steps[piece]);
        },
        [&](int64_t depth) { return depth == 0 ? out : scratch((depth - 1) * bytes); },
        [&](const auto& to, const auto& left, const auto& right) { list.merge_dx(to, left, right, bytes / 4); });
    if (sum != out) {  // one subtree of a shard is the result
      list.each("layout", "copy_columns_32", bytes / 4, sum, out, int64_t{1}, bytes / 4, bytes / 4, bytes / 4);
    }
  }
  return list.take();
}

}  // namespace xrun::ops::gpu
