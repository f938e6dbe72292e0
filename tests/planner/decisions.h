// Makes planner decisions for tests, by hand or randomly from a seed, so that emission is tested without the search.
#pragma once

#include <algorithm>
#include <random>
#include <set>

#include "graph/layouts/head_shape.h"
#include "planner/emit/emit.h"
#include "planner/program/decision.h"
#include "planner/search/heads.h"
#include "planner/search/search.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner::testing {

struct Layout {
  int stages = 1;
  int replicas = 1;
  int micro_batches = 1;
  int shards = 1;
  int devices = 1;
  PipelineKind pipeline = PipelineKind::kGpipe;
  int chunks = 1;   // stages on each device of a replica
  int warm_up = 0;  // PipelineHint::warm_up
  bool deterministic = false;
  bool overlap = true;
  uint64_t recompute_seed = 0;  // 0: nothing is recomputed
  bool head_rows_all = true;    // one pass of the head over the batch (h = batch); not under 1F1B
  int kept_blocks = 0;          // class blocks whose logits each shard keeps; limited by its number of blocks
  int nodes = 1;                // nodes, each with a contiguous range of the devices
  bool early_buckets = false;   // Decision::early_buckets
  bool gpus = false;            // the devices are GPUs
};

inline std::string to_text(const Layout& layout) {
  return "stages " + std::to_string(layout.stages) + " replicas " + std::to_string(layout.replicas) +
         " micro-batches " + std::to_string(layout.micro_batches) + " shards " + std::to_string(layout.shards) +
         " devices " + std::to_string(layout.devices) + " " + std::string(name_of(layout.pipeline)) +
         (layout.chunks > 1 ? " chunks " + std::to_string(layout.chunks) : "") +
         (layout.warm_up > 0 ? " warm-up " + std::to_string(layout.warm_up) : "") +
         (layout.deterministic ? " deterministic" : "") + (layout.overlap ? "" : " without overlap") +
         (layout.recompute_seed != 0 ? " recompute" : "") + (layout.kept_blocks > 0 ? " kept" : "") +
         (layout.nodes > 1 ? " nodes " + std::to_string(layout.nodes) : "") +
         (layout.early_buckets ? " early buckets" : "") + (layout.gpus ? " gpus" : "");
}

inline Machine make_test_machine(int devices, int threads = 0) {
  Machine machine;
  machine.cores = std::max(devices, threads);
  machine.devices = devices;
  machine.threads = std::max(devices, threads);
  machine.memory = 64 * kGiB;
  return machine;
}

inline std::vector<HeadPlan> head_plans(Module module, const Layout& layout, int64_t rows) {
  for (const Head& head : module.graph.heads) {
    module.schedule.shards.push_back({.head = head.name, .shards = layout.shards});
  }
  const Machine machine = make_test_machine(layout.devices);
  const KernelFacts facts;
  std::vector<HeadPlan> heads =
      plan_heads(module, make_chain(module, CostModel(facts, machine)), machine, rows).value();
  for (HeadPlan& head : heads) {
    for (HeadShard& shard : head.shards) {
      const BlockRange blocks = head.blocks().of_rows({shard.row_begin, shard.row_end});
      shard.kept_blocks = head.feature_grad.valid() ? std::min<int64_t>(layout.kept_blocks, blocks.size()) : 0;
    }
  }
  return heads;
}

inline Setting setting_of(const Layout& layout) {
  return {.stages = layout.stages,
          .replicas = layout.replicas,
          .micro_batches = layout.micro_batches,
          .pipeline = layout.pipeline,
          .chunks = layout.chunks,
          .warm_up = layout.warm_up};
}

// Makes a decision whose stages have nearly equal numbers of forward nodes. Devices are assigned in order, one replica
// after another.
inline Decision make_decision(const Module& module, const Layout& layout, bool training = true) {
  const Graph& graph = module.graph;
  Decision decision;
  decision.training = training;
  decision.deterministic = layout.deterministic;
  decision.overlap = layout.overlap;
  decision.pipeline = layout.pipeline;
  decision.warm_up = layout.warm_up;
  decision.batch = module.train.batch;
  decision.norm_rows = module.train.norm_rows;
  decision.micro_batches = layout.micro_batches;
  decision.replicas = layout.replicas;
  decision.early_buckets = layout.early_buckets;
  const int64_t blocks = decision.batch / decision.norm_rows;
  decision.partials = layout.deterministic ? static_cast<int>(std::min<int64_t>(4, blocks)) : layout.replicas;

  std::set<ValueId> sharded;
  std::vector<NodeId> forward;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    bool gang = node.op->head != nullptr;
    for (const ValueId input : node.inputs) {
      gang = gang || sharded.contains(input);
    }
    if (gang) {
      sharded.insert(node.outputs.begin(), node.outputs.end());
    } else if (node.phase == Phase::kForward) {
      forward.push_back(NodeId(i));
    }
  }
  std::vector<int> stage_of(graph.nodes.size(), -1);
  std::mt19937_64 random(layout.recompute_seed);
  for (int s = 0; s < layout.stages; ++s) {
    Stage stage;
    stage.index = s;
    const size_t n = forward.size();
    const auto k = static_cast<size_t>(layout.stages);
    for (size_t i = n * static_cast<size_t>(s) / k; i < n * (static_cast<size_t>(s) + 1) / k; ++i) {
      stage.forward.push_back(forward[i]);
      stage_of[static_cast<size_t>(forward[i].index)] = s;
      if (training && layout.recompute_seed != 0 && random() % 2 == 0) {
        stage.recomputed.push_back(forward[i]);
      }
    }
    const Mesh mesh{layout.devices, layout.stages, layout.replicas, layout.pipeline, layout.chunks};
    for (int r = 0; r < layout.replicas; ++r) {
      stage.devices.push_back(mesh.device_of(s, r));
    }
    stage.forward_time = 1e-3;
    stage.backward_time = 2e-3;
    decision.stages.push_back(std::move(stage));
  }
  for (size_t i = 0; training && i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.phase == Phase::kBackward) {
      const int s = stage_of[static_cast<size_t>(node.forward.index)];
      decision.stages[static_cast<size_t>(s)].backward.push_back(NodeId(i));
    }
  }
  const int per_replica = layout.micro_batches / layout.replicas;
  const bool one_pass = layout.head_rows_all && layout.pipeline != PipelineKind::kOneFOneB;
  decision.heads =
      head_plans(module, layout, one_pass ? decision.batch : decision.batch / layout.micro_batches * layout.replicas);
  ScheduleRequest request = schedule_request(setting_of(layout));
  request.forward.assign(static_cast<size_t>(layout.stages), 1e-3);
  request.backward.assign(static_cast<size_t>(layout.stages), 2e-3);
  request.input_gradient.assign(static_cast<size_t>(layout.stages), 1e-3);
  request.weight_gradient.assign(static_cast<size_t>(layout.stages), 1e-3);
  request.head_passes = decision.heads.empty() ? 0 : one_pass ? 1 : per_replica;
  request.head = 1e-3;
  decision.schedule = training ? make_schedule(layout.pipeline, request) : schedule_inference(request);
  return decision;
}

inline Result<Program> emit_layout(const Module& module, const Layout& layout, bool training = true, int threads = 0) {
  const KernelFacts facts = make_facts(module);
  Machine machine = make_test_machine(layout.devices, threads);
  for (int device = 0; layout.nodes > 1 && device < layout.devices; ++device) {
    machine.device_nodes.push_back(device * layout.nodes / layout.devices);
  }
  if (layout.gpus) {
    machine.gpu = "h100";
    machine.device_memory = 80'000'000'000;
  }
  const Decision decision = make_decision(module, layout, training);
  return emit({module, facts, machine, decision});
}

// Draws a legal layout for a batch of `blocks` row blocks.
inline Layout random_layout(std::mt19937_64& random, int64_t blocks) {
  const auto pick = [&](const std::vector<int>& from) { return from[random() % from.size()]; };
  Layout layout;
  layout.deterministic = random() % 2 == 0;
  layout.overlap = random() % 4 != 0;
  layout.pipeline = static_cast<PipelineKind>(random() % kPipelineKinds);
  std::vector<int> counts;
  for (int m = 1; m <= blocks; ++m) {
    if (blocks % m == 0) {
      counts.push_back(m);
    }
  }
  layout.micro_batches = pick(counts);
  std::vector<int> replicas;
  const int partials = static_cast<int>(std::min<int64_t>(4, blocks));
  for (int r = 1; r <= std::min(6, layout.micro_batches); ++r) {
    if (layout.micro_batches % r == 0 && (!layout.deterministic || partials % r == 0)) {
      replicas.push_back(r);
    }
  }
  layout.replicas = pick(replicas);
  layout.stages = pick({1, 1, 2, 3, 4});
  layout.warm_up = layout.pipeline == PipelineKind::kOneFOneB ? pick({0, 0, 1, 3}) : 0;
  if (layout.pipeline == PipelineKind::kInterleaved || layout.pipeline == PipelineKind::kZbV) {
    layout.chunks = layout.pipeline == PipelineKind::kZbV ? 2 : pick({2, 3});
    const int ranks = layout.chunks == 2 ? pick({1, 2}) : 1;
    layout.stages = ranks * layout.chunks;
    if (!permits(layout.pipeline, ranks, layout.chunks, layout.micro_batches / layout.replicas)) {
      layout.pipeline = PipelineKind::kZbV;
    }
  }
  layout.devices = layout.stages / layout.chunks * layout.replicas + pick({0, 0, 1});
  layout.shards = pick({1, 2, 3, layout.devices, 2 * layout.devices});
  layout.recompute_seed = random() % 2 == 0 ? 0 : random() | 1;
  layout.nodes = pick({1, 2, 3});
  layout.early_buckets = random() % 2 == 0;
  return layout;
}

inline ModelOptions random_model(std::mt19937_64& random) {
  ModelOptions options;
  options.layers = 1 + static_cast<int>(random() % 4);
  options.head = random() % 3 != 0;
  options.head_bias = random() % 2 == 0;
  options.head_cosine = !options.head_bias && random() % 2 == 0;
  options.norm = random() % 2 == 0;
  options.skips = random() % 2 == 0;
  options.random = random() % 2 == 0;
  options.precision = random() % 2 == 0 ? PrecisionMode::kF32 : PrecisionMode::kMixedBf16;
  options.norm_rows = 8;
  options.batch = 8 * static_cast<int64_t>(std::vector<int>{1, 2, 3, 4, 6, 8, 12}[random() % 7]);
  options.classes = 10 + static_cast<int64_t>(random() % 1000);
  return options;
}

}  // namespace xrun::planner::testing
