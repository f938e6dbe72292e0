// Combines the results of the shards of a head in the fixed tree over class blocks. Every shard has results for some
// subtrees of this tree. The constructor lists, for each subtree of the combined blocks, the steps that add its parts
// in the order of the tree. So the bits do not depend on how classes are divided among shards.
// Tests: tests/ops/head/head_test.cpp
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/base/check.h"
#include "ops/head/head.h"
#include "ops/head/loops/kernels.h"
#include "ops/head/margin.h"
#include "ops/head/rows.h"
#include "ops/head/stats.h"

namespace xrun::ops {

namespace {

// The largest number of partial results that wait during a sum: one for each level of the tree. The tree has fewer than
// 2^32 blocks.
constexpr int kMaxDepth = 34;
constexpr int64_t kColumns = 64;

#include "ops/reduce/insert_best.h"

}  // namespace

HeadJoin::HeadJoin(const HeadShape& shape, std::vector<ClassRange> shards, Isa isa)
    : shape_(shape),
      layout_(head_layout(shape)),
      shards_(std::move(shards)),
      folds_(head_folds(shape.blocks, shards_)),
      isa_(isa) {
  int64_t classes = 0;
  for (const ClassRange& shard : shards_) {
    classes += std::max<int64_t>(0, shard.size());
  }
  has_all_classes_ = classes == shape.blocks.classes;
}

void HeadJoin::combine_stats(std::span<const std::byte* const> stats, const int32_t* labels, const float* factors,
                             RowSoftmax* softmax, float* loss, std::span<const HeadHits> hits, int64_t active) const {
  XRUN_CHECK(has_all_classes_, "the shards have all classes");
  const auto classes = static_cast<double>(active > 0 ? active : shape_.blocks.classes);
  const int64_t rows = layout_.rows_padded;
  const int64_t subtree_floats = layout_.stat_planes * rows;
  const auto view = [&](const HeadFold& fold) {
    auto* data = const_cast<float*>(reinterpret_cast<const float*>(stats[static_cast<size_t>(fold.piece)]));
    return HeadStats{data + fold.subtree * subtree_floats, rows, shape_.top_k};
  };
  for (int64_t row = 0; row < shape_.rows; ++row) {
    const int64_t place = padded_row(shape_, layout_, row);
    const int32_t label = labels == nullptr ? -1 : labels[row];
    const bool has_target = label >= 0 && label < shape_.blocks.classes;
    ExpSum sums[kMaxDepth];
    float totals[kMaxDepth];
    float target = 0;
    int depth = 0;
    for (const HeadFold& fold : folds_[0]) {
      if (fold.piece < 0) {
        --depth;
        sums[depth - 1] = combine(sums[depth - 1], sums[depth]);
        totals[depth - 1] += totals[depth];
        continue;
      }
      const HeadStats part = view(fold);
      sums[depth] = {part.max()[place], part.sum()[place]};
      totals[depth] = part.total()[place];
      target += part.target()[place];  // 0 in all subtrees except the label's
      ++depth;
    }
    if (softmax != nullptr) {
      softmax[row] = {sums[0].max, 1.0F / sums[0].sum};
    }
    if (loss != nullptr) {
      const MarginForm& form = shape_.margin;
      const double lse = static_cast<double>(sums[0].max) + std::log(static_cast<double>(sums[0].sum));
      double value = 0 * lse;  // the loss without a target: 0, but NaN if a logit is NaN
      if (has_target) {
        const double z = form.scale * static_cast<double>(static_cast<float>(margin_of(form, target).psi));
        value = lse - (1 - form.smoothing) * z;
        if (form.smoothing > 0) {
          value -= form.smoothing * form.scale * totals[0] / classes;
        }
      }
      value *= factors == nullptr ? 1 : static_cast<double>(factors[row]);
      loss[row] = static_cast<float>(value);
    }
    if (hits.empty()) {
      continue;
    }
    int64_t ahead = 0;
    for (const HeadFold& fold : folds_[0]) {
      if (fold.piece < 0) {
        continue;
      }
      const HeadStats part = view(fold);
      for (int64_t i = 0; i < shape_.top_k; ++i) {
        const float value = part.best(i)[place];
        const int32_t which = part.best_class(i)[place];
        ahead += which >= 0 && (value > target || (value == target && which < label)) ? 1 : 0;
      }
    }
    const bool sound = has_target && target == target && sums[0].sum == sums[0].sum;
    for (const HeadHits& wanted : hits) {
      XRUN_DCHECK(wanted.k <= shape_.top_k, "hits need as many best classes");
      wanted.hit[row] = sound && ahead < wanted.k ? 1.0F : 0.0F;
    }
  }
}

void HeadJoin::top_k(std::span<const std::byte* const> stats, int64_t k, int32_t* classes, float* scores) const {
  XRUN_CHECK(has_all_classes_, "the shards have all classes");
  const int64_t rows = layout_.rows_padded;
  for (int64_t row = 0; row < shape_.rows; ++row) {
    const int64_t place = padded_row(shape_, layout_, row);
    int32_t* which = classes + row * k;
    float* value = scores + row * k;
    std::fill_n(value, k, -std::numeric_limits<float>::infinity());
    std::fill_n(which, k, -1);
    for (const HeadFold& fold : folds_[0]) {
      if (fold.piece < 0) {
        continue;
      }
      auto* data = const_cast<float*>(reinterpret_cast<const float*>(stats[static_cast<size_t>(fold.piece)]));
      const HeadStats part{data + fold.subtree * layout_.stat_planes * rows, rows, shape_.top_k};
      for (int64_t i = 0; i < shape_.top_k; ++i) {
        insert_best(value, which, 1, k, part.best(i)[place], part.best_class(i)[place]);
      }
    }
  }
}

// Adds the elements [first, first + count) of a subtree of all shards. REQUIRES: count <= kColumns.
void HeadJoin::sum_columns(std::span<const HeadDx> gradients, std::span<const HeadFold> folds, int64_t first,
                           int64_t count, float* sum) const {
  float stack[kMaxDepth][kColumns];
  int depth = 0;
  for (const HeadFold& fold : folds) {
    if (fold.piece < 0) {
      --depth;
      for (int64_t i = 0; i < count; ++i) {
        stack[depth - 1][i] += stack[depth][i];
      }
      continue;
    }
    const HeadDx& part = gradients[static_cast<size_t>(fold.piece)];
    const auto* data = reinterpret_cast<const float*>(part.data + fold.subtree * part.step);
    std::copy_n(data + first, count, stack[depth++]);
  }
  std::copy_n(stack[0], count, sum);
}

void HeadJoin::sum_dx(std::span<const HeadDx> gradients, int64_t rows, float* out, Bytes step) const {
  const int64_t dims = layout_.dim_padded;
  for (const std::vector<HeadFold>& folds : folds_) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t place = padded_row(shape_, layout_, row) * dims;
      for (int64_t d = 0; d < dims; d += kColumns) {
        sum_columns(gradients, folds, place + d, std::min(kColumns, dims - d), out + place + d);
      }
    }
    out += step / static_cast<Bytes>(sizeof(float));
  }
}

void HeadJoin::reduce_dx(std::span<const HeadDx> gradients, const std::byte* features, int64_t rows, float scale,
                         float* out) const {
  XRUN_CHECK(has_all_classes_, "the shards have all classes");
  const int64_t dim = shape_.dim;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t place = padded_row(shape_, layout_, row) * layout_.dim_padded;
    float sum[kColumns];
    // The gradient of x follows from the gradient g of x · inverse: inverse · (g - (g · direction) direction).
    float inverse = 1;
    double along = 0;
    if (shape_.form.cosine) {
      inverse = inverse_norm_of_row(shape_, features, row);
      for (int64_t d = 0; d < dim && inverse < 1.0F / kHeadEpsilon; d += kColumns) {
        sum_columns(gradients, folds_[0], place + d, std::min(kColumns, dim - d), sum);
        for (int64_t i = 0; i < std::min(kColumns, dim - d); ++i) {
          along += static_cast<double>(sum[i]) * feature_at(shape_, features, row, d + i);
        }
      }
      along *= static_cast<double>(inverse) * inverse;
    }
    for (int64_t d = 0; d < dim; d += kColumns) {
      const int64_t count = std::min(kColumns, dim - d);
      sum_columns(gradients, folds_[0], place + d, count, sum);
      for (int64_t i = 0; i < count; ++i) {
        float g = sum[i];
        if (shape_.form.cosine) {
          g = static_cast<float>((g - along * feature_at(shape_, features, row, d + i)) * inverse);
        }
        out[row * dim + d + i] = g * scale;
      }
    }
  }
}

}  // namespace xrun::ops
