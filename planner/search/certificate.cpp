// A step of a program takes at least the bound of planner/search/bound.h, and at least the work of all workers divided
// by the number of cores. Both count the instructions that every program of a setting has, with the durations that
// planner/cost/durations.cpp predicts or with less; the loader delays the result as it delays a program. Terms that
// some programs lack or hide are left out: transfers, exchanges of heads, sums over replicas, norms of gradients, and
// updates of weights that are tied or compressed. Tests: tests/planner/search/certificate_test.cpp
#include "planner/search/certificate.h"

#include <algorithm>
#include <map>

#include "graph/layouts/compression.h"
#include "graph/layouts/row_updates.h"
#include "planner/program/buffer_sizes.h"
#include "planner/search/choose.h"
#include "planner/search/heads.h"
#include "planner/search/mesh.h"

namespace xrun::planner {
namespace {

constexpr double kRounding = 1 - 1e-9;  // sums in another order differ by less

// Returns the weights whose updates are counted, those that one layer alone reads, and the largest part of each that an
// update reads and writes.
std::map<ParamId, double> counted_weights(const Module& module, const Chain& chain) {
  const Graph& graph = module.graph;
  std::map<ParamId, int> readers;
  for (const NodeId node : chain.nodes) {
    for (const ValueId value : graph.node(node).inputs) {
      if (const ParamId param = graph.value(value).param; param.valid()) {
        ++readers[param];
      }
    }
  }
  const std::vector<ParamId> rows = params_updated_by_row(graph);
  std::map<ParamId, double> counted;
  for (const auto& [param, count] : readers) {
    if (count == 1 && !graph.param_grads.empty() && graph.param_grads[param].valid() &&
        !is_compressed(module.train, graph, param)) {
      const bool by_row = std::ranges::find(rows, param) != rows.end();
      counted[param] = by_row ? largest_updated_share(graph, param, module.train.batch) : 1.0;
    }
  }
  for (size_t p = 0; p < graph.params.size(); ++p) {
    if (graph.params[p].tied.valid()) {
      counted.erase(ParamId(p));
      counted.erase(graph.params[p].tied);
    }
  }
  return counted;
}

// Returns the position of the node that makes a value in a phase; -1 if the node is not of the chain.
int maker_of(const Graph& graph, const Chain& chain, ValueId value, Phase phase) {
  const NodeId producer = graph.value(value).producer;
  return producer.valid() && graph.node(producer).phase == phase ? chain.position[static_cast<size_t>(producer.index)]
                                                                 : -1;
}

// Returns the times of row blocks, on GPUs without the launches, which do not grow with the number of row blocks.
std::vector<Seconds> bound_times(const std::vector<Seconds>& times, const Chain& chain, const CostModel& cost,
                                 bool backward) {
  std::vector<Seconds> made = times;
  for (size_t i = 0; i < made.size() && cost.machine().has_gpus(); ++i) {
    const double calls = backward ? static_cast<double>(chain.backward[i].size()) : 1.0;
    made[i] = std::max(0.0, made[i] - calls * cost.facts().call);
  }
  return made;
}

BoundChain bound_chain(const Module& module, const Chain& chain, const CostModel& cost) {
  const Graph& graph = module.graph;
  BoundChain made{.forward = {.times = bound_times(chain.forward_time, chain, cost, false), .pairs = {}},
                  .backward = {.times = bound_times(chain.backward_time, chain, cost, true), .pairs = {}},
                  .weight_gradients = chain.weight_gradient_time,
                  .joined = chain.joined,
                  .last_cut = chain.last_cut};
  const std::map<ParamId, double> counted = counted_weights(module, chain);
  const auto states = static_cast<Bytes>(graph.param_grads.empty() ? 0 : optimizer_states(module).size());
  for (int at = 0; at < chain.size(); ++at) {
    const auto p = static_cast<size_t>(at);
    Bytes weights = 0;
    Bytes updated = 0;
    for (const ValueId value : graph.node(chain.nodes[p]).inputs) {
      if (const int made_at = maker_of(graph, chain, value, Phase::kForward); made_at >= 0 && made_at < at) {
        made.forward.pairs.emplace_back(made_at, at);
      }
      const ParamId param = graph.value(value).param;
      if (const auto share = param.valid() ? counted.find(param) : counted.end(); share != counted.end()) {
        const Bytes bytes = graph.value(value).type.bytes(1, 1);
        weights += bytes;
        updated += static_cast<Bytes>(share->second * static_cast<double>(bytes));
      }
    }
    for (const NodeId node : chain.backward[p]) {
      for (const ValueId value : graph.node(node).inputs) {
        if (const int made_at = maker_of(graph, chain, value, Phase::kBackward); made_at > at) {
          made.backward.pairs.emplace_back(at, made_at);
        }
      }
    }
    made.returns.push_back(!chain.backward[p].empty());
    made.gradients.push_back(weights);
    made.states.push_back(updated * (1 + states));
  }
  return made;
}

// Returns the time of all head instructions on the device that they keep busy longest.
Seconds head_time(const Program& program) {
  std::map<int, Seconds> sums;
  Seconds most = 0;
  for (const Instruction& one : program.instructions) {
    if (is_of_head(one.kind)) {
      most = std::max(most, sums[one.device] += one.predicted);
    }
  }
  return most;
}

// The cores are full if the step and its data keep them busy for this part of the step. Data counts from `kLoading` of
// the step; without it, the passes are the better answer.
constexpr double kFull = 0.9;
constexpr double kLoading = 0.05;

// Sets what limits the step of a program: memory if layers run again although no hint asks for it; else the cores if
// there are too few for all threads, or if they are busy with passes and the loader, and the loader if its work is the
// larger part; else the longest passes of the stage whose passes, together with those of a micro-batch on the stages
// before it, take longest. The loader limits a step of GPUs if they wait for its samples.
void set_limit(const SearchInput& input, const Fitted& best, Certificate& made) {
  const Program& program = best.training;
  for (const Stage& stage : program.stages) {
    made.count += static_cast<int>(stage.recomputed.size());
  }
  const double count = program.micro_batches / program.replicas;
  const Seconds heads = head_time(program);
  Seconds before = 0;
  Seconds longest = -1;
  for (const Stage& stage : program.stages) {
    const Seconds one = stage.forward_time + stage.backward_time;
    if (before + count * one > longest) {
      longest = before + count * one;
      made.stage = stage.index;
      const bool is_forward = stage.forward_time > stage.backward_time;
      made.limit = is_forward ? Certificate::Limit::kForward : Certificate::Limit::kBackward;
      made.busy = count * std::max(stage.forward_time, stage.backward_time);
    }
    before += one;
  }
  if (heads > made.busy) {
    made.limit = Certificate::Limit::kHead;
    made.busy = heads;
  }
  const Machine& machine = input.machine;
  const Seconds busy = work_of(program) / std::min(machine.parallel_workers(), machine.threads);
  const Seconds loading = input.cost.loader_alone(input.module);
  const Seconds step = best.predicted.step;
  const Seconds cores = machine.has_gpus() ? loading : busy + loading;  // work of GPUs needs no cores
  const bool crowded = machine.threads > machine.parallel_workers() && busy > 0.98 * step;
  const bool loaded = !machine.has_gpus() && loading > kLoading * step && cores > kFull * step;
  if (crowded || loaded || cores >= step * kRounding) {
    const bool is_passes = program.stages.size() == 1 && machine.devices == 1 && loading < 0.01 * busy;
    const bool is_loader = machine.has_gpus() || loading > busy;
    made.limit = is_passes ? made.limit : is_loader ? Certificate::Limit::kLoader : Certificate::Limit::kCores;
    made.busy = is_passes ? made.busy : is_loader ? loading : cores;
  }
  if (made.count > 0 && !input.hints.hinted) {
    made.limit = Certificate::Limit::kMemory;
  }
}

void add_kind(const Setting& setting, Certificate& made) {
  const auto add = [](std::vector<int>& list, int number) {
    const auto at = std::ranges::lower_bound(list, number);
    if (at == list.end() || *at != number) {
      list.insert(at, number);
    }
  };
  add(made.stages, setting.stages);
  add(made.replicas, setting.replicas);
  add(made.micro_batches, setting.micro_batches);
  made.pipelines[static_cast<size_t>(setting.pipeline)] = true;
}

}  // namespace

Certifier::Certifier(const SearchInput& input)
    : input_(input), bound_(bound_chain(input.module, input.chain, input.cost)) {}

Result<const Certifier::Heads*> Certifier::heads(const Setting& setting) {
  const auto [at, added] = heads_.try_emplace({rows_of_head_pass(input_, setting), setting.head_devices});
  Heads& made = at->second;
  if (!added) {
    return &made;
  }
  const auto devices = static_cast<size_t>(input_.machine.devices);
  made.pass.assign(devices, 0);
  made.update.assign(devices, 0);
  XRUN_ASSIGN(made.plans, heads_of(input_, setting));
  for (const HeadPlan& head : made.plans) {
    if (!head.loss.valid()) {
      continue;
    }
    const LeastHeadTimes times = least_head_times(head, input_.cost, training_heads(input_.module));
    for (size_t d = 0; d < devices; ++d) {
      const double threads = input_.machine.threads_of(static_cast<int>(d));
      made.pass[d] += times.pass[d];
      made.update[d] += times.update[d];
      made.work += times.pass[d] * threads;
      made.update_work += times.update[d] * threads;
    }
  }
  return &made;
}

BoundSetting Certifier::bound_setting(const Setting& setting, const Heads& heads) const {
  const PassFactors factors = pass_factors(input_, setting);
  const double rate = input_.cost.facts().bytes_per_second * input_.machine.threads_of(0);
  BoundSetting made{.stages = setting.stages,
                    .ranks = setting.ranks(),
                    .micro_batches = setting.micro_batches / setting.replicas,
                    .pipeline = setting.pipeline,
                    .warm_up = setting.warm_up,
                    .forward = factors.forward,
                    .backward = factors.backward,
                    .hand_over = input_.cost.hand_over(),
                    .seconds_per_state_byte = 1 / rate};
  // An update reads all partials; if there are several, they are summed before.
  made.seconds_per_gradient_byte = (factors.partials > 1 ? 2 : 1) * factors.partials / rate;
  made.seconds_per_zeroed_byte = factors.partials / rate;
  made.head_passes = heads.plans.empty() ? 0 : static_cast<int>(input_.module.train.batch / heads.plans[0].rows);
  return made;
}

// The first replica of each stage counts; all replicas have equal passes of stages.
void Certifier::add_heads(const Setting& setting, const Heads& heads, BoundSetting& times) const {
  const Mesh mesh = mesh_of(input_, setting);
  for (int s = 0; s < setting.stages; ++s) {
    const auto device = static_cast<size_t>(mesh.device_of(s, 0));
    times.head.push_back(heads.pass[device]);
    times.head_update.push_back(heads.update[device]);
  }
}

Seconds Certifier::work(const Setting& setting, const BoundSetting& times, const Heads& heads) const {
  const double threads = input_.machine.threads_of(input_.machine.devices - 1);  // the fewest
  return bound_.all_passes(times) * setting.micro_batches * threads + heads.work * times.head_passes +
         heads.update_work;
}

Result<std::vector<Setting>> Certifier::in_order(std::vector<Setting> settings) {
  std::vector<std::pair<Seconds, Setting>> timed;
  for (const Setting& setting : settings) {
    XRUN_ASSIGN(const Heads* own, heads(setting));
    const BoundSetting times = bound_setting(setting, *own);
    const Seconds pipeline = bound_.all_passes(times) * (times.micro_batches + times.ranks - 1) / times.ranks +
                             times.head_passes * own->pass[0];
    timed.emplace_back(std::max(pipeline, work(setting, times, *own) / input_.machine.parallel_workers()), setting);
  }
  std::ranges::stable_sort(timed, {}, [](const auto& one) { return one.first; });
  std::ranges::transform(timed, settings.begin(), [](const auto& one) { return one.second; });
  return settings;
}

Result<Seconds> Certifier::bound(const Setting& setting, Seconds enough) {
  XRUN_ASSIGN(const Heads* own, heads(setting));
  BoundSetting times = bound_setting(setting, *own);
  const Seconds all = work(setting, times, *own);
  const auto step = [&](Seconds makespan) {
    return input_.cost.step_with_loader(input_.module, makespan, all, 0) * kRounding;
  };
  const Seconds cores = all / input_.machine.parallel_workers();
  const Seconds quick = std::max(cores, bound_.even_share(times));
  if (step(quick) >= enough) {
    return enough;
  }
  add_heads(setting, *own, times);
  const Seconds makespan = bound_.least(times, enough);  // a step is no shorter than its makespan
  return std::min(enough, step(std::max(quick, makespan)));
}

Result<Certificate> Certifier::certify(const std::vector<Setting>& settings, const MemoryLimits& limits,
                                       const Fitted& best) {
  Certificate made;
  XRUN_ASSIGN(made.bound, bound(best.candidate.setting));
  XRUN_ASSIGN(const std::vector<Setting> ordered, in_order(settings));
  for (const Setting& setting : ordered) {
    add_kind(setting, made);
    XRUN_ASSIGN(const Seconds least, bound(setting, made.bound));
    if (least < made.bound) {
      XRUN_ASSIGN(const Heads* own, heads(setting));
      Candidate candidate{.setting = setting};
      candidate.decision.heads = own->plans;
      const int partials = pass_factors(input_, setting).partials * setting.replicas;
      made.bound = memory_floor(input_, candidate, partials).is_within(limits) ? least : made.bound;
    }
  }
  set_limit(input_, best, made);
  return made;
}

}  // namespace xrun::planner
