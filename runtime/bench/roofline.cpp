// How the rates are measured:
//   products      each worker repeats one instruction on sums that stay in registers. The number of independent sums
//                 covers the instruction's latency times its throughput, so a processor can always start another one
//   exponentials  each worker repeats the gradient of a head's tile of logits that stays in the first-level cache
//   traffic       a[i] += factor * b[i] over arrays larger than the caches. It reads twice and writes once, like a step
//                 of a head on its class weights. It reads each line before it writes it, so no line is fetched only to
//                 be written
// Tests: tests/runtime/cli/commands/bench_test.cpp
#include "runtime/bench/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <immintrin.h>

#include "graph/os/processor_time.h"
#include "ops/head/loops/kernels.h"
#include "ops/simd/amx_tiles.h"
#include "ops/simd/simd.h"

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWindow = std::chrono::milliseconds(50);
constexpr int64_t kRounds = 1 << 14;  // rounds of a loop between two reads of the clock: about 0.1 ms

// Each of these loops repeats its instruction kRounds times for each sum, and returns the number of operations.

double repeat_avx2() {
  constexpr int kSums = 12;
  __m256 sums[kSums];
  std::fill_n(sums, kSums, _mm256_set1_ps(1));
  const __m256 factor = _mm256_set1_ps(0.999F);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, factor);
    }
  }
  for (__m256& sum : sums) {
    asm volatile("" : "+x"(sum));  // keeps the sums from being optimised away
  }
  return static_cast<double>(kRounds) * kSums * 8 * 2;
}

[[gnu::target("avx512f")]] double repeat_avx512() {
  constexpr int kSums = 16;
  __m512 sums[kSums];
  for (__m512& sum : sums) {
    sum = _mm512_set1_ps(1);
  }
  const __m512 factor = _mm512_set1_ps(0.999F);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, factor);
    }
  }
  for (__m512& sum : sums) {
    asm volatile("" : "+v"(sum));
  }
  return static_cast<double>(kRounds) * kSums * 16 * 2;
}

[[gnu::target("avx512f,avx512bf16")]] double repeat_bf16() {
  constexpr int kSums = 16;
  __m512 sums[kSums];
  for (__m512& sum : sums) {
    sum = _mm512_set1_ps(1);
  }
  const __m512bh factor = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.999F), _mm512_set1_ps(0.999F));
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, factor, factor);
    }
  }
  for (__m512& sum : sums) {
    asm volatile("" : "+v"(sum));
  }
  return static_cast<double>(kRounds) * kSums * 16 * 4;
}

[[gnu::target("amx-tile,amx-bf16")]] double repeat_amx() {
  _tile_loadconfig(&ops::kAmxTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < kRounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(kRounds) * 4 * 16 * 16 * 32 * 2;
}

// Repeats the gradient on a tile of 16 classes and 256 rows. Each time a logit z becomes 0.25 · exp(z), which tends to
// a fixed point near 0.36, so values stay finite.
double repeat_exponentials(void (*gradient)(const ops::HeadTile&, const ops::HeadTileGradient&)) {
  constexpr int64_t kClasses = 16;
  constexpr int64_t kRows = 256;
  constexpr int64_t kRepeats = 8;
  alignas(64) float z[kClasses * kRows] = {};
  alignas(64) float zeros[kRows] = {};
  alignas(64) float factor[kRows];
  std::fill_n(factor, kRows, 0.25F);
  const ops::HeadTile tile{.z = z, .stride = kRows, .classes = kClasses, .rows = kRows};
  for (int64_t i = 0; i < kRepeats; ++i) {
    gradient(tile, {.max = zeros, .factor = factor, .smooth = zeros});
  }
  return static_cast<double>(kClasses * kRows * kRepeats);
}

struct Products {
  double (*repeat)();
  std::string_view instruction;
};

Products products_of(ops::Isa isa, bool bf16) {
  if (bf16 && isa == ops::Isa::kAmx) {
    return {repeat_amx, "TDPBF16PS"};
  }
  if (bf16 && ops::has_native_bf16(isa)) {
    return {repeat_bf16, "VDPBF16PS of 512 bits"};
  }
  return isa >= ops::Isa::kAvx512 ? Products{repeat_avx512, "f32 FMA of 512 bits"}
                                  : Products{repeat_avx2, "f32 FMA of 256 bits"};
}

// Measures the amount of work that all workers do together in a fixed time. `repeat` does one piece of the work and
// returns its amount.
template <typename Repeat>
MachineRate rate_of(ops::Workers& workers, const Repeat& repeat) {
  std::atomic<double> amount = 0;
  const Elapsed time = timed([&] {
    const auto end = Clock::now() + kWindow;
    workers.for_each(workers.count(), [&](int64_t, int) {
      double own = 0;
      while (Clock::now() < end) {
        own += repeat();
      }
      amount.fetch_add(own);
    });
  });
  return {amount, time};
}

}  // namespace

Elapsed elapsed_now() {
  return {std::chrono::duration<double>(Clock::now().time_since_epoch()).count(), process_processor_time()};
}

Bytes Roofline::memory_bytes(Bytes last_cache) {
  return std::clamp<Bytes>(align_up(4 * last_cache, kMiB), 64 * kMiB, 512 * kMiB);
}

std::string_view Roofline::instruction() const { return products_of(isa_, bf16_).instruction; }

MachineRate Roofline::products(ops::Workers& workers) const {
  return rate_of(workers, products_of(isa_, bf16_).repeat);
}

MachineRate Roofline::exponentials(ops::Workers& workers) const {
  const auto gradient = ops::head_kernels(isa_, false).gradient;
  return rate_of(workers, [gradient] { return repeat_exponentials(gradient); });
}

MachineRate Roofline::traffic(ops::Workers& workers) const {
  constexpr int64_t kPiece = 1 << 16;  // elements of a piece; small enough that workers share the arrays evenly
  const auto half = static_cast<int64_t>(memory_.size() / 2) / kPiece * kPiece;
  float* a = memory_.data();
  const float* b = a + half;
  double moved = 0;
  const Elapsed time = timed([&] {
    const auto end = Clock::now() + kWindow;
    do {
      workers.for_each(half / kPiece, [&](int64_t piece, int) {
        for (int64_t i = piece * kPiece; i < (piece + 1) * kPiece; i += ops::kLanes) {
          ops::store(a + i, ops::load(a + i) + ops::load(b + i) * 0.5F);
        }
      });
      moved += 3.0 * sizeof(float) * static_cast<double>(half);
    } while (Clock::now() < end);
  });
  return {moved, time};
}

}  // namespace xrun::runtime
