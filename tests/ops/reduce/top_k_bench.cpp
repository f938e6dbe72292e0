// Measures selections of the largest of 16 Mi elements: few enough to use candidates, and so many that all values are
// counted.
#include <benchmark/benchmark.h>
#include <random>
#include <vector>

#include "ops/reduce/top_k.h"

namespace xrun::ops {
namespace {

constexpr int64_t kCount = 16 * 1024 * 1024;

void select(benchmark::State& state) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw(0, 1);
  std::vector<float> values(kCount);
  for (float& value : values) {
    value = draw(random);
  }
  const int64_t k = kCount / state.range(0);
  std::vector<GradientPair> pairs(static_cast<size_t>(k));
  InlineWorkers workers;
  TopK selection(kCount, 1, k);
  for (auto _ : state) {
    selection.select(values.data(), kCount, k, pairs.data(), workers);
  }
  state.SetItemsProcessed(state.iterations() * kCount);
}
BENCHMARK(select)->Arg(4)->Arg(31)->Arg(32)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xrun::ops
