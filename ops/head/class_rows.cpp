#include "ops/head/class_rows.h"

#include "graph/base/check.h"

namespace xrun::ops {

void add_range(HeadPrefetch& prefetch, const float* begin, int64_t count) {
  XRUN_DCHECK(prefetch.count < HeadPrefetch::kMost, "a tile has weights, logits and two states");
  if (count > 0) {
    prefetch.ranges[prefetch.count++] = {reinterpret_cast<const char*>(begin),
                                         count * static_cast<int64_t>(sizeof(float))};
  }
}

ClassTile ClassRows::open(TileClasses classes) const {
  const int64_t row = classes.begin - first_;
  const auto from = [](float* rows, int64_t at) { return rows == nullptr ? nullptr : rows + at; };
  ClassTile tile{.classes = classes,
                 .weight = weights_.weight + row * dim_,
                 .inverse = cosine_ ? weights_.prepared + row : nullptr,
                 .bias = from(weights_.bias, row)};
  for (int i = 0; i < 2 && update_ != nullptr; ++i) {
    tile.weight_states[i] = from(update_->weight_states[i], row * dim_);
    tile.bias_states[i] = from(update_->bias_states[i], row);
  }
  return tile;
}

void ClassRows::prefetch_weights(TileClasses classes, HeadPrefetch& prefetch) const {
  add_range(prefetch, weights_.weight + (classes.begin - first_) * dim_, classes.count * dim_);
}

void ClassRows::prefetch_states(TileClasses classes, HeadPrefetch& prefetch) const {
  for (int i = 0; i < 2 && update_ != nullptr; ++i) {
    if (update_->weight_states[i] != nullptr) {
      add_range(prefetch, update_->weight_states[i] + (classes.begin - first_) * dim_, classes.count * dim_);
    }
  }
}

void ClassRows::close(const ClassTile& tile, const HeadKernels& kernels) const {
  for (int64_t c = 0; c < tile.classes.count && cosine_; ++c) {
    tile.inverse[c] = kernels.inverse_norm(tile.weight + c * dim_, dim_);
  }
}

}  // namespace xrun::ops
