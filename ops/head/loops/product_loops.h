// Part of kernels_impl.h: matrix products over panels, and class rows packed as their operands.

// Number of elements of k in one pass over C, so that a panel of B (32 KiB) and the rows of A stay in the first-level
// cache.
constexpr int64_t kStepK = 256;

// Number of steps of k after which the next cache line is prefetched.
constexpr int64_t kStepsOfLine = 4;
constexpr int64_t kLine = 64;

// Computes R rows by two vectors of C. The left side is [R][a_stride] if kRowMajor, else [k][a_stride]. Prefetches from
// `ahead`, which advances by `line` bytes.
template <typename V, int R, bool kRowMajor>
void gemm_tile(int64_t k, const uint32_t* a, int64_t a_stride, const uint32_t* b, float* c, int64_t c_m, bool add,
               const char* ahead, int64_t line) {
  constexpr int kShared = 3;  // rows that share a pointer and differ by an index, to save general registers
  const uint32_t* rows[(R + kShared - 1) / kShared];
#pragma GCC unroll 16
  for (int r = 0; r < R; r += kShared) {
    rows[r / kShared] = kRowMajor ? a + r * a_stride : a;
  }
  typename V::F acc[R][2];  // all loops over the sums are unrolled; otherwise they would be kept in memory
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    acc[r][0] = add ? V::load(c + r * c_m) : V::broadcast(0.0F);
    acc[r][1] = add ? V::load(c + r * c_m + V::kWidth) : V::broadcast(0.0F);
  }
  for (int64_t i = 0; i < k; ++i) {
    if (i % kStepsOfLine == 0) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += line;
    }
    const auto b0 = V::load_element(b);
    const auto b1 = V::load_element(b + V::kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto left =
          V::broadcast_element(kRowMajor ? rows[r / kShared] + (i + r % kShared * a_stride) : a + i * a_stride + r);
      acc[r][0] = V::step(acc[r][0], left, b0);
      acc[r][1] = V::step(acc[r][1], left, b1);
    }
    b += kPanel;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    V::store(c + r * c_m, acc[r][0]);
    V::store(c + r * c_m + V::kWidth, acc[r][1]);
  }
}

// Calls body(address to prefetch from, bytes from line to line) for k steps. If nothing is left to prefetch, the
// address is `hot`, which is in the cache.
template <typename Body>
void with_prefetch(HeadPrefetch* from, const void* hot, int64_t k, const Body& body) {
  if (from == nullptr || from->next == from->count) {
    body(static_cast<const char*>(hot), 0);
    return;
  }
  HeadPrefetch::Range& range = from->ranges[from->next];
  const char* begin = range.begin;
  const int64_t bytes = (k + kStepsOfLine - 1) / kStepsOfLine * kLine;
  range.begin += bytes;
  range.bytes -= bytes;
  from->next += range.bytes <= 0 ? 1 : 0;
  body(begin, kLine);
}

template <typename V, bool kRowMajor, int R>
void gemm_rows(int r, int64_t k, const uint32_t* a, int64_t a_stride, const uint32_t* b, float* c, int64_t c_m,
               bool add, HeadPrefetch* prefetch) {
  if constexpr (R > 1) {
    if (r < R) {
      gemm_rows<V, kRowMajor, R - 1>(r, k, a, a_stride, b, c, c_m, add, prefetch);
      return;
    }
  }
  for (int64_t part = 0; part < kPanel; part += 2 * V::kWidth) {
    with_prefetch(prefetch, a, k, [&](const char* ahead, int64_t line) {
      gemm_tile<V, R, kRowMajor>(k, a, a_stride, b + part, c + part, c_m, add, ahead, line);
    });
  }
}

template <typename V, bool kRowMajor>
void gemm_of(const HeadGemm& call) {
  const int64_t tiles = (call.m + V::kRows - 1) / V::kRows;
  for (int64_t k0 = 0; k0 < call.k; k0 += kStepK) {
    const int64_t k = call.k - k0 < kStepK ? call.k - k0 : kStepK;
    const bool add = call.add || k0 > 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      // Tiles of nearly equal size, since a small last tile would leave the multipliers idle.
      const int64_t m0 = call.m * tile / tiles;
      const int r = static_cast<int>(call.m * (tile + 1) / tiles - m0);
      const uint32_t* a = call.a + m0 * call.a_m + k0 * call.a_k;
      for (int64_t p = 0; p < call.panels; ++p) {
        gemm_rows<V, kRowMajor, V::kRows>(r, k, a, kRowMajor ? call.a_m : call.a_k,
                                          call.b + p * call.b_panel + k0 * kPanel, call.c + m0 * call.c_m + p * kPanel,
                                          call.c_m, add, call.prefetch);
      }
    }
  }
}

template <typename V>
void gemm(const HeadGemm& call) {
  if (call.a_k == 1) {
    gemm_of<V, true>(call);
  } else {
    gemm_of<V, false>(call);
  }
}

// Rounds to the nearest bf16, ties to even. NaN does not change.
template <typename V>
typename V::F round_bf16(typename V::F v) {
  typedef uint32_t Bits __attribute__((vector_size(sizeof(v))));
  const Bits u = reinterpret_cast<Bits>(v);
  const Bits kept = (u + 0x7FFFU + ((u >> 16) & 1U)) & 0xFFFF0000U;
  return v == v ? reinterpret_cast<typename V::F>(kept) : v;
}

// Loads one vector of a class row for a product: multiplied by `inverse`, rounded as `round` says, with zeros after
// the first `left` numbers.
template <typename V>
typename V::F class_values(const float* w, int64_t left, float inverse, HeadRounding round) {
  auto v = V::load_upto(w, left);
  v = V::mul(v, V::broadcast(inverse));
  return round == HeadRounding::kBf16 ? round_bf16<V>(v) : round == HeadRounding::kF16 ? V::round_f16(v) : v;
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
      if (call.rows != nullptr) {
        V::store(reinterpret_cast<float*>(call.rows) + c * call.rows_stride + d, v);
      }
      if (call.panels != nullptr) {
        V::store(reinterpret_cast<float*>(call.panels) + ((d / kPanel) * call.panel_steps + c) * kPanel + d % kPanel,
                 v);
      }
    }
  }
}
