// Tests: tests/runtime/bench/calibration/measured_calls_test.cpp
#include "runtime/bench/calibration/measured_calls.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <tuple>
#include <vector>

#include "graph/base/check.h"
#include "graph/cost.h"
#include "graph/passes/pipeline.h"
#include "lang/frontend.h"
#include "ops/facts/facts.h"
#include "ops/norm/norm_numbers.h"
#include "ops/op.h"
#include "planner/cost/calibrated_times.h"

namespace xrun::runtime {
namespace {

// The shapes are those of usual image models. A probe has one unit of each size, since its repetitions would have equal
// calls.
constexpr Probe kProbes[] = {
    {"bottleneck units of 224 pixels", "3, 224, 224", "resnet([2, 2, 2, 2])", 4},
    {"basic units of 112 pixels", "3, 112, 112", "basic_resnet([2, 2, 2, 2])", 4},
    {"basic units of 32 pixels", "1, 32, 32",
     "conv(32, 3, stride=2) -> bn -> relu -> conv(64, 3) -> bn -> relu -> basic(64) -> basic(128, 2) -> basic(128)"
     " -> flatten -> dropout(0.1)",
     128},
    {"depthwise units of 112 pixels", "3, 112, 112", "mobilefacenet", 8},
    {"a transformer of 197 positions", "3, 224, 224", "vit(384, 1, 6, 16)", 1},
    {"a transformer of 197 positions", "3, 224, 224", "vit(384, 1, 6, 16)", 8},
    {"a transformer of 65 positions", "3, 32, 32", "vit(192, 1, 3, 4)", 32},
    {"dense layers of 16 rows", "1, 32, 32", "flatten -> linear(1024) -> relu -> linear(4096) -> gelu -> linear(512)",
     16},
    {"dense layers of 64 rows", "1, 32, 32", "flatten -> linear(1024) -> relu -> linear(4096) -> gelu -> linear(512)",
     64},
};

constexpr std::string_view kHead = "arcface(id, label)";

// The calls of one round: kind, type, operations, bytes; and their times.
using Key = std::tuple<std::string, bool, Flops, double>;
struct Round {
  std::map<Key, Seconds> calls;
  Seconds head_f32 = 0;  // time of a multiply-add
  Seconds head_bf16 = 0;
  double update = 0;
};

Result<Module> prepared_probe(const Probe& probe, bool bf16) {
  SourceMap sources;
  Diagnostics diagnostics;
  auto file = lang::check_text("probe.xgraph", probe_text(probe, bf16), sources, diagnostics,
                               {.ops = &ops::registry(), .norm_of = ops::norm_group});
  XRUN_CHECK(file.has_value(), "the text of a probe has a fault: " + std::string(probe.name));
  return prepare(std::move(file->module), ops::registry(), {.training = true});
}

Status add_probe(const Probe& probe, bool bf16, ops::Isa isa, Round& round) {
  XRUN_ASSIGN(const Module module, prepared_probe(probe, bf16));
  const Graph& graph = module.graph;
  const int64_t rows = module.train.norm_rows;
  ops::KernelTimes times;
  XRUN_ASSIGN(const KernelFacts facts, ops::collect_facts(graph, rows, true, isa, false, &times));
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!facts.nodes[i].time || node.inputs.empty()) {
      continue;
    }
    const OpCost cost = call_cost(graph, node, rows);
    const bool narrow = graph.value(node.inputs[0]).type.dtype == DType::kBF16;
    round.calls.emplace(Key(planner::call_kind(graph, node), narrow, cost.flops, static_cast<double>(cost.bytes)),
                        *facts.nodes[i].time);
  }
  (bf16 ? round.head_bf16 : round.head_f32) = facts.head_seconds_per_mac;
  round.update = round.update > 0 ? round.update : facts.bytes_per_second;  // that of the first probe, the largest one
  return {};
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

template <typename Get>
double median_of(const std::vector<Round>& rounds, Get get) {
  std::vector<double> values;
  for (const Round& round : rounds) {
    values.push_back(get(round));
  }
  return median_of(std::move(values));
}

}  // namespace

std::span<const Probe> probes() { return kProbes; }

std::string probe_text(const Probe& probe, bool bf16) {
  return fmt::format(R"(xgraph 1

from "std/nets" use resnet, basic_resnet, mobilefacenet, vit
from "std/vision" use basic

model probe {{
  input image: f32[N, {}]

  feature = image -> {}
  output feature

  head id = cosine_classifier(feature, 8192)
}}

data made {{
  source train = synthetic([{}], 8192, samples=65536)

  image = pixels
}}

train probe {{
  batch     = {}
  epochs    = 1
  norm_rows = {}
  loss      = {}
  optimizer = sgd(momentum=0.9)
  lr        = 0.1
  precision = {}
}}
)",
                     probe.shape, probe.body, probe.shape, probe.rows, probe.rows, kHead, bf16 ? "mixed(bf16)" : "f32");
}

Result<MeasuredCalls> measure_calls(ops::Isa isa, int rounds, const std::function<void(std::string)>& progress) {
  std::vector<Round> all(static_cast<size_t>(rounds));
  for (int i = 0; i < rounds; ++i) {
    for (const bool bf16 : {false, true}) {
      for (const Probe& probe : kProbes) {
        if (progress) {
          progress(fmt::format("{} in {}, round {} of {}", probe.name, bf16 ? "bf16" : "f32", i + 1, rounds));
        }
        XRUN_TRY(add_probe(probe, bf16, isa, all[static_cast<size_t>(i)]));
      }
    }
  }
  MeasuredCalls measured;
  std::vector<double> spreads;
  for (const auto& [key, unused] : all[0].calls) {
    std::vector<double> times;
    for (const Round& round : all) {
      times.push_back(round.calls.at(key));
    }
    const auto [least, most] = std::ranges::minmax(times);
    const Seconds time = median_of(times);
    spreads.push_back(std::max(most / time, time / least) - 1);
    const auto& [kind, narrow, flops, bytes] = key;
    (narrow ? measured.bf16 : measured.f32)[kind].push_back({flops, bytes, time});
  }
  measured.calls = static_cast<int>(spreads.size());
  measured.spread = median_of(spreads);
  measured.head_f32 = 2 / median_of(all, [](const Round& round) { return round.head_f32; });
  measured.head_bf16 = 2 / median_of(all, [](const Round& round) { return round.head_bf16; });
  measured.update = median_of(all, [](const Round& round) { return round.update; });
  return measured;
}

}  // namespace xrun::runtime
