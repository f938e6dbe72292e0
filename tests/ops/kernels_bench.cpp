// One row block of 64 samples of the glyph backbone on one core, forward and backward, with a dense loss over 100
// classes: images/s, and the share of it that is not convolution. Synthetic data; no update of weights.
#include <benchmark/benchmark.h>

#include "ops/facts.h"
#include "tests/ops/glyphs_module.h"

namespace xrun::ops {
namespace {

constexpr int64_t kBlock = 64;

void backbone_step(benchmark::State& state, PrecisionMode precision) {
  const auto module = glyphs_module(512, 100, precision);
  if (!module.ok()) {
    state.SkipWithError(module.error().message.c_str());
    return;
  }
  double total = 0;
  double products = 0;
  for (auto _ : state) {
    KernelTimes times;
    const auto facts = collect_facts(module->graph, kBlock, true, detect_isa(), true, &times);
    if (!facts.ok()) {
      state.SkipWithError(facts.error().message.c_str());
      return;
    }
    total = 0;
    products = 0;
    for (size_t i = 0; i < facts->nodes.size(); ++i) {
      const std::string_view op = module->graph.nodes[i].op->name;
      total += facts->nodes[i].time;
      products += op.starts_with("conv") || op.starts_with("linear") ? facts->nodes[i].time : 0;
    }
    state.SetIterationTime(total);
  }
  state.counters["images/s"] = static_cast<double>(kBlock) / total;
  state.counters["other_share"] = 1 - products / total;
  state.SetLabel(std::string(name_of(detect_isa())));
}

BENCHMARK_CAPTURE(backbone_step, f32, PrecisionMode::kF32)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(backbone_step, mixed_bf16, PrecisionMode::kMixedBf16)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xrun::ops
