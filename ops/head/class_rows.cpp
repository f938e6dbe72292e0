#include "ops/head/class_rows.h"

#include <algorithm>

#include "graph/base/check.h"
#include "ops/head/row_format.h"

namespace xrun::ops {
namespace {

// What a row is rounded for: its weights, or a state. Keeps the random numbers of the two apart.
enum class Draw : uint64_t { kWeight = 0x636c617373, kFirstState, kSecondState };

float* from(float* values, int64_t row) { return values == nullptr ? nullptr : values + row; }

}  // namespace

void add_range(HeadPrefetch& prefetch, const void* begin, int64_t bytes) {
  XRUN_DCHECK(prefetch.count < HeadPrefetch::kMost, "a tile has weights, logits and two states");
  if (bytes > 0) {
    prefetch.ranges[prefetch.count++] = {static_cast<const char*>(begin), bytes};
  }
}

ClassTile ClassRows::open(TileClasses classes, const HeadSlice& slice) const {
  const int64_t first = row_of(classes);
  ClassTile tile{.classes = classes,
                 .inverse = shape_.form.cosine ? weights_.prepared + first : nullptr,
                 .bias = from(weights_.bias, first)};
  if (shape_.weights == RowFormat::kF32) {
    tile.weight = reinterpret_cast<float*>(weights_.weight) + first * shape_.dim;
    return tile;
  }
  tile.weight = slice.class_rows;
  for (int64_t c = 0; c < classes.count; ++c) {
    load(first + c, tile.weight + c * shape_.dim);
  }
  return tile;
}

void ClassRows::load(int64_t row, float* out) const {
  load_row(shape_.weights, weights_.weight + row * weight_bytes(),
           weights_.scales == nullptr ? 1.0F : weights_.scales[row], shape_.dim, out);
}

void ClassRows::open_states(ClassTile& tile, const HeadSlice& slice) const {
  const int64_t first = row_of(tile.classes);
  for (int i = 0; i < 2; ++i) {
    tile.bias_states[i] = from(update_->bias_states[i], first);
    std::byte* const rows = update_->weight_states[i];
    if (rows == nullptr) {
      continue;
    }
    if (shape_.states == RowFormat::kF32) {
      tile.weight_states[i] = reinterpret_cast<float*>(rows) + first * shape_.dim;
      continue;
    }
    tile.weight_states[i] = slice.class_states + i * std::min(shape_.blocks.size, kHeadTileClasses) * shape_.dim;
    for (int64_t c = 0; c < tile.classes.count; ++c) {
      load_row(shape_.states, rows + (first + c) * state_bytes(), 1, shape_.dim,
               tile.weight_states[i] + c * shape_.dim);
    }
  }
}

void ClassRows::store(const ClassTile& tile) const {
  const int64_t first = row_of(tile.classes);
  const auto random = [&](Draw what, int64_t c) {
    return RandomStream(update_->seed, static_cast<uint64_t>(update_->step),
                        static_cast<uint64_t>(tile.classes.begin + c), static_cast<uint64_t>(what));
  };
  for (int64_t c = 0; c < tile.classes.count; ++c) {
    if (shape_.weights != RowFormat::kF32) {
      const float scale = store_row(shape_.weights, tile.weight + c * shape_.dim, shape_.dim, random(Draw::kWeight, c),
                                    weights_.weight + (first + c) * weight_bytes());
      if (weights_.scales != nullptr) {
        weights_.scales[first + c] = scale;
      }
    }
    for (int i = 0; i < 2 && shape_.states != RowFormat::kF32; ++i) {
      if (tile.weight_states[i] != nullptr) {
        store_row(shape_.states, tile.weight_states[i] + c * shape_.dim, shape_.dim,
                  random(i == 0 ? Draw::kFirstState : Draw::kSecondState, c),
                  update_->weight_states[i] + (first + c) * state_bytes());
      }
    }
  }
}

void ClassRows::close(const ClassTile& tile, const HeadKernels& kernels) const {
  store(tile);
  for (int64_t c = 0; c < tile.classes.count && shape_.form.cosine; ++c) {
    float* const row = tile.weight + c * shape_.dim;
    if (shape_.weights != RowFormat::kF32) {
      load(row_of(tile.classes) + c, row);  // as it was rounded
    }
    tile.inverse[c] = kernels.inverse_norm(row, shape_.dim);
  }
}

void ClassRows::prefetch_weights(TileClasses classes, HeadPrefetch& prefetch) const {
  add_range(prefetch, weights_.weight + row_of(classes) * weight_bytes(), classes.count * weight_bytes());
}

void ClassRows::prefetch_states(TileClasses classes, HeadPrefetch& prefetch) const {
  for (int i = 0; i < 2 && update_ != nullptr; ++i) {
    if (update_->weight_states[i] != nullptr) {
      add_range(prefetch, update_->weight_states[i] + row_of(classes) * state_bytes(), classes.count * state_bytes());
    }
  }
}

}  // namespace xrun::ops
