// Steps for each setting: plan the heads for the rows of a head pass; ask the partition for the best few cuts, and for
// cuts whose schedule is faster than theirs; for each of these cuts, make the schedule and simulate it with the times
// of stages, heads and transfers, and add the times of the update and of the sums over replicas; keep the cuts with the
// shortest step. Several cuts are simulated because the objective of the partition and the time of a schedule leave out
// updates and sums over replicas. At the end the settings are sorted by their times.
// Tests: tests/planner/search/choose_test.cpp, tests/planner/planner_test.cpp
#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "graph/base/check.h"
#include "planner/partition/schedule_cuts.h"
#include "planner/schedules/simulate_schedule.h"
#include "planner/search/heads.h"
#include "planner/search/remat.h"

namespace xrun::planner {
namespace {

// The number of partitions of one setting that are simulated, for the reason in docs/internals/algorithms.md,
// "Partition".
constexpr int kSimulatedCuts = 6;

PartitionRequest make_request(const SearchInput& input, const Setting& setting, Recompute recompute,
                              const StageLimits& limits) {
  const Chain& chain = input.chain;
  const PassFactors factors = pass_factors(input, setting);
  PartitionRequest request{.stages = setting.stages,
                           .micro_batches = setting.micro_batches / setting.replicas,
                           .pipeline = setting.pipeline,
                           .recompute = recompute,
                           .cap = limits.stage,
                           .total = limits.total,
                           .nodes = node_limits(input.machine, mesh_of(input, setting), limits.nodes),
                           .seconds_per_boundary_byte = 2 / input.cost.facts().bytes_per_second,
                           .last_cut = chain.last_cut,
                           .candidates = setting.stages == 1 ? 1 : kSimulatedCuts};
  for (size_t i = 0; i < chain.nodes.size(); ++i) {
    request.layers.push_back({.forward = factors.forward * chain.forward_time[i],
                              .backward = factors.backward * chain.backward_time[i],
                              .resident = chain.resident[i] + chain.gradients[i] * factors.partials,
                              .saved = chain.saved[i] * factors.blocks,
                              .incoming = chain.boundary[i] * factors.blocks,
                              .again = input.hints.again[i],
                              .pinned = input.hints.pinned[i],
                              .joined = chain.joined[i],
                              .inputs_again = factors.forward * chain.inputs_again_time[i]});
  }
  return request;
}

Decision outline(const SearchInput& input, const Setting& setting) {
  const TrainSpec& train = input.module.train;
  return {.deterministic = input.deterministic,
          .overlap = !input.module.schedule.overlap || input.module.schedule.overlap->value,
          .pipeline = setting.pipeline,
          .batch = train.batch,
          .norm_rows = train.norm_rows,
          .micro_batches = setting.micro_batches,
          .replicas = setting.replicas,
          .partials = partials_of(setting, input.deterministic, train.batch / train.norm_rows, input.machine),
          .head_devices = setting.head_devices};
}

void add_stages(const SearchInput& input, const Setting& setting, const PartitionRequest& request,
                const Partition& cuts, Decision& decision) {
  const Chain& chain = input.chain;
  for (size_t s = 0; s < cuts.stages.size(); ++s) {
    const PartitionStage& part = cuts.stages[s];
    const std::vector<bool> again = rematerialized(input.module.graph, chain, part.begin, part.end, part.recomputed);
    Stage stage{.index = static_cast<int>(s), .devices = devices_of(input, setting, static_cast<int>(s))};
    Seconds repeated = 0;
    for (int l = part.begin; l < part.end; ++l) {
      const auto p = static_cast<size_t>(l);
      stage.forward.push_back(chain.nodes[p]);
      if (again[p]) {
        stage.recomputed.push_back(chain.nodes[p]);
        // Recomputed blocks are distributed over the workers like the blocks of a backward pass, by partial.
        repeated += request.layers[p].forward;
      }
      stage.forward_times.push_back(request.layers[p].forward);
      stage.backward_times.push_back(request.layers[p].backward);
      stage.forward_time += request.layers[p].forward;
      stage.backward_time += request.layers[p].backward;
      stage.backward.insert(stage.backward.end(), chain.backward[p].begin(), chain.backward[p].end());
    }
    std::sort(stage.backward.begin(), stage.backward.end());
    stage.backward_time += repeated;
    decision.stages.push_back(std::move(stage));
  }
}

void fill_request(const Decision& decision, const CostModel& cost, Seconds hop, ScheduleRequest& request) {
  for (const Stage& stage : decision.stages) {
    request.forward.push_back(stage.forward_time + cost.hand_over());
    request.backward.push_back(stage.backward_time + cost.hand_over());
  }
  request.hop = decision.stages.size() > 1 ? hop : 0.0;
  request.micro_batches = decision.micro_batches / decision.replicas;
}

// The longest hop between stages of these cuts; for one stage, the time of a copy.
Seconds longest_hop(const SearchInput& input, const Setting& setting, const PartitionRequest& request,
                    const Partition& cuts) {
  Seconds hop = 0;
  for (size_t s = 0; s < cuts.stages.size() && !request.layers.empty(); ++s) {
    hop = std::max(hop, hop_time(input, setting, request, cuts, s));
  }
  return hop;
}

// The costs of a schedule of this setting; `plain` has the head passes. All arguments must outlive the result.
ScheduleCosts schedule_costs(const SearchInput& input, const Setting& setting, const PartitionRequest& request,
                             const ScheduleRequest& plain) {
  const Seconds hand_over = input.cost.hand_over();
  const auto makespan = [&input, &setting, &request, &plain, hand_over](const Partition& cuts) {
    ScheduleRequest order = plain;
    for (const PartitionStage& stage : cuts.stages) {
      order.forward.push_back(stage.forward + hand_over);
      order.backward.push_back(stage.backward + hand_over);
    }
    order.hop = cuts.stages.size() > 1 ? longest_hop(input, setting, request, cuts) : 0.0;
    return simulate(make_schedule(setting.pipeline, order), order).makespan;
  };
  return {makespan, hand_over, plain.head * plain.head_passes};
}

// `work`: seconds of all workers in stage passes; `heads`: seconds of the head passes, which use all devices at once.
struct StepTimes {
  ScheduleTimes schedule;
  Seconds work = 0;
  Seconds heads = 0;
  Seconds after = 0;  // time of the updates
  Seconds collectives = 0;
};

Prediction predict(const Decision& decision, const StepTimes& times, const Machine& machine) {
  Prediction predicted;
  // If there are more threads than cores, devices that work can use the cores of idle devices. A step then takes the
  // larger of two times: all work divided by the number of cores, and the longest chain of passes.
  const Seconds shared = times.work / machine.cores + times.heads;
  const bool crowded = machine.threads > machine.cores && shared > times.schedule.makespan;
  const Seconds makespan = crowded ? shared : times.schedule.makespan;
  predicted.step = makespan + times.after;
  predicted.images_per_second = static_cast<double>(decision.batch) / predicted.step;
  const double share = crowded ? 0.0 : makespan / predicted.step;
  predicted.bubble = times.schedule.bubble * share;
  predicted.imbalance = times.schedule.imbalance * share;
  predicted.exposed_comm = times.collectives;
  return predicted;
}

// Keeps the cuts of the last setting. If memory has no limit, settings that differ only in the schedule have equal
// cuts, and only the memory of their stages has to be computed again.
class CutMemo {
 public:
  const std::vector<Partition>& cut(const Setting& setting, const PartitionRequest& request) {
    Setting plain = setting;
    plain.pipeline = PipelineKind::kGpipe;
    plain.head_devices = 0;
    const bool free = request.cap == 0 && !request.shares_memory();
    if (free && known_ && *known_ == plain) {
      for (Partition& made : cuts_) {
        for (size_t s = 0; s < made.stages.size(); ++s) {
          const int held =
              micro_batches_held(request.pipeline, static_cast<int>(s), request.stages, request.micro_batches);
          XRUN_CHECK(choose_recompute(request, held, made.stages[s]).fits, "there is no limit");
        }
      }
      return cuts_;
    }
    cuts_ = partition(request);
    known_ = free ? std::optional(plain) : std::nullopt;
    return cuts_;
  }

 private:
  std::optional<Setting> known_;
  std::vector<Partition> cuts_;
};

// Sets the memory that the stages of a candidate need, as the partition estimates it.
void count_memory(const SearchInput& input, const Partition& cuts, Candidate& candidate) {
  for (const PartitionStage& stage : cuts.stages) {
    candidate.largest_stage = std::max(candidate.largest_stage, stage.memory);
  }
  candidate.all_stages = cuts.memory() * candidate.setting.replicas;
  const std::vector<Bytes> none(input.machine.nodes() > 1 ? static_cast<size_t>(input.machine.nodes()) : 0, 0);
  for (const NodeLimit& node : node_limits(input.machine, mesh_of(input, candidate.setting), none)) {
    candidate.nodes.push_back(-node.space(cuts));
  }
}

Result<std::vector<Candidate>> decide_by(const SearchInput& input, const Setting& setting, Recompute recompute,
                                         const StageLimits& limits, CutMemo& memo) {
  const TrainSpec& train = input.module.train;
  const int local = setting.micro_batches / setting.replicas;
  XRUN_ASSIGN(const std::vector<HeadPlan> heads, heads_of(input, setting));
  const HeadTimes head =
      head_times(heads, input.cost, training_heads(input.module), devices_of(input, setting, setting.stages - 1));
  const PartitionRequest request = make_request(input, setting, recompute, limits);
  const double all_devices = input.cost.crowding(input.machine.devices);
  const ScheduleRequest plain{.micro_batches = local,
                              .head_passes = heads.empty() ? 0 : static_cast<int>(train.batch / heads[0].rows),
                              .head = head.pass() * all_devices};
  std::vector<Partition> all;
  if (request.layers.empty()) {
    // The head reads the input directly, so there is one stage without layers.
    all.push_back({.stages = {PartitionStage{}}});
  } else {
    all = memo.cut(setting, request);
    if (auto faster = find_faster_cuts(request, all, schedule_costs(input, setting, request, plain))) {
      all.push_back(std::move(*faster));
    }
  }
  std::vector<Candidate> best;
  for (const Partition& cuts : all) {
    Candidate candidate{.setting = setting,
                        .recompute = recompute,
                        .decision = outline(input, setting),
                        .proven = recompute == Recompute::kAuto && cuts.proven()};
    Decision& decision = candidate.decision;
    add_stages(input, setting, request, cuts, decision);
    count_memory(input, cuts, candidate);
    ScheduleRequest order = plain;
    fill_request(decision, input.cost, longest_hop(input, setting, request, cuts), order);
    decision.schedule = make_schedule(setting.pipeline, order);
    XRUN_TRY(check_schedule(decision.schedule));
    decision.heads = heads;
    decision.head_forward_time = head.forward;
    decision.head_backward_time = head.backward;
    decision.head_update_time = head.update;
    StepTimes times{.schedule = simulate(decision.schedule, order),
                    .heads = order.head * order.head_passes,
                    .after = (head.update + head.selection) * all_devices +
                             update_time(input, setting, cuts) * input.cost.crowding(setting.stages * setting.replicas),
                    .collectives = head.collectives * order.head_passes};
    for (const Stage& stage : decision.stages) {
      times.work += (stage.forward_time + stage.backward_time) * setting.micro_batches * input.machine.threads_of(0);
    }
    candidate.predicted = predict(decision, times, input.machine);
    if (best.empty() || candidate.predicted.step < best[0].predicted.step) {
      best.clear();
      best.push_back(std::move(candidate));
    }
  }
  return best;
}

}  // namespace

Bytes Candidate::largest_node() const { return nodes.empty() ? 0 : std::ranges::max(nodes); }

Result<std::vector<Candidate>> decide(const SearchInput& input, const Setting& setting, Recompute recompute,
                                      const StageLimits& limits) {
  CutMemo memo;
  return decide_by(input, setting, recompute, limits, memo);
}

Result<std::vector<Candidate>> search(const SearchInput& input, const std::vector<Setting>& settings) {
  std::vector<Candidate> found;
  CutMemo memo;
  size_t done = 0;
  for (const Setting& setting : settings) {
    if (!found.empty() && input.is_over()) {
      break;
    }
    input.begin("setting " + std::to_string(++done) + " of " + std::to_string(settings.size()) + " (" +
                to_text(setting) + ")");
    XRUN_ASSIGN(std::vector<Candidate> best, decide_by(input, setting, input.hints.recompute, {}, memo));
    std::move(best.begin(), best.end(), std::back_inserter(found));
  }
  // Times are compared by thousandths, since smaller differences are below the accuracy of a prediction.
  const auto key = [](const Candidate& c) {
    return std::tuple(std::llround(std::log(c.predicted.step) * 1e3), c.setting.stages, c.setting.micro_batches,
                      c.setting.replicas);
  };
  std::stable_sort(found.begin(), found.end(), [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  return found;
}

Result<Decision> decide_inference(const Module& inference, const Chain& chain, const CostModel& cost,
                                  const Graph& training, const Decision& decision) {
  Decision made = decision;
  made.training = false;
  made.partials = decision.replicas;
  made.stages.clear();
  // Nodes that both graphs have are matched by path and operator; others go to the stage that makes their inputs.
  std::map<std::pair<std::string, std::string_view>, int> stage_of;
  for (const Stage& stage : decision.stages) {
    for (const NodeId id : stage.forward) {
      const Node& node = training.node(id);
      stage_of[{node.path, node.op->name}] = stage.index;
    }
    made.stages.push_back({.index = stage.index, .devices = stage.devices});
  }
  const Graph& graph = inference.graph;
  const Machine& machine = cost.machine();
  const int64_t blocks = decision.batch / decision.micro_batches / decision.norm_rows;
  int at = 0;  // stages are contiguous, so no node belongs to an earlier stage than a node printed before it
  for (size_t i = 0; i < chain.nodes.size(); ++i) {
    const Node& node = graph.node(chain.nodes[i]);
    const auto known = stage_of.find({node.path, node.op->name});
    at = std::max(at, known != stage_of.end() ? known->second : at);
    Stage& stage = made.stages[static_cast<size_t>(at)];
    stage.forward.push_back(chain.nodes[i]);
    stage.forward_time += cost.forward_pass(chain.forward_time[i], blocks, machine.threads_of(0));
  }
  const int local = decision.micro_batches / decision.replicas;
  const int64_t rows = decision.heads.empty() ? decision.batch : decision.heads[0].rows;
  XRUN_ASSIGN(made.heads, plan_heads(inference, chain, machine, rows, decision.head_devices));
  const HeadTimes head =
      head_times(made.heads, cost, {.batch = decision.batch, .trains = false}, made.stages.back().devices);
  made.head_forward_time = head.forward;
  made.head_backward_time = 0;
  made.head_update_time = 0;
  ScheduleRequest order{.micro_batches = local};
  order.forward.assign(made.stages.size(), 0);
  order.head_passes = made.heads.empty() ? 0 : static_cast<int>(decision.batch / rows);
  made.schedule = schedule_inference(order);
  XRUN_TRY(check_schedule(made.schedule));
  return made;
}

}  // namespace xrun::planner
