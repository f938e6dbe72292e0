#include "ops/head/class_rows.h"

namespace xrun::ops {

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

void ClassRows::close(const ClassTile& tile, const HeadKernels& kernels) const {
  for (int64_t c = 0; c < tile.classes.count && cosine_; ++c) {
    tile.inverse[c] = kernels.inverse_norm(tile.weight + c * dim_, dim_);
  }
}

}  // namespace xrun::ops
