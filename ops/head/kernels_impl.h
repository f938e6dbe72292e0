// The loops of HeadKernels over a vector type V. Included once by each kernels_*.cpp, inside an unnamed namespace,
// after V; those files are compiled for their instruction set and must not instantiate anything shared with other
// files.
//   V::F, kWidth, load store broadcast fma max add sub mul exp less_mask ...
// Every loop has one order of operations, whatever its bounds; rows are lanes, which never mix.

constexpr int64_t kPanel = 32;
constexpr int64_t kStrip = 64;
// Elements of k per pass over C: a panel of B (32 KiB) and the copy of A stay in the first-level cache.
constexpr int64_t kStepK = 256;
constexpr int64_t kLeft = 16;  // stride of the copy of A

template <typename V>
typename V::F exp_of(typename V::F x) {
  // Cody and Waite's reduction to |r| <= log(2)/2, then Cephes' polynomial of expf. Below 2^-126: 0. NaN stays NaN.
  // Error below 1.5 units in the last place (tests/ops/head_kernels_test.cpp).
  const auto y = V::min(V::broadcast(88.37F), V::max(V::broadcast(-87.33F), x));
  const auto n = V::round(V::mul(y, V::broadcast(1.44269504088896341F)));
  auto r = V::fma(n, V::broadcast(-0.693359375F), y);
  r = V::fma(n, V::broadcast(2.12194440e-4F), r);
  auto p = V::broadcast(1.9875691500e-4F);
  p = V::fma(p, r, V::broadcast(1.3981999507e-3F));
  p = V::fma(p, r, V::broadcast(8.3334519073e-3F));
  p = V::fma(p, r, V::broadcast(4.1665795894e-2F));
  p = V::fma(p, r, V::broadcast(1.6666665459e-1F));
  p = V::fma(p, r, V::broadcast(5.0000001201e-1F));
  p = V::add(V::fma(V::mul(p, r), r, r), V::broadcast(1.0F));
  return V::zero_where_less(x, V::broadcast(-87.33F), V::scale_by_power(p, n));
}

// R rows of C by two vectors; the left side lies [k][a_k].
template <typename V, int R>
void gemm_tile(int64_t k, const uint32_t* a, int64_t a_k, const uint32_t* b, float* c, int64_t c_m, bool add) {
  typename V::F acc[R][2];  // every loop over it is unrolled, or it would live in memory
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    acc[r][0] = add ? V::load(c + r * c_m) : V::broadcast(0.0F);
    acc[r][1] = add ? V::load(c + r * c_m + V::kWidth) : V::broadcast(0.0F);
  }
  for (int64_t i = 0; i < k; ++i) {
    const auto b0 = V::load_element(b);
    const auto b1 = V::load_element(b + V::kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto left = V::broadcast_element(a + r);
      acc[r][0] = V::step(acc[r][0], left, b0);
      acc[r][1] = V::step(acc[r][1], left, b1);
    }
    a += a_k;
    b += kPanel;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    V::store(c + r * c_m, acc[r][0]);
    V::store(c + r * c_m + V::kWidth, acc[r][1]);
  }
}

template <typename V, int R>
void gemm_rows(int r, int64_t k, const uint32_t* a, int64_t a_k, const uint32_t* b, float* c, int64_t c_m, bool add) {
  if constexpr (R > 1) {
    if (r < R) {
      gemm_rows<V, R - 1>(r, k, a, a_k, b, c, c_m, add);
      return;
    }
  }
  for (int64_t part = 0; part < kPanel; part += 2 * V::kWidth) {
    gemm_tile<V, R>(k, a, a_k, b + part, c + part, c_m, add);
  }
}

template <typename V>
void gemm(const HeadGemm& call) {
  alignas(64) uint32_t left[(kStepK + 1) * kLeft];
  const int64_t tiles = (call.m + V::kRows - 1) / V::kRows;
  for (int64_t k0 = 0; k0 < call.k; k0 += kStepK) {
    const int64_t k = call.k - k0 < kStepK ? call.k - k0 : kStepK;
    const bool add = call.add || k0 > 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      // Even shares: no small rest that would leave the multipliers idle.
      const int64_t m0 = call.m * tile / tiles;
      const int r = static_cast<int>(call.m * (tile + 1) / tiles - m0);
      const uint32_t* a = call.a + m0 * call.a_m + k0 * call.a_k;
      int64_t a_k = call.a_k;
      if (call.a_k == 1) {
        V::transpose(a, call.a_m, r, k, left);
        a = left;
        a_k = kLeft;
      }
      for (int64_t p = 0; p < call.panels; ++p) {
        gemm_rows<V, V::kRows>(r, k, a, a_k, call.b + p * call.b_panel + k0 * kPanel,
                               call.c + m0 * call.c_m + p * kPanel, call.c_m, add);
      }
    }
  }
}

// left[k][kLeft] = a[r][k] for r rows, element by element.
inline void transpose_plain(const uint32_t* a, int64_t a_m, int rows, int64_t k, uint32_t* left) {
  for (int r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      left[i * kLeft + r] = a[r * a_m + i];
    }
  }
}

// Sixteen numbers of a class row, as the products read them: normalised, rounded, zeros behind `left`.
template <typename V>
typename V::F class_values(const float* w, int64_t left, float inverse, bool round) {
  auto v = V::load_upto(w, left);
  v = V::mul(v, V::broadcast(inverse));
  return round ? V::round_bf16(v) : v;
}

template <typename V>
void pack_classes(const HeadPackClasses& call) {
  const int64_t padded = (call.classes + kPanel - 1) / kPanel * kPanel;
  for (int64_t c = 0; c < padded; ++c) {
    const bool real = c < call.classes;
    const float inverse = !real ? 0 : call.inverse != nullptr ? call.inverse[c] : 1;
    for (int64_t d = 0; d < call.dim_padded; d += V::kWidth) {
      const int64_t left = real ? call.dim - d : 0;
      const auto v = class_values<V>(call.weight + c * call.dim + d, left, inverse, call.round);
      V::store(reinterpret_cast<float*>(call.rows) + c * call.rows_stride + d, v);
      if (call.panels != nullptr) {
        V::store(reinterpret_cast<float*>(call.panels) + ((d / kPanel) * call.panel_steps + c) * kPanel + d % kPanel,
                 v);
      }
    }
  }
}

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

inline void insert_best(const HeadTileStats& stats, int64_t row, float value, int32_t which) {
  int64_t at = stats.top_k - 1;
  if (!(value > stats.best[at * stats.plane + row])) {
    return;
  }
  for (; at > 0 && value > stats.best[(at - 1) * stats.plane + row]; --at) {
    stats.best[at * stats.plane + row] = stats.best[(at - 1) * stats.plane + row];
    stats.best_class[at * stats.plane + row] = stats.best_class[(at - 1) * stats.plane + row];
  }
  stats.best[at * stats.plane + row] = value;
  stats.best_class[at * stats.plane + row] = which;
}

// Largest logits of a strip for G vectors of rows.
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
      max[g] = V::max(V::load(z + g * V::kWidth), max[g]);  // a NaN leaves the second operand
    }
  }
}

// The best classes of the rows whose largest logit of the strip beats their last place.
template <typename V>
void strip_best(const HeadTile& tile, const HeadTileStats& stats, int64_t begin, int64_t end, int64_t row,
                typename V::F largest) {
  uint32_t better = V::greater_mask(largest, V::load(stats.best + (stats.top_k - 1) * stats.plane + row));
  if (better == 0) {
    return;
  }
  if (stats.top_k == 1) {
    // From the end, so that the lowest class of equal ones stays.
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
      insert_best(stats, lane, tile.z[c * tile.stride + lane], static_cast<int32_t>(tile.first_class + c));
    }
  }
}

// Puts the margin's value in place of each target's logit; whether there was any.
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

// A strip of classes for G vectors of rows, which stay in the first-level cache from the maximum to the sum.
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
  bool targets = false;
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) {
    if (stats.top_k > 0) {
      strip_best<V>(tile, stats, begin, end, row + g * V::kWidth, largest[g]);
    }
    targets = strip_targets<V>(tile, stats, begin, end, row + g * V::kWidth) || targets;
  }
  if (targets) {
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
      V::store(sum, V::mul(V::load(sum), exp_of<V>(V::sub(max, higher))));  // exactly 1 for lanes that stay
      V::store(at, higher);
    }
    minus[g] = V::sub(V::broadcast(0.0F), higher);
    strip[g] = V::broadcast(0.0F);
  }
  for (int64_t c = begin; c < end; ++c) {
    const float* z = tile.z + c * tile.stride + row;
    // The next rows of this class: too far apart for the processor to foresee.
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

template <typename V>
void gradient(const HeadTile& tile, const HeadTileGradient& rows) {
  const auto scale = V::broadcast(tile.scale);
  for (int64_t c = 0; c < tile.classes; ++c) {
    float* z = tile.z + c * tile.stride;
    for (int64_t row = 0; row < tile.rows; row += V::kWidth) {
      const auto minus = V::sub(V::broadcast(0.0F), V::load(rows.max + row));
      const auto e = exp_of<V>(V::fma(scale, logit<V>(tile, c, V::load(z + row)), minus));
      V::store(z + row, V::fma(e, V::load(rows.factor + row), V::load(rows.smooth + row)));
    }
  }
}

template <typename V>
void sum_rows(const HeadTile& tile, float* lanes) {
  for (int64_t c = 0; c < tile.classes; ++c) {
    for (int64_t lane = 0; lane < 16; lane += V::kWidth) {
      auto sum = V::load(lanes + c * 16 + lane);
      for (int64_t row = lane; row < tile.rows; row += 16) {
        sum = V::add(sum, V::load(tile.z + c * tile.stride + row));
      }
      V::store(lanes + c * 16 + lane, sum);
    }
  }
}

template <typename V>
void add(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i += V::kWidth) {
    V::store(to + i, V::add(V::load(to + i), V::load(from + i)));
  }
}

// Sixty-four running sums, then a fixed tree over them.
template <typename V>
float dot(const float* a, const float* b, int64_t n) {
  constexpr int kParts = 64 / V::kWidth;
  typename V::F sums[kParts];
  for (int i = 0; i < kParts; ++i) {
    sums[i] = V::broadcast(0.0F);
  }
  int64_t at = 0;
  for (; at + 64 <= n; at += 64) {
#pragma GCC unroll 8
    for (int i = 0; i < kParts; ++i) {
      const int64_t place = at + i * V::kWidth;
      sums[i] = V::fma(V::load(a + place), V::load(b + place), sums[i]);
    }
  }
  for (int i = 0; i < kParts && at + i * V::kWidth < n; ++i) {
    const int64_t place = at + i * V::kWidth;
    sums[i] = V::fma(V::load_upto(a + place, n - place), V::load_upto(b + place, n - place), sums[i]);
  }
  for (int width = kParts / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      sums[i] = V::add(sums[i], sums[i + width]);
    }
  }
  float lanes[V::kWidth];
  V::store(lanes, sums[0]);
  for (int width = V::kWidth / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      lanes[i] += lanes[i + width];
    }
  }
  return lanes[0];
}

template <typename V>
float inverse_norm(const float* w, int64_t dim) {
  const float norm = __builtin_sqrtf(dot<V>(w, w, dim));
  return 1.0F / (norm < kHeadEpsilon ? kHeadEpsilon : norm);
}

template <typename V>
void project(float* g, const float* w, float inverse, int64_t dim) {
  // Under the smallest norm the divisor is a constant, and the direction moves with the weight.
  const float along = inverse >= 1.0F / kHeadEpsilon ? 0.0F : dot<V>(g, w, dim) * inverse * inverse;
  for (int64_t i = 0; i < dim; i += V::kWidth) {
    const auto rest = V::fma(V::load_upto(w + i, dim - i), V::broadcast(-along), V::load_upto(g + i, dim - i));
    V::store(g + i, V::mul(rest, V::broadcast(inverse)));  // the tile's rows are padded
  }
}
