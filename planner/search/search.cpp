// Steps for each setting: plan the heads for the rows of a head pass; ask the partition for the best few cuts; estimate
// the step of each of them from its schedule, with updates and sums over replicas, which the objective of the partition
// leaves out; and search for cuts with a shorter step than the best one. At the end the settings are sorted by their
// times. In a large search, each setting first gets balanced cuts and a formula's time, and only the fastest ones take
// these steps. So do the settings with other pipelines than GPipe and 1F1B in every search.
// Tests: tests/planner/search/search_test.cpp, tests/planner/planner_test.cpp
#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "graph/base/check.h"
#include "planner/partition/schedule_cuts.h"
#include "planner/search/heads.h"
#include "planner/search/remat.h"
#include "planner/search/step_estimate.h"

namespace xrun::planner {
namespace {

// The number of partitions of one setting that are simulated, for the reason in docs/internals/algorithms.md,
// "Partition".
constexpr int kSimulatedCuts = 6;
// For a zero-bubble pipeline, each of these simulations is one of many orders.
constexpr size_t kSearchedCuts = 2;

// If the number of layers times that of settings with GPipe and 1F1B is larger than this, the search is large: only
// settings whose rough estimate is at most kPromising times the best time are searched further.
constexpr int64_t kMostWork = 100'000;
constexpr double kPromising = 1.15;

PartitionRequest make_request(const SearchInput& input, const Setting& setting, Recompute recompute,
                              const StageLimits& limits) {
  const Chain& chain = input.chain;
  const PassFactors factors = pass_factors(input, setting);
  PartitionRequest request{.stages = setting.stages,
                           .micro_batches = setting.micro_batches / setting.replicas,
                           .pipeline = setting.pipeline,
                           .warm_up = setting.warm_up,
                           .in_phases = setting.pipeline > PipelineKind::kOneFOneB &&
                                        rows_of_head_pass(input, setting) == input.module.train.batch,
                           .recompute = recompute,
                           .cap = limits.stage / setting.chunks,
                           .total = limits.total,
                           .nodes = node_limits(input.machine, mesh_of(input, setting), limits.nodes),
                           .seconds_per_boundary_byte = 2 / input.cost.exchange_rate(),
                           .last_cut = chain.last_cut,
                           .candidates = setting.stages == 1 ? 1 : kSimulatedCuts};
  for (size_t i = 0; i < chain.nodes.size(); ++i) {
    const auto calls = static_cast<int>(chain.backward[i].size());
    const Seconds weights =
        input.cost.pass(chain.weight_gradient_time[i], factors.backward, chain.weight_gradient_nodes[i]);
    request.layers.push_back({.forward = input.cost.pass(chain.forward_time[i], factors.forward, 1),
                              .backward = input.cost.pass(chain.backward_time[i], factors.backward, calls),
                              .weight_gradient = weights,
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
          .warm_up = setting.warm_up,
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
    Stage stage{.index = static_cast<int>(s),
                .devices = devices_of(input, setting, static_cast<int>(s)),
                .forward_time = part.forward,
                .backward_time = part.backward};
    for (int l = part.begin; l < part.end; ++l) {
      const auto p = static_cast<size_t>(l);
      stage.forward.push_back(chain.nodes[p]);
      stage.forward_times.push_back(request.layers[p].forward);
      stage.backward_times.push_back(request.layers[p].backward);
      stage.backward.insert(stage.backward.end(), chain.backward[p].begin(), chain.backward[p].end());
    }
    for (const int l : part.recomputed) {
      stage.recomputed.push_back(chain.nodes[static_cast<size_t>(l)]);
    }
    std::sort(stage.backward.begin(), stage.backward.end());
    decision.stages.push_back(std::move(stage));
  }
}

// Replaces the layers of a partition that run again by those that really do, and adds their times.
void apply_remat(const SearchInput& input, const PartitionRequest& request, Partition& cuts) {
  for (PartitionStage& stage : cuts.stages) {
    if (stage.recomputed.empty()) {
      continue;
    }
    const std::vector<bool> again =
        rematerialized(input.module.graph, input.chain, stage.begin, stage.end, stage.recomputed);
    stage.recomputed.clear();
    stage.backward = 0;
    Seconds repeated = 0;
    for (int l = stage.begin; l < stage.end; ++l) {
      const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
      stage.backward += layer.backward;
      if (again[static_cast<size_t>(l)]) {
        stage.recomputed.push_back(l);
        // Recomputed blocks are distributed over the workers like the blocks of a backward pass, by partial.
        repeated += layer.forward;
      }
    }
    stage.backward += repeated;
  }
}

// Keeps the cuts of settings. If memory has no limit, settings with equal stages and micro-batches have equal cuts,
// whatever the pipeline, and only the memory of their stages has to be computed again.
class CutMemo {
 public:
  std::vector<Partition> cut(const Setting& setting, const PartitionRequest& request) {
    if (request.cap != 0 || request.shares_memory()) {
      return partition(request);
    }
    const auto [at, added] = cuts_.try_emplace({setting.stages, setting.replicas, setting.micro_batches});
    if (added) {
      at->second = partition(request);
      return at->second;
    }
    std::vector<Partition> made = at->second;
    for (Partition& cuts : made) {
      for (size_t s = 0; s < cuts.stages.size(); ++s) {
        const int held = micro_batches_held(request, static_cast<int>(s));
        XRUN_CHECK(choose_recompute(request, held, cuts.stages[s]).fits, "there is no limit");
      }
    }
    return made;
  }

 private:
  std::map<std::tuple<int, int, int>, std::vector<Partition>> cuts_;
};

// Sets the memory that the stages of a candidate need, as the partition estimates it.
void count_memory(const SearchInput& input, const Partition& cuts, Candidate& candidate) {
  for (const PartitionStage& stage : cuts.stages) {
    candidate.largest_stage = std::max(candidate.largest_stage, stage.memory);
  }
  candidate.all_stages = cuts.memory() * candidate.setting.replicas;
  const bool in_nodes = input.machine.nodes() > 1 && !input.machine.has_gpus();
  const std::vector<Bytes> none(in_nodes ? static_cast<size_t>(input.machine.nodes()) : 0, 0);
  for (const NodeLimit& node : node_limits(input.machine, mesh_of(input, candidate.setting), none)) {
    candidate.nodes.push_back(-node.space(cuts));
  }
}

// The work on a setting: kRough finds balanced cuts and takes a formula for the time of a step.
enum class Depth { kRough, kFull };

Result<std::vector<Candidate>> decide_by(const SearchInput& input, const Setting& setting, Recompute recompute,
                                         const StageLimits& limits, CutMemo& memo, Depth depth = Depth::kFull) {
  XRUN_ASSIGN(std::vector<HeadPlan> heads, heads_of(input, setting));
  const HeadTimes head = head_times(heads, input.cost, training_heads(input.module));
  const PartitionRequest request = make_request(input, setting, recompute, limits);
  const StepEstimate estimate(input, setting, request, heads, head);
  Candidate candidate{.setting = setting, .recompute = recompute, .decision = outline(input, setting)};
  candidate.decision.heads = std::move(heads);
  candidate.decision.head_forward_time = head.forward;
  candidate.decision.head_backward_time = head.backward;
  candidate.decision.head_update_time = head.update;
  std::vector<Partition> all;
  if (depth == Depth::kRough) {
    const std::optional<Partition> even = balanced_partition(request);
    if (!even) {
      return std::vector<Candidate>();
    }
    candidate.rough = true;
    candidate.predicted = estimate.predict_roughly(*even);
    candidate.early = estimate.saved_by_early_buckets(*even);
    count_memory(input, *even, candidate);
    return std::vector<Candidate>{std::move(candidate)};
  }
  if (request.layers.empty()) {
    // The head reads the input directly, so there is one stage without layers.
    all.push_back({.stages = {PartitionStage{}}});
  } else {
    all = memo.cut(setting, request);
  }
  if (setting.pipeline == PipelineKind::kZeroBubble && all.size() > kSearchedCuts) {
    all.resize(kSearchedCuts);
  }
  Partition best;
  Seconds least = HUGE_VAL;
  bool proven = false;
  for (Partition& cuts : all) {
    const bool is_best = cuts.proven();
    apply_remat(input, request, cuts);
    if (const Seconds step = estimate.predict(cuts).step; step < least) {
      least = step;
      best = std::move(cuts);
      proven = is_best;
    }
  }
  if (auto faster = find_faster_cuts(request, best, least, estimate.costs())) {
    best = std::move(*faster);
    apply_remat(input, request, best);
    proven = false;
  }
  if (best.stages.empty()) {
    return std::vector<Candidate>();
  }
  candidate.proven = recompute == Recompute::kAuto && proven;
  add_stages(input, setting, request, best, candidate.decision);
  count_memory(input, best, candidate);
  candidate.decision.schedule = estimate.schedule(best);
  XRUN_TRY(check_schedule(candidate.decision.schedule));
  candidate.predicted = estimate.predict(best);
  candidate.early = estimate.saved_by_early_buckets(best);
  return std::vector<Candidate>{std::move(candidate)};
}

}  // namespace

PlanOrder order_of(const Setting& setting, Seconds step) {
  return {std::llround(std::log(step) * 1e3), !setting.is_plain(), setting.stages, setting.micro_batches,
          setting.replicas};
}

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
  Seconds least = HUGE_VAL;  // the least step of a candidate with all its cuts
  const auto decide_next = [&](const Setting& setting, Depth depth) {
    input.begin("setting " + std::to_string(++done) + " of " + std::to_string(settings.size()) + " (" +
                to_text(setting) + ")");
    return decide_by(input, setting, input.hints.recompute, {}, memo, depth);
  };
  const auto plain = std::ranges::count_if(settings, &Setting::is_plain);
  const auto decided = plain > 0 ? plain : std::ssize(settings);  // hints may ask for another pipeline
  const bool is_large = input.chain.size() * decided > kMostWork && input.chain.size() > 0;
  for (const Setting& setting : settings) {
    if (!found.empty() && input.is_over()) {
      break;
    }
    const bool is_rough = is_large || (plain > 0 && !setting.is_plain());
    XRUN_ASSIGN(std::vector<Candidate> best, decide_next(setting, is_rough ? Depth::kRough : Depth::kFull));
    least = best.empty() || is_rough ? least : std::min(least, best[0].predicted.step);
    std::move(best.begin(), best.end(), std::back_inserter(found));
  }
  std::ranges::stable_sort(found, {}, [](const Candidate& c) { return c.predicted.step; });
  done = 0;
  for (Candidate& candidate : found) {
    const double promising = candidate.setting.is_plain() || plain == 0 ? kPromising : 1.0;
    if (!candidate.rough || candidate.predicted.step > promising * least) {
      continue;
    }
    if (least < HUGE_VAL && input.is_over()) {
      break;
    }
    XRUN_ASSIGN(std::vector<Candidate> best, decide_next(candidate.setting, Depth::kFull));
    XRUN_CHECK(!best.empty(), "the setting has cuts");
    least = std::min(least, best[0].predicted.step);
    candidate = std::move(best[0]);
  }
  std::ranges::stable_sort(found, {}, [](const Candidate& c) { return order_of(c.setting, c.predicted.step); });
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
    stage.forward_time += cost.pass(chain.forward_time[i], cost.forward_pass(1, blocks, machine.threads_of(0)), 1);
  }
  const int local = decision.micro_batches / decision.replicas;
  const int64_t rows = decision.heads.empty() ? decision.batch : decision.heads[0].rows;
  XRUN_ASSIGN(made.heads, plan_heads(inference, chain, machine, rows, decision.head_devices));
  const HeadTimes head = head_times(made.heads, cost, {.batch = decision.batch, .trains = false});
  made.head_forward_time = head.forward;
  made.head_backward_time = 0;
  made.head_update_time = 0;
  ScheduleRequest order{.rank_of_stage = decision.schedule.rank_of_stage, .micro_batches = local};
  order.forward.assign(made.stages.size(), 0);
  order.head_passes = made.heads.empty() ? 0 : static_cast<int>(decision.batch / rows);
  made.schedule = schedule_inference(order);
  XRUN_TRY(check_schedule(made.schedule));
  return made;
}

}  // namespace xrun::planner
