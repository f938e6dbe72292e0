// Part of kernels_impl.h: the loops over a strip of classes. They find its largest logit and its best classes, apply
// the margin to targets, and make the loss's changes to logits.

#include "ops/reduce/insert_best.h"

template <typename V>
typename V::F logit(const HeadTile& tile, int64_t c, typename V::F x) {
  if (tile.bias != nullptr) {
    x = V::add(x, V::broadcast(tile.bias[c]));
  }
  if (tile.clamp) {
    x = V::min(V::broadcast(1.0F), V::max(V::broadcast(-1.0F), x));
  }
  return x;
}

// The correction of class c (HeadTile::corrections), divided by the scale because it is added to the logit before
// scaling.
template <typename V>
typename V::F correction(const HeadTile& tile, int64_t c) {
  return V::broadcast(tile.corrections == nullptr ? 0.0F : tile.corrections[c] / tile.scale);
}

// Returns the logit that the loss uses in rows with another target. NaN stays NaN.
template <typename V>
typename V::F loss_logit(typename V::F x, typename V::F filter, typename V::F correction) {
  return V::add(V::zero_where_less(filter, x, x), correction);
}

// Computes the largest logit of a strip for each row of G vectors.
template <typename V, int G>
void strip_max(const HeadTile& tile, int64_t begin, int64_t end, int64_t row, typename V::F* max) {
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) {
    max[g] = V::broadcast(-__builtin_inff());
  }
  for (int64_t c = begin; c < end; ++c) {
    const float* z = tile.z + c * tile.stride + row;
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      max[g] = V::max(V::load(z + g * V::kWidth), max[g]);  // if one is NaN, the result is the second operand
    }
  }
}

// Updates the best classes of the rows whose largest logit in the strip exceeds the lowest of their best logits.
template <typename V>
void strip_best(const HeadTile& tile, const HeadTileStats& stats, int64_t begin, int64_t end, int64_t row,
                typename V::F largest) {
  uint32_t better = V::greater_mask(largest, V::load(stats.best + (stats.top_k - 1) * stats.plane + row));
  if (better == 0) {
    return;
  }
  if (stats.top_k == 1) {
    // Goes through the classes in descending order, so that the lowest of equal classes is found last and kept.
    auto first = V::broadcast(0.0F);
    for (int64_t c = end - 1; c >= begin; --c) {
      const auto place = V::broadcast(static_cast<float>(c - begin));
      first = V::where_equal(V::load(tile.z + c * tile.stride + row), largest, place, first);
    }
    float value[V::kWidth];
    float place[V::kWidth];
    V::store(value, largest);
    V::store(place, first);
    for (; better != 0; better &= better - 1) {
      const int lane = __builtin_ctz(better);
      stats.best[row + lane] = value[lane];
      stats.best_class[row + lane] = static_cast<int32_t>(tile.first_class + begin) + static_cast<int32_t>(place[lane]);
    }
    return;
  }
  for (; better != 0; better &= better - 1) {
    const int64_t lane = row + __builtin_ctz(better);
    for (int64_t c = begin; c < end; ++c) {
      insert_best(stats.best + lane, stats.best_class + lane, stats.plane, stats.top_k, tile.z[c * tile.stride + lane],
                  static_cast<int32_t>(tile.first_class + c));
    }
  }
}

// Replaces the logits of the head by the logits that the loss uses, for G vectors of rows.
template <typename V, int G>
void strip_loss_logits(const HeadTile& tile, int64_t begin, int64_t end, int64_t row) {
  const auto filter = V::broadcast(tile.filter);
  for (int64_t c = begin; c < end; ++c) {
    const auto by = correction<V>(tile, c);
    float* z = tile.z + c * tile.stride + row;
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      V::store(z + g * V::kWidth, loss_logit<V>(V::load(z + g * V::kWidth), filter, by));
    }
  }
}

// Replaces the logit of each row's target by the logit after the margin. Returns whether the strip has a target.
template <typename V>
bool strip_targets(const HeadTile& tile, const HeadTileStats& stats, int64_t begin, int64_t end, int64_t row) {
  uint32_t targets = V::inside_mask(stats.label + row, static_cast<int32_t>(tile.first_class + begin),
                                    static_cast<int32_t>(tile.first_class + end));
  const bool any = targets != 0;
  for (; targets != 0; targets &= targets - 1) {
    const int64_t lane = row + __builtin_ctz(targets);
    tile.z[(stats.label[lane] - tile.first_class) * tile.stride + lane] = stats.target[lane];
  }
  return any;
}
