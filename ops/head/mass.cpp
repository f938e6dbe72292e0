#include "ops/head/mass.h"

#include <cmath>

#include "ops/head/rows.h"
#include "ops/head/stats.h"

namespace xrun::ops {
namespace {

// Adds up the statistics of one row over all subtrees of a shard.
ExpSum sum_of(const HeadShape& shape, const HeadLayout& layout, std::byte* stats, int64_t row) {
  const int64_t place = padded_row(shape, layout, row);
  auto* planes = reinterpret_cast<float*>(stats);
  ExpSum sum{planes[place], planes[layout.rows_padded + place]};
  for (size_t i = 1; i < layout.subtrees.size(); ++i) {
    planes += layout.stat_planes * layout.rows_padded;
    sum = combine(sum, {planes[place], planes[layout.rows_padded + place]});
  }
  return sum;
}

HeadShape keeping_nothing(HeadShape shape) {
  shape.kept_blocks = 0;
  return shape;
}

static_assert(sizeof(RowMass) == kHeadMassRow);

}  // namespace

double active_share(std::span<const std::vector<RowMass>> shards) {
  double sum = 0;
  const size_t rows = shards.empty() ? 0 : shards[0].size();
  for (size_t row = 0; row < rows; ++row) {
    ExpSum active{shards[0][row].active_max, shards[0][row].active_sum};
    ExpSum all{shards[0][row].all_max, shards[0][row].all_sum};
    for (const std::vector<RowMass>& shard : shards.subspan(1)) {
      active = combine(active, {shard[row].active_max, shard[row].active_sum});
      all = combine(all, {shard[row].all_max, shard[row].all_sum});
    }
    sum += static_cast<double>(active.sum) / static_cast<double>(all.sum) *
           std::exp(static_cast<double>(active.max) - static_cast<double>(all.max));
  }
  return sum / static_cast<double>(rows);
}

HeadMass::HeadMass(const HeadShape& shape, Isa isa)
    : active_(keeping_nothing(shape), isa), all_(of_all_classes(shape), isa) {}

void HeadMass::measure(const HeadRows& rows, const HeadWeights& weights, RowMass* out, std::byte* scratch,
                       Workers& workers) const {
  const HeadShape& shape = active_.shape();
  const HeadLayout layout = head_layout(shape);
  std::byte* const stats = scratch;
  std::byte* const passes = scratch + head_stats_bytes(shape);
  ActiveClasses active = *rows.active;
  active.corrections = nullptr;
  HeadRows data{.features = rows.features, .labels = rows.labels, .active = &active};
  active_.forward(data, weights, stats, passes, workers);
  for (int64_t row = 0; row < shape.rows; ++row) {
    const ExpSum sum = sum_of(shape, layout, stats, row);
    out[row].active_max = sum.max;
    out[row].active_sum = sum.sum;
  }
  data.active = nullptr;
  all_.forward(data, weights, stats, passes, workers);
  for (int64_t row = 0; row < shape.rows; ++row) {
    const ExpSum sum = sum_of(shape, layout, stats, row);
    out[row].all_max = sum.max;
    out[row].all_sum = sum.sum;
  }
}

}  // namespace xrun::ops
