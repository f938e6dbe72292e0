#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <vector>

#include "graph/base/random.h"
#include "ops/head/loops/kernels.h"
#include "ops/head/stats.h"
#include "ops/simd/simd.h"

// Runs the loops for AMX with tiles emulated in plain memory, so that their address arithmetic is tested on every
// processor with AVX512-BF16. The source is compiled here a second time under another name.
namespace xrun::ops::emulated {
namespace {

thread_local uint32_t tiles[8][16][16];

void load_tile(int tile, const void* p, size_t stride) {
  for (size_t row = 0; row < 16; ++row) {
    std::memcpy(tiles[tile][row], static_cast<const char*>(p) + row * stride, 64);
  }
}

void store_tile(int tile, void* p, size_t stride) {
  for (size_t row = 0; row < 16; ++row) {
    std::memcpy(static_cast<char*>(p) + row * stride, tiles[tile][row], 64);
  }
}

float half_of(uint32_t pair, int which) { return to_float(Bf16{static_cast<uint16_t>(pair >> (16 * which))}); }

void multiply_tiles(int c, int a, int b) {
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) {
        for (int i = 0; i < 2; ++i) {
          sum += half_of(tiles[a][m][k], i) * half_of(tiles[b][k][n], i);
        }
      }
      float old = 0;
      std::memcpy(&old, &tiles[c][m][n], sizeof old);
      sum += old;
      std::memcpy(&tiles[c][m][n], &sum, sizeof sum);
    }
  }
}

}  // namespace
}  // namespace xrun::ops::emulated

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wunused-function"
#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_release
#define _tile_loadconfig(p) static_cast<void>(p)
#define _tile_loadd emulated::load_tile
#define _tile_stored emulated::store_tile
#define _tile_zero(tile) std::memset(emulated::tiles[tile], 0, sizeof emulated::tiles[tile])
#define _tile_dpbf16ps emulated::multiply_tiles
#define _tile_release() static_cast<void>(0)
#define kHeadAmx kHeadEmulatedAmx
#include "ops/head/loops/kernels_amx.cpp"  // NOLINT
#undef kHeadAmx
#pragma GCC diagnostic pop
#pragma GCC pop_options

namespace xrun::ops {
namespace {

struct Product {
  int64_t m = 0;
  int64_t panels = 0;
  int64_t k = 0;
  bool left_by_rows = true;  // a_k == 1
  bool add = false;
};

uint32_t bits_of(float x) {
  uint32_t u = 0;
  std::memcpy(&u, &x, sizeof u);
  return u;
}

float float_of(uint32_t u) {
  float x = 0;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

struct Operands {
  std::vector<uint32_t> a;
  std::vector<uint32_t> b;
  std::vector<float> c;
  HeadGemm call;
};

Operands make_operands(const Product& p, bool pairs, uint64_t seed) {
  const RandomStream stream(seed, 5);
  uint64_t at = 0;
  const auto element = [&] {
    const float x = stream.normal(at++);
    const float y = stream.normal(at++);
    return pairs ? static_cast<uint32_t>(to_bf16(x).bits) | static_cast<uint32_t>(to_bf16(y).bits) << 16 : bits_of(x);
  };
  const int64_t rows = align_up(p.m, 32);
  Operands made;
  made.a.resize(static_cast<size_t>(p.left_by_rows ? rows * (p.k + 16) : p.k * (rows + 16)));
  made.b.resize(static_cast<size_t>(p.panels * p.k * 32));
  made.c.resize(static_cast<size_t>(rows * (p.panels * 32 + 32)));
  for (uint32_t& x : made.a) {
    x = element();
  }
  for (uint32_t& x : made.b) {
    x = element();
  }
  for (float& x : made.c) {
    x = stream.normal(at++);
  }
  made.call = {.m = p.m,
               .panels = p.panels,
               .k = p.k,
               .a_m = p.left_by_rows ? p.k + 16 : 1,
               .a_k = p.left_by_rows ? 1 : rows + 16,
               .b_panel = p.k * 32,
               .c_m = p.panels * 32 + 32,
               .add = p.add};
  return made;
}

std::vector<float> multiply(const HeadKernels& kernels, const Operands& of) {
  std::vector<float> c = of.c;
  HeadGemm call = of.call;
  call.a = of.a.data();
  call.b = of.b.data();
  call.c = c.data();
  kernels.gemm(call);
  std::vector<float> result;
  for (int64_t m = 0; m < call.m; ++m) {
    result.insert(result.end(), c.begin() + m * call.c_m, c.begin() + m * call.c_m + call.panels * 32);
  }
  return result;
}

// Returns the product as a chain of fused multiply-adds in ascending order of k.
std::vector<float> chain(const Operands& of) {
  const HeadGemm& call = of.call;
  std::vector<float> result;
  for (int64_t m = 0; m < call.m; ++m) {
    for (int64_t n = 0; n < call.panels * 32; ++n) {
      float sum = call.add ? of.c[static_cast<size_t>(m * call.c_m + n)] : 0;
      for (int64_t k = 0; k < call.k; ++k) {
        sum = std::fma(float_of(of.a[static_cast<size_t>(m * call.a_m + k * call.a_k)]),
                       float_of(of.b[static_cast<size_t>((n / 32) * call.b_panel + k * 32 + n % 32)]), sum);
      }
      result.push_back(sum);
    }
  }
  return result;
}

constexpr Product kProducts[] = {{1, 1, 1, true, false},     {2, 1, 5, true, false},    {3, 1, 5, true, true},
                                 {5, 2, 33, true, true},     {13, 1, 300, true, false}, {64, 3, 32, true, false},
                                 {128, 2, 520, true, true},  {97, 1, 256, true, false}, {32, 2, 77, false, true},
                                 {64, 1, 128, false, false}, {96, 4, 257, false, true}};

TEST(HeadKernels, ProductsInF32AreOneChainOfFusedMultiplyAddsForEveryShape) {
  for (const Product& p : kProducts) {
    const Operands of = make_operands(p, false, static_cast<uint64_t>(p.m * 1000 + p.k));
    const std::vector<float> want = chain(of);
    EXPECT_EQ(multiply(kHeadAvx2, of), want) << "avx2, m " << p.m << " k " << p.k;
    if (__builtin_cpu_supports("avx512bw") != 0) {
      EXPECT_EQ(multiply(kHeadAvx512, of), want) << "avx512, m " << p.m << " k " << p.k;
    }
  }
}

TEST(HeadKernels, AmxTilesGiveTheProductsOfBf16Pairs) {
  if (__builtin_cpu_supports("avx512bf16") == 0) {
    GTEST_SKIP() << "this processor has no AVX512-BF16";
  }
  for (Product p : kProducts) {
    p.k = align_up(p.k, 16);
    const Operands of = make_operands(p, true, static_cast<uint64_t>(p.m * 1000 + p.k));
    const std::vector<float> pairs = multiply(kHeadAvx512Bf16, of);
    const std::vector<float> tiles = multiply(kHeadEmulatedAmx, of);
    ASSERT_EQ(pairs.size(), tiles.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_NEAR(pairs[i], tiles[i], 2e-4) << "m " << p.m << " k " << p.k << " element " << i;
    }
  }
}

// The product does not read prefetched memory, so its result stays the same. The prefetch ranges advance until they are
// empty.
TEST(HeadKernels, ProductsConsumePrefetchRangesFromTheFront) {
  const std::vector<char> ahead(1 << 16);
  std::vector<std::pair<const HeadKernels*, bool>> kernels{{&kHeadAvx2, false}};
  if (__builtin_cpu_supports("avx512bw") != 0) {
    kernels.emplace_back(&kHeadAvx512, false);
  }
  if (__builtin_cpu_supports("avx512bf16") != 0) {
    kernels.emplace_back(&kHeadEmulatedAmx, true);
  }
  for (const auto& [table, pairs] : kernels) {
    const Operands of = make_operands({64, 2, 32, true, false}, pairs, 3);
    const std::vector<float> want = multiply(*table, of);
    HeadPrefetch prefetch;
    prefetch.ranges[0] = {ahead.data(), 100};
    prefetch.ranges[1] = {ahead.data() + 100, static_cast<int64_t>(ahead.size()) - 100};
    prefetch.count = 2;
    Operands with = of;
    with.call.prefetch = &prefetch;
    EXPECT_EQ(multiply(*table, with), want);
    EXPECT_EQ(prefetch.next, 1);
    EXPECT_LT(prefetch.ranges[1].bytes, static_cast<int64_t>(ahead.size()) - 100);
    EXPECT_EQ(prefetch.ranges[1].begin + prefetch.ranges[1].bytes, ahead.data() + ahead.size());
  }
}

TEST(HeadKernels, ExponentialsAreWithinOneAndAHalfUlp) {
  // Only rounding can make z - max larger than 0.
  double worst = 0;
  for (int i = 0; i <= 1'000'000; ++i) {
    const float x = -87.3F + 88.3F * static_cast<float>(i) / 1e6F;
    const double want = std::exp(static_cast<double>(x));
    const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(exp_f32(x)) - want) / ulp);
  }
  EXPECT_LE(worst, 1.5);
  EXPECT_EQ(exp_f32(0), 1);
  EXPECT_EQ(exp_f32(-88), 0);
  EXPECT_EQ(exp_f32(-INFINITY), 0);
  EXPECT_TRUE(std::isnan(exp_f32(NAN)));
}

// Row blocks are not padded here, but the sums of a class must equal those over padded blocks.
TEST(HeadKernels, SumsOverRowsAssignLanesWithinEachRowBlock) {
  constexpr int64_t kRows = 96;
  std::vector<float> z(kRows);
  const RandomStream stream(4, 4);
  for (size_t i = 0; i < z.size(); ++i) {
    z[i] = stream.normal(i);
  }
  for (const HeadKernels* kernels : {&kHeadAvx2, &kHeadAvx512}) {
    if (kernels == &kHeadAvx512 && __builtin_cpu_supports("avx512bw") == 0) {
      continue;
    }
    for (const int64_t block : {4, 24, 32}) {
      constexpr int64_t kFirst = 32;
      std::vector<float> want(16, 0.5F);
      for (int64_t row = 0; row < kRows; ++row) {
        want[static_cast<size_t>((kFirst + row) % block % 16)] += z[static_cast<size_t>(row)];
      }
      std::vector<float> lanes(16, 0.5F);
      kernels->sum_rows({.z = z.data(), .stride = kRows, .classes = 1, .rows = kRows}, kFirst, block, lanes.data());
      EXPECT_EQ(lanes, want) << block;
    }
  }
}

// The statistics of one row have the bits of the scalar computation: strips of 64, then the fold.
TEST(HeadKernels, StatisticsFoldStripsOf64InAscendingOrder) {
  constexpr int64_t kClasses = 150;
  constexpr int64_t kRows = 32;
  std::vector<float> z(kClasses * 48);
  const RandomStream stream(3, 3);
  for (size_t i = 0; i < z.size(); ++i) {
    z[i] = 4 * stream.normal(i);
  }
  for (const HeadKernels* kernels : {&kHeadAvx2, &kHeadAvx512}) {
    if (kernels == &kHeadAvx512 && __builtin_cpu_supports("avx512bw") == 0) {
      continue;
    }
    std::vector<float> copy = z;
    std::vector<float> max(kRows, -INFINITY);
    std::vector<float> sum(kRows, 0.0F);
    std::vector<float> best(kRows, -INFINITY);
    std::vector<int32_t> best_class(kRows, -1);
    const std::vector<int32_t> labels(kRows, -1);
    const std::vector<float> targets(kRows);
    kernels->add_stats(
        {.z = copy.data(), .stride = 48, .classes = kClasses, .rows = kRows, .first_class = 1000, .scale = 1.5F},
        {.max = max.data(),
         .sum = sum.data(),
         .top_k = 1,
         .best = best.data(),
         .best_class = best_class.data(),
         .plane = kRows,
         .label = labels.data(),
         .target = targets.data()});
    for (int64_t row = 0; row < kRows; ++row) {
      float m = -INFINITY;
      float s = 0;
      int64_t which = 0;
      for (int64_t begin = 0; begin < kClasses; begin += 64) {
        const int64_t end = std::min(begin + 64, kClasses);
        float largest = -INFINITY;
        for (int64_t c = begin; c < end; ++c) {
          const float x = z[static_cast<size_t>(c * 48 + row)];
          largest = std::max(largest, x);
          which = x > z[static_cast<size_t>(which * 48 + row)] ? c : which;
        }
        const float higher = std::max(m, 1.5F * largest);
        s *= exp_f32(m - higher);
        m = higher;
        float strip = 0;
        for (int64_t c = begin; c < end; ++c) {
          strip += exp_f32(std::fma(1.5F, z[static_cast<size_t>(c * 48 + row)], -m));
        }
        s += strip;
      }
      EXPECT_EQ(max[static_cast<size_t>(row)], m);
      EXPECT_EQ(sum[static_cast<size_t>(row)], s);
      EXPECT_EQ(best_class[static_cast<size_t>(row)], 1000 + which);
    }
  }
}

}  // namespace
}  // namespace xrun::ops
