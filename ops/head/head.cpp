#include "ops/head/head.h"

#include <algorithm>

#include "graph/base/check.h"
#include "ops/head/loops/kernels.h"
#include "ops/head/margin.h"
#include "ops/head/row_format.h"
#include "ops/head/stats.h"
#include "ops/head/tree_fold.h"
#include "ops/head/work.h"

namespace xrun::ops {

static_assert(sizeof(RowSoftmax) == kHeadSoftmaxRow, "plans count what kernels write");

namespace {

void add_tile_stats(const HeadWork& pass, const HeadTile& tile, int64_t row, const HeadStats& stats) {
  pass.for_targets(tile, row, [&](int64_t i, float x, float*) {
    stats.target()[row + i] = x;
    pass.plane(kTarget)[row + i] = static_cast<float>(margin_of(pass.shape.margin, x).psi);
  });
  pass.kernels.add_stats(tile, {.max = stats.max() + row,
                                .sum = stats.sum() + row,
                                .total = pass.shape.margin.smoothing > 0 ? stats.total() + row : nullptr,
                                .top_k = stats.top_k,
                                .best = stats.best() + row,
                                .best_class = stats.best_class() + row,
                                .plane = stats.plane,
                                .label = pass.labels() + row,
                                .target = pass.plane(kTarget) + row});
}

// Replaces the numbers of the best classes, which count active classes, by the numbers of these classes in the head.
void name_classes(const HeadStats& stats, const ActiveClasses* active) {
  for (int64_t i = 0; active != nullptr && i < stats.top_k; ++i) {
    for (int64_t row = 0; row < stats.plane; ++row) {
      int32_t& best = stats.best_class(i)[row];
      best = best < 0 ? best : active->classes[best];
    }
  }
}

}  // namespace

HeadPasses::HeadPasses(const HeadShape& shape, Isa isa)
    : shape_(shape), layout_(head_layout(shape)), isa_(isa), kernels_(&head_kernels(isa, shape.bf16)) {
  XRUN_CHECK(shape.untouched == Untouched::kAsIs || shape.states == RowFormat::kF32,
             "the velocity by which rows catch up is f32");
  XRUN_CHECK(shape.blocks.classes > 0 && shape.dim > 0 && shape.top_k >= 0 && shape.workers > 0, "a head has a shape");
}

void HeadPasses::prepare(const HeadWeights& weights, Workers& workers) const {
  if (!shape_.form.cosine) {
    return;
  }
  constexpr int64_t kRun = 1024;
  const Bytes row_bytes = shape_.dim * element_bytes(shape_.weights);
  workers.for_each((shape_.shard.size() + kRun - 1) / kRun, [&](int64_t run, int) {
    std::vector<float> row(shape_.weights == RowFormat::kF32 ? 0 : static_cast<size_t>(shape_.dim));
    for (int64_t c = run * kRun; c < std::min((run + 1) * kRun, shape_.shard.size()); ++c) {
      const std::byte* values = weights.weight + c * row_bytes;
      if (shape_.weights != RowFormat::kF32) {
        load_row(shape_.weights, values, weights.scales == nullptr ? 1.0F : weights.scales[c], shape_.dim, row.data());
        values = reinterpret_cast<const std::byte*>(row.data());
      }
      weights.prepared[c] = kernels_->inverse_norm(reinterpret_cast<const float*>(values), shape_.dim);
    }
  });
}

void HeadPasses::forward(const HeadRows& rows, const HeadWeights& weights, std::byte* stats, std::byte* scratch,
                         Workers& workers) const {
  if (layout_.subtrees.empty()) {
    return;
  }
  const HeadRows data{.features = rows.features, .labels = rows.labels, .logits = rows.logits, .active = rows.active};
  const ClassRows classes(shape_, *kernels_, weights, nullptr, rows.active);
  const HeadWork pass(shape_, layout_, *kernels_, HeadPass::kForward, data, classes, scratch);
  pass.prepare_rows(workers);
  const auto view = [&](std::byte* p) {
    return HeadStats{reinterpret_cast<float*>(p), layout_.rows_padded, shape_.top_k};
  };
  TreeFold(layout_, pass.at, stats, scratch)
      .run(
          workers,
          [&](int64_t block, std::byte* out, int worker) {
            const HeadSlice slice = pass.slice(worker);
            clear(view(out));
            for_tiles(pass, block, [&](TileClasses of, TileClasses next) {
              const ClassTile tile = classes.open(of, slice);
              pass.pack_tile(slice, tile, false);
              HeadPrefetch prefetch;
              classes.prefetch_weights(next, prefetch);
              for_row_runs(layout_, [&](int64_t row, int64_t count) {
                add_tile_stats(pass, pass.logits(slice, tile, row, count, &prefetch), row, view(out));
              });
            });
            name_classes(view(out), rows.active);
          },
          [&](std::byte* left, std::byte* right) { merge(view(left), view(right)); });
}

}  // namespace xrun::ops
