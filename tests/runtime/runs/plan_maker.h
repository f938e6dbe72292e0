// Makes programs for tests of the runtime from complete plan choices, without a search.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "graph/passes/pipeline.h"
#include "ops/facts/facts.h"
#include "ops/facts/gpu_facts.h"
#include "ops/op.h"
#include "planner/cost/cost_model.h"
#include "planner/emit/emit.h"
#include "planner/program/machine.h"
#include "planner/schedules/schedule.h"
#include "planner/search/chain.h"
#include "planner/search/heads.h"
#include "planner/search/search.h"
#include "planner/search/space.h"

namespace xrun::runtime::testing {

struct PlanChoice {
  int devices = 1;
  int threads = 1;  // total over all devices
  int stages = 1;
  int replicas = 1;
  int micro_batches = 1;  // number of micro-batches in the global batch
  PipelineKind pipeline = PipelineKind::kGpipe;
  bool recompute = false;
  int shards = 1;
  bool overlap = true;
  bool deterministic = true;
  int kept_blocks = 0;         // class blocks whose logits each shard keeps; limited by its number of blocks
  int nodes = 1;               // nodes, each with a contiguous range of the devices
  bool early_buckets = false;  // Decision::early_buckets, with a bucket for each gradient
  bool own_memory = false;     // devices with memory of their own, to which inputs are copied, like GPUs
  int warm_up = 0;             // PipelineHint::warm_up
  bool in_phases = false;      // one head pass a step, with pipelines other than GPipe and 1F1B

  // Returns the number of stages on each device of a replica.
  int chunks() const { return PipelineHint{.kind = pipeline}.stages_of_device(); }
  planner::Setting setting() const {
    return {.stages = stages,
            .replicas = replicas,
            .micro_batches = micro_batches,
            .pipeline = pipeline,
            .chunks = chunks(),
            .warm_up = warm_up};
  }

  std::string text() const {
    return "devices " + std::to_string(devices) + ", threads " + std::to_string(threads) + ", stages " +
           std::to_string(stages) + ", replicas " + std::to_string(replicas) + ", micro_batches " +
           std::to_string(micro_batches) + ", " + std::string(name_of(pipeline)) +
           (warm_up > 0 ? ", warm-up " + std::to_string(warm_up) : "") + (in_phases ? ", in phases" : "") +
           (recompute ? ", recompute" : "") + ", shards " + std::to_string(shards) + (overlap ? "" : ", no overlap") +
           ", kept_blocks " + std::to_string(kept_blocks) + (nodes > 1 ? ", nodes " + std::to_string(nodes) : "") +
           (early_buckets ? ", early buckets" : "") + (own_memory ? ", memory of their own" : "");
  }
};

// A prepared module with everything that is needed to make programs from it.
struct Prepared {
  Module module;
  Module inference;  // the module without a backward pass: other ids, equal names
  KernelFacts training_facts;
  KernelFacts inference_facts;
  ops::Isa isa = ops::Isa::kAvx2;
  const GpuDef* gpu = nullptr;  // the kind of GPU for which programs are made; null: CPUs
};

inline Prepared prepare_for(const Module& module, ops::Isa isa = ops::detect_isa()) {
  Prepared prepared;
  prepared.isa = isa;
  for (const bool training : {true, false}) {
    auto ready = prepare(module, ops::registry(), {.training = training});
    XRUN_CHECK(ready.ok(), ready.ok() ? "" : ready.error().message);
    auto facts = ops::collect_facts(ready->graph, ready->train.norm_rows, training, isa, true);
    XRUN_CHECK(facts.ok(), facts.ok() ? "" : facts.error().message);
    (training ? prepared.module : prepared.inference) = std::move(ready).value();
    (training ? prepared.training_facts : prepared.inference_facts) = std::move(facts).value();
  }
  return prepared;
}

// Likewise for programs of GPUs.
inline Prepared prepare_for_gpus(const Module& module, const char* gpu = "h100") {
  Prepared prepared;
  prepared.gpu = find_gpu(gpu);
  XRUN_CHECK(prepared.gpu != nullptr, "no GPU has this name");
  for (const bool training : {true, false}) {
    auto ready = prepare(module, ops::registry(), {.training = training});
    XRUN_CHECK(ready.ok(), ready.ok() ? "" : ready.error().message);
    (training ? prepared.training_facts : prepared.inference_facts) =
        ops::gpu_facts(ready->graph, ready->train.norm_rows, training, true, *prepared.gpu);
    (training ? prepared.module : prepared.inference) = std::move(ready).value();
  }
  return prepared;
}

// Returns whether the choice is legal for the module. Tests of all combinations leave out illegal choices.
inline bool is_legal(const Module& module, const PlanChoice& choice) {
  const int64_t blocks = module.train.batch / module.train.norm_rows;
  const int partials = static_cast<int>(std::min<int64_t>(4, blocks));
  return choice.stages % choice.chunks() == 0 && choice.stages / choice.chunks() * choice.replicas <= choice.devices &&
         planner::permits(choice.pipeline, choice.stages / choice.chunks(), choice.chunks(),
                          choice.micro_batches / choice.replicas) &&
         blocks % choice.micro_batches == 0 && choice.micro_batches % choice.replicas == 0 &&
         (!choice.deterministic || partials % choice.replicas == 0) &&
         (choice.pipeline == PipelineKind::kGpipe || choice.micro_batches > 1);
}

inline Result<planner::Program> make_program(const Prepared& prepared, const PlanChoice& choice, bool training = true) {
  Module module = training ? prepared.module : prepared.inference;
  const KernelFacts& facts = training ? prepared.training_facts : prepared.inference_facts;
  for (const Head& head : module.graph.heads) {
    module.schedule.shards.push_back({.head = head.name, .shards = choice.shards});
  }
  const bool own_memory = choice.own_memory || prepared.gpu != nullptr;
  const int threads = own_memory ? choice.devices : choice.threads;  // a GPU counts as one worker
  planner::Machine machine = planner::make_machine({}, {.devices = choice.devices, .threads = threads}, threads, kGiB);
  if (own_memory) {
    const GpuDef& gpu = prepared.gpu != nullptr ? *prepared.gpu : *find_gpu("h100");
    machine.gpu = gpu.name;
    machine.device_memory = gpu.memory;
    machine.device_link = gpu.link_rate;
  }
  for (int device = 0; choice.nodes > 1 && device < choice.devices; ++device) {
    machine.device_nodes.push_back(device * choice.nodes / choice.devices);
  }
  const planner::CostModel cost(facts, machine);
  const planner::Chain chain = planner::make_chain(module, cost);
  planner::Decision decision;
  decision.training = training;
  decision.deterministic = choice.deterministic;
  decision.overlap = choice.overlap;
  decision.pipeline = choice.pipeline;
  decision.warm_up = choice.warm_up;
  decision.batch = module.train.batch;
  decision.norm_rows = module.train.norm_rows;
  decision.micro_batches = choice.micro_batches;
  decision.replicas = choice.replicas;
  if (choice.early_buckets) {
    decision.early_buckets = true;
    module.schedule.bucket = 1;
  }
  decision.partials =
      planner::partials_of(choice.setting(), choice.deterministic, decision.batch / decision.norm_rows, machine);
  const planner::Mesh mesh{choice.devices, choice.stages, choice.replicas, choice.pipeline, choice.chunks()};
  for (int s = 0; s < choice.stages; ++s) {
    planner::Stage stage;
    stage.index = s;
    const int begin = chain.last_cut * s / choice.stages;
    const int end = s + 1 == choice.stages ? chain.size() : chain.last_cut * (s + 1) / choice.stages;
    for (int r = 0; r < choice.replicas; ++r) {
      stage.devices.push_back(mesh.device_of(s, r));
    }
    for (int i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      stage.forward.push_back(chain.nodes[at]);
      if (training) {
        stage.backward.insert(stage.backward.end(), chain.backward[at].begin(), chain.backward[at].end());
        if (choice.recompute) {
          stage.recomputed.push_back(chain.nodes[at]);
        }
      }
    }
    std::sort(stage.backward.begin(), stage.backward.end());
    stage.forward_time = 1;
    stage.backward_time = 2;
    decision.stages.push_back(std::move(stage));
  }
  const int per_replica = choice.micro_batches / choice.replicas;
  const bool heads = !module.graph.heads.empty();
  const bool one_pass = choice.pipeline == PipelineKind::kGpipe || choice.in_phases;
  const int64_t rows = one_pass ? decision.batch : decision.batch / choice.micro_batches * choice.replicas;
  XRUN_ASSIGN(decision.heads, planner::plan_heads(module, chain, machine, rows));
  for (planner::HeadPlan& head : decision.heads) {
    for (planner::HeadShard& shard : head.shards) {
      const BlockRange blocks = head.blocks().of_rows({shard.row_begin, shard.row_end});
      shard.kept_blocks = training && head.loss.valid() ? std::min<int64_t>(choice.kept_blocks, blocks.size()) : 0;
    }
  }
  planner::ScheduleRequest request = planner::schedule_request(choice.setting());
  request.forward.assign(static_cast<size_t>(choice.stages), 1);
  request.backward.assign(static_cast<size_t>(choice.stages), 2);
  request.input_gradient.assign(static_cast<size_t>(choice.stages), 1);
  request.weight_gradient.assign(static_cast<size_t>(choice.stages), 1);
  request.head_passes = !heads ? 0 : one_pass ? 1 : per_replica;
  request.head = 1;
  decision.schedule =
      training ? planner::make_schedule(choice.pipeline, request) : planner::schedule_inference(request);
  XRUN_TRY(planner::check_schedule(decision.schedule));
  return planner::emit({.module = module, .facts = facts, .machine = machine, .decision = decision});
}

}  // namespace xrun::runtime::testing
