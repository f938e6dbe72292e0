// Plans for the tests of pages, traces and tables of instructions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/planner.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner::testing {

struct PlannedPage {
  Module training;
  Plan plan;
};

// Plans a model with a head on `devices` devices of `nodes` nodes; the plan keeps its model, with a text in which each
// operator has a line.
inline PlannedPage plan_page(int devices, int nodes, int stages, const std::string& name = "small",
                             PipelineKind pipeline = PipelineKind::kGpipe) {
  Module module = make_module({.layers = 4, .classes = 3000, .head = true, .batch = 64 * int64_t{devices}});
  module.model = name;
  module.schedule.stages = Hint<int64_t>{stages, {}};
  if (stages > 1) {
    module.schedule.micro_batches = Hint<int64_t>{4, {}};
    if (pipeline != PipelineKind::kGpipe) {
      module.schedule.pipeline = Hint<PipelineHint>{{pipeline}, {}};
    }
  }
  PlannedPage page{prepare_training(module), {}};
  const Module inference = prepare_inference(module);
  Machine machine{.name = "cluster", .cores = devices, .devices = devices, .threads = devices, .memory = 64 * kGiB};
  if (nodes > 1) {
    machine.ranks = nodes;
    machine.network = {"ethernet", 1e9, 1e-5};
    for (int device = 0; device < devices; ++device) {
      machine.device_nodes.push_back(device * nodes / devices);
    }
  }
  const KernelFacts facts = make_facts(page.training);
  page.plan = make_plan(page.training, inference, facts, make_facts(inference), machine, {}).value();
  SourceMap sources;
  std::string text;
  for (int line = 0; line < 99; ++line) {
    text += "  line " + std::string(line < 10 ? "0" : "") + std::to_string(line) + "\n";
  }
  sources.add("small.xgraph", text);
  page.plan.kept = keep_model(page.training, facts, page.plan.training, sources);
  return page;
}

}  // namespace xrun::planner::testing
