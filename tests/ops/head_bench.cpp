// A full step of a sharded head (forward, statistics, backward with fused update, dX) on synthetic data, beside the
// rate of independent fused multiply-adds on the same cores in the same run. FLOP are counted as 8·B·C·D. Rates are by
// wall time (GFLOP/s) and, since other work may share the cores, by second of processor time (all other counters).
#include <benchmark/benchmark.h>
#include <ctime>
#include <immintrin.h>

#include "tests/ops/head_runner.h"

namespace xrun::ops {
namespace {

// FLOP/s of one core in f32 FMA (AVX-512 where it is, else AVX2) or in VDPBF16PS.
[[gnu::target("avx512f")]] double peak_avx512(int64_t rounds) {
  __m512 sums[16];
  for (__m512& sum : sums) {
    sum = _mm512_set1_ps(1);
  }
  const __m512 factor = _mm512_set1_ps(0.999F);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, factor);
    }
  }
  for (__m512& sum : sums) {
    benchmark::DoNotOptimize(sum);
  }
  return static_cast<double>(rounds) * 16 * 16 * 2;
}

[[gnu::target("avx512f,avx512bf16")]] double peak_bf16(int64_t rounds) {
  __m512 sums[16];
  for (__m512& sum : sums) {
    sum = _mm512_set1_ps(1);
  }
  const __m512bh factor = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.999F), _mm512_set1_ps(0.999F));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, factor, factor);
    }
  }
  for (__m512& sum : sums) {
    benchmark::DoNotOptimize(sum);
  }
  return static_cast<double>(rounds) * 16 * 16 * 4;
}

double peak_avx2(int64_t rounds) {
  __m256 sums[12];
  for (__m256& sum : sums) {
    sum = _mm256_set1_ps(1);
  }
  const __m256 factor = _mm256_set1_ps(0.999F);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, factor);
    }
  }
  for (__m256& sum : sums) {
    benchmark::DoNotOptimize(sum);
  }
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double measure_peak(Isa isa, bool bf16, int threads) {
  ThreadWorkers workers(threads);
  std::atomic<double> flops = 0;
  const double start = processor_seconds();
  workers.for_each(threads, [&](int64_t, int) {
    constexpr int64_t kRounds = 20'000'000;
    const double done = isa >= Isa::kAvx512Bf16 && bf16 ? peak_bf16(kRounds)
                        : isa >= Isa::kAvx512           ? peak_avx512(kRounds)
                                                        : peak_avx2(kRounds);
    flops = flops + done;
  });
  return flops / (processor_seconds() - start);
}

struct Step {
  int64_t classes;
  int64_t dim;
  int64_t rows;
  bool cosine;
};

void head_step(benchmark::State& state, Step of, Isa isa, bool bf16, int threads, int64_t kept) {
  const HeadShape shape{.blocks = {of.classes, class_block(of.classes, of.classes)},
                        .dim = of.dim,
                        .shard = {0, of.classes},
                        .rows = of.rows,
                        .norm_rows = 64,
                        .bf16 = bf16,
                        .form = {.cosine = of.cosine},
                        .margin = {.scale = of.cosine ? 24.0 : 1.0, .m3 = of.cosine ? 0.1 : 0},
                        .row_weight = 1.0 / static_cast<double>(of.rows),
                        .workers = threads,
                        .kept_blocks = kept};
  ThreadWorkers workers(threads);
  const auto values = [&](int64_t n, float deviation) {
    std::vector<float> v(static_cast<size_t>(n));
    uint32_t seed = 12345;
    for (float& x : v) {
      seed = seed * 1664525 + 1013904223;
      x = deviation * (static_cast<float>(seed >> 8) * 0x1p-23F - 1);
    }
    return v;
  };
  const std::vector<float> features = values(of.rows * of.dim, 1);
  std::vector<float> weight = values(of.classes * of.dim, 0.1F);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < of.rows; ++i) {
    labels.push_back(static_cast<int32_t>(i * 7919 % of.classes));
  }
  const Block prepared(head_prepared_bytes(shape));
  const Block stats(head_stats_bytes(shape));
  const Block gradient(head_gradient_bytes(shape));
  const Bytes forward_bytes = head_scratch_bytes(shape, HeadPass::kForward);
  const Bytes backward_bytes = head_scratch_bytes(shape, HeadPass::kBackward);
  const Block scratch(std::max(forward_bytes, backward_bytes));
  std::vector<RowSoftmax> softmax(static_cast<size_t>(of.rows));
  std::vector<float> loss(static_cast<size_t>(of.rows));
  std::vector<float> dx(features.size());
  const HeadPasses passes(shape, isa);
  const HeadJoin join(shape, {shape.shard}, isa);
  const Block logits(head_logits_bytes(shape));
  const HeadRows rows{.features = reinterpret_cast<const std::byte*>(features.data()),
                      .labels = labels.data(),
                      .softmax = softmax.data(),
                      .logits = logits.data()};
  const HeadWeights weights{weight.data(), nullptr, reinterpret_cast<float*>(prepared.data())};
  HeadUpdate update;
  update.weight.rate = 0.01F;
  passes.prepare(weights, workers);
  const double peak = measure_peak(isa, bf16, threads);
  double forward = 0;
  double backward = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    const double start = processor_seconds();
    passes.forward(rows, weights, stats.data(), scratch.data(), workers);
    const std::byte* all[1] = {stats.data()};
    join.combine_stats(all, labels.data(), nullptr, softmax.data(), loss.data(), {});
    const double middle = processor_seconds();
    passes.backward(rows, weights, gradient.data(), &update, scratch.data(), workers);
    const HeadDx partials[1] = {{gradient.data(), head_gradient_rows(shape, 0, of.rows).step}};
    join.reduce_dx(partials, rows.features, of.rows, dx.data());
    forward += middle - start;
    backward += processor_seconds() - middle;
  }
  const double mac2 = 2.0 * static_cast<double>(of.rows * of.classes * of.dim);
  const auto steps = static_cast<double>(state.iterations());
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double rate = 4 * mac2 * steps / (forward + backward);
  state.counters["GFLOP/s"] = 4 * mac2 * steps / wall / 1e9;
  state.counters["per_core"] = rate / 1e9;
  state.counters["fwd"] = mac2 * steps / forward / 1e9;
  state.counters["bwd"] = 3 * mac2 * steps / backward / 1e9;
  state.counters["peak"] = peak / 1e9;
  state.counters["share"] = rate / peak;
  state.counters["extraMiB"] =
      static_cast<double>(head_stats_bytes(shape) + head_gradient_bytes(shape) +
                          std::max(forward_bytes, backward_bytes) + head_prepared_bytes(shape)) /
      static_cast<double>(kMiB);
}

void register_all() {
  struct Named {
    const char* name;
    Step step;
  };
  const Named steps[] = {{"glyphs_20902x256_B512", {20902, 256, 512, true}},
                         {"synthetic_1Mx128_B256", {1'000'000, 128, 256, false}},
                         {"synthetic_1Mx512_B256", {1'000'000, 512, 256, false}}};
  __builtin_cpu_init();
  for (const Named& named : steps) {
    for (const bool bf16 : {false, true}) {
      for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
        const bool has = isa == Isa::kAvx2 || (isa == Isa::kAvx512 && __builtin_cpu_supports("avx512bw") != 0) ||
                         (isa == Isa::kAvx512Bf16 && bf16 && __builtin_cpu_supports("avx512bf16") != 0) ||
                         (isa == Isa::kAmx && bf16 && detect_isa() == Isa::kAmx);
        for (const int threads : {1, 2}) {
          for (const int64_t kept : {0, 1000}) {
            if (!has) {
              continue;
            }
            const std::string name = std::string(named.name) + (bf16 ? "/bf16/" : "/f32/") + std::string(name_of(isa)) +
                                     "/threads:" + std::to_string(threads) + (kept > 0 ? "/kept" : "");
            benchmark::RegisterBenchmark(name.c_str(), head_step, named.step, isa, bf16, threads, kept)
                ->Unit(benchmark::kMillisecond)
                ->UseRealTime();
          }
        }
      }
    }
  }
}

const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace xrun::ops
