// Measures searches for plans of large models: all settings of a machine without limits of memory, and one setting with
// a limit of each device, so that layers run again. Another benchmark makes and verifies plans for many devices whose
// gradients are compressed; tests/bench/sku100m_cpu.xgraph is a file of this kind.
#include <benchmark/benchmark.h>

#include "planner/planner.h"
#include "planner/search/search.h"
#include "tests/planner/generated_models.h"

namespace xrun::planner {
namespace {

// A residual network with `layers` layers of uneven widths, on `devices` devices with a core each.
struct Subject {
  Subject(int layers, int64_t batch, int devices)
      : training(testing::prepare_training(model_of(layers, batch))),
        facts(testing::make_facts(training)),
        machine{.name = "cpu", .cores = devices, .devices = devices, .threads = devices, .memory = 1000 * kGiB},
        cost(facts, machine),
        chain(make_chain(training, cost)),
        input{training, chain, cost, machine, layer_hints(training, chain).value()} {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  static Module model_of(int layers, int64_t batch) {
    testing::ModelOptions options{
        .layers = layers, .input = 64, .width = 256, .skips = true, .batch = batch, .norm_rows = 8};
    const RandomStream stream(7, 1);
    int64_t width = 256;
    for (int i = 0; i < layers; ++i) {
      width = i % 8 == 7 ? 64 + 8 * static_cast<int64_t>(stream.below(static_cast<uint64_t>(i), 64)) : width;
      options.widths.push_back(width);
    }
    return make_module(options);
  }

  Module training;
  KernelFacts facts;
  Machine machine;
  CostModel cost;
  Chain chain;
  SearchInput input;
};

void search_all(benchmark::State& state, int layers, int64_t batch, int devices) {
  const Subject subject(layers, batch, devices);
  const std::vector<Setting> settings = legal_settings(subject.training, subject.chain, subject.machine, false).value();
  Seconds step = 0;
  for (auto _ : state) {
    step = search(subject.input, settings).value().at(0).predicted.step;
  }
  state.counters["nodes"] = subject.chain.size();
  state.counters["settings"] = static_cast<double>(settings.size());
  state.counters["step_ms"] = 1e3 * step;
}

// `share` of the memory of the largest stage without recomputation is the limit of each stage.
void decide_within(benchmark::State& state, int layers, int64_t batch, int devices, double share) {
  const Subject subject(layers, batch, devices);
  const Setting setting{devices, 1, 64, PipelineKind::kGpipe};
  const Candidate free = decide(subject.input, setting, Recompute::kNone).value().at(0);
  const auto limit = static_cast<Bytes>(share * static_cast<double>(free.largest_stage));
  Seconds step = 0;
  for (auto _ : state) {
    step = decide(subject.input, setting, Recompute::kAuto, {.stage = limit}).value().at(0).predicted.step;
  }
  state.counters["nodes"] = subject.chain.size();
  state.counters["step_ms"] = 1e3 * step;
}

// The model has a head of 100 million classes, a tenth of which are active in a step, and the loss is scaled. Each node
// has 8 devices with a core each. With `replicas`, the plan has one stage and a replica on each device.
void plan_cluster(benchmark::State& state, int layers, int64_t nodes, bool replicas) {
  Module module = testing::make_module({.layers = layers,
                                        .width = 512,
                                        .classes = 100'000'000,
                                        .head = true,
                                        .head_cosine = true,
                                        .skips = true,
                                        .precision = PrecisionMode::kMixedF16,
                                        .batch = 16'384,
                                        .norm_rows = 32});
  module.train.compress = {.density = 0.001};
  module.train.loss_scale.kind = LossScaleSpec::kDynamic;
  module.train.active_classes = {.kind = ActiveSpec::kSample, .amount = 0.1};
  if (replicas) {
    module.schedule.stages = Hint<int64_t>{1, {}};
    module.schedule.replicas = Hint<int64_t>{8 * nodes, {}};
  }
  const ClusterSpec cluster{.nodes = nodes,
                            .network = {.name = "ethernet", .rate = 3.125e9, .latency = 2e-5},
                            .cores = 8,
                            .memory = 512 * kGiB,
                            .reserve = 0};
  const Module training = testing::prepare_training(module);
  const Module inference = testing::prepare_inference(module);
  const KernelFacts facts = testing::make_facts(training);
  const KernelFacts inference_facts = testing::make_facts(inference);
  size_t operands = 0;
  int64_t blocks = 0;
  for (auto _ : state) {
    const Plan plan =
        make_plan(training, inference, facts, inference_facts, make_machine(cluster, {}, 1, kGiB), {}).value();
    operands = 0;
    blocks = 0;
    for (const Instruction& one : plan.training.instructions) {
      operands += one.operands.size();
      blocks += one.blocks();
    }
  }
  state.counters["nodes"] = static_cast<double>(nodes);
  state.counters["operands"] = static_cast<double>(operands);
  state.counters["blocks"] = static_cast<double>(blocks);  // operands, where each block of a run counts
}

BENCHMARK_CAPTURE(search_all, nodes_1214_devices_8, 312, 512, 8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_all, nodes_998_devices_256, 256, 4096, 256)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decide_within, nodes_1214_devices_8, 312, 512, 8, 0.7)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_cluster, replicas_64, 16, 8, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_cluster, replicas_128, 16, 16, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_cluster, replicas_256, 56, 32, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_cluster, devices_256, 4, 32, false)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xrun::planner
