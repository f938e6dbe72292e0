// Tests: tests/ops/head/catch_up_test.cpp, tests/ops/head/head_test.cpp
#include "ops/head/class_rows.h"

#include <algorithm>

#include "graph/base/check.h"
#include "ops/head/catch_up.h"
#include "ops/head/row_format.h"

namespace xrun::ops {
namespace {

// Kind of a rounded value. It is part of the key of the random numbers, so weights and states get different ones.
enum class Draw : uint64_t { kWeight = 0x636c617373, kFirstState };  // the numbers of further states follow

// The vectors with one element for each class that HeadSlice::class_vectors holds.
enum Vector : int64_t { kInverse, kBias, kFirstBiasState };  // the vectors of further states follow

}  // namespace

void add_range(HeadPrefetch& prefetch, const void* begin, int64_t bytes) {
  XRUN_DCHECK(prefetch.count < HeadPrefetch::kMost, "a tile has weights, logits and states");
  if (bytes > 0) {
    prefetch.ranges[prefetch.count++] = {static_cast<const char*>(begin), bytes};
  }
}

// Returns a vector with one element for each row of a tile: in place, or copied to the slice.
float* ClassRows::open_vector(float* values, TileClasses classes, int64_t part, const HeadSlice& slice) const {
  if (values == nullptr || !copies()) {
    return values == nullptr ? nullptr : values + row(classes.begin);
  }
  float* const out = slice.class_vectors + part * tile_rows();
  for (int64_t c = 0; c < classes.count; ++c) {
    out[c] = values[row(classes.begin + c)];
  }
  return out;
}

void ClassRows::close_vector(float* values, TileClasses classes, const float* vector) const {
  for (int64_t c = 0; copies() && vector != nullptr && c < classes.count; ++c) {
    values[row(classes.begin + c)] = vector[c];
  }
}

ClassTile ClassRows::open(TileClasses classes, const HeadSlice& slice) const {
  ClassTile tile{.classes = classes,
                 .inverse = open_vector(shape_.form.cosine ? weights_.prepared : nullptr, classes, kInverse, slice),
                 .bias = open_vector(weights_.bias, classes, kBias, slice)};
  if (in_place(shape_.weights)) {
    tile.weight = reinterpret_cast<float*>(weight_at(row(classes.begin)));
    return tile;
  }
  tile.weight = slice.class_rows;
  if (active_ != nullptr) {
    ask_for(classes, weights_.weight, shape_.dim * element_bytes(shape_.weights));
    if (catches_up()) {
      ask_for(classes, last(), sizeof(int32_t));
      ask_for(classes, velocity(), shape_.dim * element_bytes(RowFormat::kF32));
    }
  }
  for (int64_t c = 0; c < classes.count; ++c) {
    load(row(classes.begin + c), tile.weight + c * shape_.dim);
  }
  if (catches_up()) {
    catch_up(tile);
  }
  return tile;
}

// Applies missed steps to the rows, norms and biases of a tile.
void ClassRows::catch_up(ClassTile& tile) const {
  for (int64_t c = 0; c < tile.classes.count; ++c) {
    const int64_t at = row(tile.classes.begin + c);
    float* const weight = tile.weight + c * shape_.dim;
    if (catch_up_weight(weights_.catch_up, at, shape_.dim, weight) && tile.inverse != nullptr) {
      tile.inverse[c] = kernels_.inverse_norm(weight, shape_.dim);
    }
    if (tile.bias != nullptr) {
      catch_up_bias(weights_.catch_up, at, tile.bias + c);
    }
  }
}

void ClassRows::catch_up_states(ClassTile& tile) const {
  for (int64_t c = 0; c < tile.classes.count; ++c) {
    const int64_t at = row(tile.classes.begin + c);
    catch_up_velocity(weights_.catch_up, at, shape_.dim, tile.weight_states[0] + c * shape_.dim);
    if (tile.bias_states[0] != nullptr) {
      catch_up_velocity(weights_.catch_up, at, 1, tile.bias_states[0] + c);
    }
  }
}

void ClassRows::load(int64_t row, float* out) const {
  load_row(shape_.weights, weight_at(row), weights_.scales == nullptr ? 1.0F : weights_.scales[row], shape_.dim, out);
}

void ClassRows::open_states(ClassTile& tile, const HeadSlice& slice) const {
  const TileClasses classes = tile.classes;
  for (size_t i = 0; i < states(); ++i) {
    tile.bias_states[i] =
        open_vector(update_->bias_states[i], classes, kFirstBiasState + static_cast<int64_t>(i), slice);
    if (update_->weight_states[i] == nullptr) {
      continue;
    }
    if (in_place(shape_.states)) {
      tile.weight_states[i] = reinterpret_cast<float*>(state_at(i, row(classes.begin)));
      continue;
    }
    tile.weight_states[i] = slice.class_states + static_cast<int64_t>(i) * tile_rows() * shape_.dim;
    for (int64_t c = 0; c < classes.count; ++c) {
      load_row(shape_.states, state_at(i, row(classes.begin + c)), 1, shape_.dim,
               tile.weight_states[i] + c * shape_.dim);
    }
  }
  if (catches_up()) {
    catch_up_states(tile);
  }
}

void ClassRows::store(const ClassTile& tile) const {
  for (int64_t c = 0; c < tile.classes.count; ++c) {
    const int64_t to = row(tile.classes.begin + c);
    const auto random = [&](Draw what, uint64_t state = 0) {
      return RandomStream(update_->seed, static_cast<uint64_t>(update_->step),
                          static_cast<uint64_t>(shape_.shard.begin + to), static_cast<uint64_t>(what) + state);
    };
    if (!in_place(shape_.weights)) {
      const float scale =
          store_row(shape_.weights, tile.weight + c * shape_.dim, shape_.dim, random(Draw::kWeight), weight_at(to));
      if (weights_.scales != nullptr) {
        weights_.scales[to] = scale;
      }
    }
    if (catches_up()) {
      weights_.catch_up.last[to] = static_cast<int32_t>(weights_.catch_up.steps->step());
    }
    for (size_t i = 0; i < states() && !in_place(shape_.states); ++i) {
      if (tile.weight_states[i] != nullptr) {
        store_row(shape_.states, tile.weight_states[i] + c * shape_.dim, shape_.dim, random(Draw::kFirstState, i),
                  state_at(i, to));
      }
    }
  }
}

void ClassRows::close(const ClassTile& tile) const {
  store(tile);
  for (int64_t c = 0; c < tile.classes.count && shape_.form.cosine; ++c) {
    float* const values = tile.weight + c * shape_.dim;
    if (shape_.weights != RowFormat::kF32) {
      load(row(tile.classes.begin + c), values);  // reads back the rounded values
    }
    tile.inverse[c] = kernels_.inverse_norm(values, shape_.dim);
  }
  close_vector(weights_.prepared, tile.classes, tile.inverse);
  close_vector(weights_.bias, tile.classes, tile.bias);
  for (size_t i = 0; i < states(); ++i) {
    close_vector(update_->bias_states[i], tile.classes, tile.bias_states[i]);
  }
}

// Adds the rows of a tile to the memory that the next products prefetch. Scattered rows are prefetched immediately.
void ClassRows::prefetch(TileClasses classes, const std::byte* rows, RowFormat format, HeadPrefetch& prefetch) const {
  const int64_t bytes = shape_.dim * element_bytes(format);
  if (active_ == nullptr) {
    add_range(prefetch, rows + row(classes.begin) * bytes, classes.count * bytes);
  } else {
    ask_for(classes, rows, bytes);
  }
}

// Prefetches scattered rows one by one, so that their cache misses overlap.
void ClassRows::ask_for(TileClasses classes, const std::byte* rows, int64_t bytes) const {
  constexpr int64_t kLine = 64;
  for (int64_t c = 0; c < classes.count; ++c) {
    const std::byte* const at = rows + row(classes.begin + c) * bytes;
    for (int64_t i = 0; i < bytes; i += kLine) {
      __builtin_prefetch(at + i, 0, 2);
    }
  }
}

void ClassRows::prefetch_weights(TileClasses classes, HeadPrefetch& prefetch) const {
  this->prefetch(classes, weights_.weight, shape_.weights, prefetch);
  if (catches_up()) {
    this->prefetch(classes, velocity(), RowFormat::kF32, prefetch);
    ask_for(classes, last(), sizeof(int32_t));
  }
}

void ClassRows::prefetch_states(TileClasses classes, HeadPrefetch& prefetch) const {
  for (size_t i = 0; update_ != nullptr && i < states(); ++i) {
    if (update_->weight_states[i] != nullptr) {
      this->prefetch(classes, update_->weight_states[i], shape_.states, prefetch);
    }
  }
}

}  // namespace xrun::ops
