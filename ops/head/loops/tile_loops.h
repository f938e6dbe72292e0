// Part of kernels_impl.h: the exponentials of a tile. The forward pass sums them; the backward pass computes gradients
// from them.

constexpr int64_t kStrip = 64;

// Adds a strip of classes to the statistics of G vectors of rows. The strip is so short that its logits stay in the
// first-level cache between the two loops, which compute the maximum and the sum.
template <typename V, int G>
void add_strip(const HeadTile& tile, const HeadTileStats& stats, int64_t begin, int64_t end, int64_t row) {
  const auto scale = V::broadcast(tile.scale);
  if (tile.bias != nullptr || tile.clamp) {
    for (int64_t c = begin; c < end; ++c) {
      float* z = tile.z + c * tile.stride + row;
#pragma GCC unroll 8
      for (int g = 0; g < G; ++g) {
        V::store(z + g * V::kWidth, logit<V>(tile, c, V::load(z + g * V::kWidth)));
      }
    }
  }
  typename V::F largest[G];
  strip_max<V, G>(tile, begin, end, row, largest);
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) {
    if (stats.top_k > 0) {
      strip_best<V>(tile, stats, begin, end, row + g * V::kWidth, largest[g]);
    }
  }
  bool changed = tile.changes_logits();
  if (changed) {
    strip_loss_logits<V, G>(tile, begin, end, row);
  }
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) {
    changed = strip_targets<V>(tile, stats, begin, end, row + g * V::kWidth) || changed;
  }
  if (changed) {
    strip_max<V, G>(tile, begin, end, row, largest);
  }
  typename V::F minus[G];
  typename V::F strip[G];
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) {
    float* at = stats.max + row + g * V::kWidth;
    const auto max = V::load(at);
    const auto higher = V::max(V::mul(scale, largest[g]), max);
    if (V::greater_mask(higher, max) != 0) {
      float* sum = stats.sum + row + g * V::kWidth;
      V::store(sum, V::mul(V::load(sum), exp_of<V>(V::sub(max, higher))));  // exactly 1 for lanes without change
      V::store(at, higher);
    }
    minus[g] = V::sub(V::broadcast(0.0F), higher);
    strip[g] = V::broadcast(0.0F);
  }
  for (int64_t c = begin; c < end; ++c) {
    const float* z = tile.z + c * tile.stride + row;
    // Prefetches the next rows of this class, since the strides are too large for the hardware prefetcher.
    for (int g = 0; g < G * V::kWidth; g += 16) {
      __builtin_prefetch(z + G * V::kWidth + g);
    }
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      strip[g] = V::add(strip[g], exp_of<V>(V::fma(scale, V::load(z + g * V::kWidth), minus[g])));
    }
  }
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) {
    float* sum = stats.sum + row + g * V::kWidth;
    V::store(sum, V::add(V::load(sum), strip[g]));
  }
  for (int g = 0; g < G && stats.total != nullptr; ++g) {
    auto total = V::broadcast(0.0F);
    for (int64_t c = begin; c < end; ++c) {
      total = V::add(total, V::load(tile.z + c * tile.stride + row + g * V::kWidth));
    }
    float* at = stats.total + row + g * V::kWidth;
    V::store(at, V::add(V::load(at), total));
  }
}

template <typename V>
void add_stats(const HeadTile& tile, const HeadTileStats& stats) {
  for (int64_t begin = 0; begin < tile.classes; begin += kStrip) {
    const int64_t end = begin + kStrip < tile.classes ? begin + kStrip : tile.classes;
    for (int64_t row = 0; row < tile.rows; row += kPanel) {
      add_strip<V, static_cast<int>(kPanel) / V::kWidth>(tile, stats, begin, end, row);
    }
  }
}

// Computes the gradient of a tile. kChanged: the loss changes logits (HeadTile::changes_logits).
template <typename V, bool kChanged>
void gradient_of(const HeadTile& tile, const HeadTileGradient& rows) {
  const auto scale = V::broadcast(tile.scale);
  const auto filter = V::broadcast(tile.filter);
  for (int64_t c = 0; c < tile.classes; ++c) {
    const auto by = correction<V>(tile, c);
    float* z = tile.z + c * tile.stride;
    for (int64_t row = 0; row < tile.rows; row += V::kWidth) {
      const auto minus = V::sub(V::broadcast(0.0F), V::load(rows.max + row));
      const auto x = logit<V>(tile, c, V::load(z + row));
      const auto e = exp_of<V>(V::fma(scale, kChanged ? loss_logit<V>(x, filter, by) : x, minus));
      const auto g = V::fma(e, V::load(rows.factor + row), V::load(rows.smooth + row));
      V::store(z + row, kChanged ? V::zero_where_less(filter, x, g) : g);
    }
  }
}

template <typename V>
void gradient(const HeadTile& tile, const HeadTileGradient& rows) {
  if (tile.changes_logits()) {
    gradient_of<V, true>(tile, rows);
  } else {
    gradient_of<V, false>(tile, rows);
  }
}

template <typename V>
void sum_rows(const HeadTile& tile, int64_t first_row, int64_t row_block, float* lanes) {
  for (int64_t c = 0; c < tile.classes; ++c, lanes += 16) {
    const float* z = tile.z + c * tile.stride;
    if (row_block % 16 != 0) {
      for (int64_t row = 0, inside = first_row % row_block; row < tile.rows; ++row) {
        lanes[inside % 16] += z[row];
        inside = inside + 1 < row_block ? inside + 1 : 0;
      }
      continue;
    }
    for (int64_t lane = 0; lane < 16; lane += V::kWidth) {
      auto sum = V::load(lanes + lane);
      for (int64_t row = lane; row < tile.rows; row += 16) {
        sum = V::add(sum, V::load(z + row));
      }
      V::store(lanes + lane, sum);
    }
  }
}
