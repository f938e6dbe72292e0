// Tests: tests/planner/report/page/html_page_test.cpp
#include "planner/report/page/page_json.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/cost.h"
#include "planner/report/certificate.h"
#include "planner/report/explain.h"
#include "planner/report/json.h"
#include "planner/report/layers.h"
#include "planner/report/page/alike_devices.h"
#include "planner/report/page/instructions_json.h"
#include "planner/report/page/schedule_json.h"
#include "planner/report/page/what_if.h"
#include "planner/report/summary.h"
#include "planner/search/fit.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBuffers = 5;  // listed buffers of a part

// Returns the index in report.ops of each forward node of the stages.
std::map<NodeId, int> places_of(const Program& program) {
  std::map<NodeId, int> places;
  for (const Stage& stage : program.stages) {
    for (const NodeId id : stage.forward) {
      const auto next = static_cast<int>(places.size());
      places.emplace(id, next);
    }
  }
  return places;
}

// Returns for each operator the operators whose results it reads.
Json inputs_json(const Program& program, const Graph& graph, const std::map<NodeId, int>& places) {
  std::map<ValueId, int> producers;
  for (const auto& [id, place] : places) {
    for (const ValueId output : graph.node(id).outputs) {
      producers.emplace(output, place);
    }
  }
  Json list = Json::array();
  for (const Stage& stage : program.stages) {
    for (const NodeId id : stage.forward) {
      Json inputs = Json::array();
      for (const ValueId input : graph.node(id).inputs) {
        if (const auto at = producers.find(input); at != producers.end()) {
          inputs.push_back(at->second);
        }
      }
      list.push_back(std::move(inputs));
    }
  }
  return list;
}

// Returns the bytes that the forward pass of a layer moves for a micro-batch, as the cost model counts them.
double bytes_of(const Program& program, const Graph& graph, const LayerSummary& layer) {
  double bytes = 0;
  const auto rows = static_cast<double>(program.micro_batch_rows());
  for (const size_t at : layer.nodes) {
    const Stage& stage = program.stages[static_cast<size_t>(layer.stage)];
    bytes += rows * static_cast<double>(cost_of(graph, graph.node(stage.forward[at])).bytes);
  }
  return bytes;
}

Json layers_of(const Plan& plan, const Module& module, const std::map<NodeId, int>& places) {
  const Program& program = plan.training;
  Json list = Json::array();
  for (const LayerSummary& layer : list_layers(plan, module)) {
    Json ops = Json::array();
    for (const size_t at : layer.nodes) {
      ops.push_back(places.at(program.stages[static_cast<size_t>(layer.stage)].forward[at]));
    }
    Json one{{"name", layer.name},
             {"stage", layer.stage},
             {"output", layer.output},
             {"parameters", layer.parameters},
             {"flops", layer.forward_flops * static_cast<double>(program.micro_batch_rows())},
             {"bytes", bytes_of(program, module.graph, layer)},
             {"saved", layer.saved},
             {"ops", std::move(ops)}};
    if (layer.times) {
      one["forward"] = layer.times->forward;
      one["backward"] = layer.times->backward;
      one["recompute"] = layer.times->recompute;
    }
    list.push_back(std::move(one));
  }
  return list;
}

Json texts_of(const Plan& plan) {
  Json rows = Json::array();
  for (const auto& [choice, reason] : certificate_rows(plan)) {
    rows.push_back({choice, reason});
  }
  return rows;
}

// Returns the names and sizes of the largest buffers of a part.
Json largest_buffers(const Program& program, const MemoryPart& part) {
  std::vector<BufferId> buffers = part.buffers;
  std::ranges::stable_sort(buffers, std::ranges::greater(), [&](BufferId id) { return program.buffer(id).bytes; });
  buffers.resize(std::min(buffers.size(), kMostBuffers));
  Json list = Json::array();
  for (const BufferId id : buffers) {
    const Buffer& buffer = program.buffer(id);
    std::string name = buffer.name.empty() ? part.name : buffer.name;
    name += buffer.micro_batch >= 0 ? ", micro-batch " + std::to_string(buffer.micro_batch) : "";
    name += buffer.head_pass >= 0 ? ", head pass " + std::to_string(buffer.head_pass) : "";
    list.push_back({std::move(name), align_up(buffer.bytes)});
  }
  return list;
}

Json backward_of(const Program& program) {
  Json list = Json::array();
  for (const Stage& stage : program.stages) {
    list.push_back(stage.backward.size());
  }
  return list;
}

// Returns the curves of the devices that are drawn, and of the host.
Json memory_of(const Plan& plan, const Module& module, const ProgramTimes& times, const std::set<int>& drawn) {
  const Bytes limit = memory_limits(module, plan.machine).device;
  Json list = Json::array();
  for (Json& curve : memory_curves_json(plan, times)) {
    const int device = curve["device"].is_string() ? kHost : curve["device"].get<int>();
    if (device != kHost && !drawn.contains(device)) {
      continue;
    }
    curve["limit"] = device == kHost ? 0 : limit;
    Json parts = Json::array();
    for (const MemoryPart& part : memory_parts(plan.training, device)) {
      parts.push_back({part.name, part.bytes, largest_buffers(plan.training, part), part.buffers.size()});
    }
    curve["parts"] = std::move(parts);
    for (Json& point : curve["points"]) {
      point[0] = whole_nanoseconds(point[0].get<double>());
    }
    list.push_back(std::move(curve));
  }
  return list;
}

Json what_ifs_of(const Plan& plan, const ProgramTimes& times) {
  Json list = Json::array();
  for (const WhatIf& one : what_ifs(plan, times)) {
    list.push_back({{"change", one.change}, {"step_seconds", one.step}, {"part", one.part}});
  }
  return list;
}

}  // namespace

Json page_json(const Plan& plan, const Module& module, const MeasuredTimes* measured) {
  const ProgramTimes times = times_of(plan);
  const std::map<NodeId, int> places = places_of(plan.training);
  const DrawnSchedule drawn = draw_schedule(plan, times, measured);
  Json rates;
  if (plan.kept && plan.kept->rates.f32 > 0) {
    const WorkerRates& of = plan.kept->rates;
    rates = {{"f32", of.f32}, {"bf16", of.bf16}, {"bytes", of.bytes}, {"threads", plan.machine.threads_of(0)}};
  }
  return {{"report", report_document(plan, module)},
          {"texts", texts_of(plan)},
          {"layers", layers_of(plan, module, places)},
          {"inputs", inputs_json(plan.training, module.graph, places)},
          {"schedule", drawn.json},
          {"memory", memory_of(plan, module, times, {drawn.devices.begin(), drawn.devices.end()})},
          {"backward", backward_of(plan.training)},
          {"rates", std::move(rates)},
          {"what_if", what_ifs_of(plan, times)},
          {"measured", drawn.measured}};
}

}  // namespace xrun::planner
