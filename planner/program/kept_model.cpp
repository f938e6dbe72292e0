// Tests: tests/planner/program/kept_model_test.cpp
#include "planner/program/kept_model.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "graph/cost.h"
#include "planner/program/run_memory.h"

namespace xrun::planner {
namespace {

auto order_of(const Span& span) { return std::tuple(span.file, span.begin, span.end); }

Graph keep_graph(const Graph& graph) {
  Graph kept;
  for (const Value& value : graph.values) {
    kept.values.push_back({.type = value.type, .name = {}, .producer = {}, .param = value.param});
  }
  for (const Node& node : graph.nodes) {
    Node one{.op = node.op, .inputs = node.inputs, .outputs = node.outputs, .path = node.path, .span = node.span};
    one.phase = node.phase;
    one.forward = node.forward;
    one.cost = cost_of(graph, node);
    kept.nodes.push_back(std::move(one));
  }
  kept.params = graph.params;
  for (Parameter& param : kept.params) {
    param.init = {};
  }
  kept.heads = graph.heads;
  kept.param_grads = graph.param_grads;
  return kept;
}

TrainSpec keep_settings(const TrainSpec& train) {
  TrainSpec kept;
  kept.batch = train.batch;
  kept.growth = train.growth;
  kept.duration = train.duration;
  kept.active_classes.rebuild = train.active_classes.rebuild;
  kept.checkpoint_every = train.checkpoint_every;
  kept.checkpoint_async = train.checkpoint_async;
  kept.init_checkpoint = train.init_checkpoint;
  kept.compress = train.compress;
  for (const MetricSpec& metric : train.measured()) {
    kept.metrics.push_back({.name = {}, .value = {}, .source = metric.source});
  }
  return kept;
}

std::vector<SourceLine> lines_of(const Graph& graph, const Program& program, const SourceMap& sources) {
  const auto less = [](const Span& a, const Span& b) { return order_of(a) < order_of(b); };
  std::set<Span, decltype(less)> spans(less);
  const auto add = [&](const Span& span) {
    if (span.valid() && span.file < sources.size()) {
      spans.insert(span);
    }
  };
  for (const Node& node : graph.nodes) {
    add(node.span);
  }
  for (const Instruction& instruction : program.instructions) {
    add(instruction.span);
  }
  std::vector<SourceLine> lines;
  for (const Span& span : spans) {
    const int line = sources.position(span.file, span.begin).line;
    std::string text(sources.line(span.file, line));
    const size_t first = std::min(text.find_first_not_of(" \t\r"), text.size());
    text = text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
    lines.push_back({span, sources.path(span.file), line, text.substr(0, kLongestLine)});
  }
  return lines;
}

}  // namespace

const SourceLine* KeptModel::line_of(const Span& span) const {
  const auto at =
      std::ranges::lower_bound(lines, order_of(span), {}, [](const SourceLine& line) { return order_of(line.span); });
  return at != lines.end() && at->span == span ? &*at : nullptr;
}

KeptModel keep_model(const Module& training, const KernelFacts& facts, const Program& program,
                     const SourceMap& sources) {
  KeptModel kept;
  kept.module.model = training.model;
  kept.module.graph = keep_graph(training.graph);
  kept.module.train = keep_settings(training.train);
  for (const SourceSpec& source : training.data.sources) {
    kept.module.data.sources.push_back(
        {.name = source.name, .reader = {.name = source.reader.name, .args = {}, .span = {}}, .held = held_by(source)});
  }
  kept.module.data.bindings.resize(training.data.bindings.empty() ? 0 : 1);
  kept.module.cluster.storage = training.cluster.storage;
  kept.module.schedule.memory_limit = training.schedule.memory_limit;
  kept.module.has_data = training.has_data;
  kept.module.has_train = training.has_train;
  kept.rates = {facts.flops_per_second_f32, facts.flops_per_second_bf16, facts.bytes_per_second};
  kept.lines = lines_of(training.graph, program, sources);
  return kept;
}

}  // namespace xrun::planner
