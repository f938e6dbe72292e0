// Tests: tests/planner/search/search_test.cpp, tests/planner/search/forced_settings_test.cpp
#include "planner/search/step_estimate.h"

#include <algorithm>
#include <set>
#include <utility>

namespace xrun::planner {
namespace {

// The most cuts of a setting that are simulated in the search for faster ones, if there are more threads than cores.
// The bounds of the search know nothing of waits for cores, so that it would try many cuts in vain.
constexpr int kCrowdedTries = 8;

// Returns the devices that have class rows of some head.
std::set<int> devices_of_heads(const std::vector<HeadPlan>& heads) {
  std::set<int> devices;
  for (const HeadPlan& head : heads) {
    for (const HeadShard& shard : head.shards) {
      if (shard.row_begin < shard.row_end) {
        devices.insert(shard.device);
      }
    }
  }
  return devices;
}

}  // namespace

StepEstimate::StepEstimate(const SearchInput& input, const Setting& setting, const PartitionRequest& request,
                           const std::vector<HeadPlan>& heads, const HeadTimes& head)
    : input_(input),
      setting_(setting),
      request_(request),
      head_(head),
      exchanges_(head_exchanges(heads, input.cost, training_heads(input.module),
                                devices_of(input, setting, setting.stages - 1),
                                input.module.train.batch * setting.replicas / setting.micro_batches)),
      updates_(input, setting),
      head_passes_(heads.empty() ? 0 : static_cast<int>(input.module.train.batch / heads[0].rows)),
      splits_(splits_backward(setting.pipeline) || (setting.chunks > 1 && head_passes_ == 1)),
      workers_(setting.replicas * input.machine.threads_of(0)),
      selection_(head.selection > 0 ? head.selection + input.cost.hand_over() : 0) {
  const std::set<int> devices = devices_of_heads(heads);
  for (const int device : devices) {
    head_workers_ += input.machine.threads_of(device);
  }
  const Mesh mesh = mesh_of(input, setting);
  has_shards_.resize(static_cast<size_t>(mesh.ranks()));
  for (int s = 0; s < setting.stages; ++s) {
    ranks_.push_back(mesh.rank_of(s));
    has_shards_[static_cast<size_t>(ranks_.back())] =
        std::ranges::any_of(devices_of(input, setting, s), [&](int d) { return devices.contains(d); });
  }
}

Seconds StepEstimate::weight_gradient(const PartitionStage& stage) const {
  Seconds sum = 0;
  for (int layer = stage.begin; layer < stage.end && splits_; ++layer) {
    sum += request_.layers[static_cast<size_t>(layer)].weight_gradient;
  }
  return sum;
}

ScheduleRequest StepEstimate::passes(const Partition& cuts, std::vector<Seconds> first) const {
  ScheduleRequest order = schedule_request(setting_);
  order.first = std::move(first);
  order.head_passes = head_passes_;
  const Seconds hand_over = input_.cost.hand_over();
  for (size_t s = 0; s < cuts.stages.size(); ++s) {
    const PartitionStage& stage = cuts.stages[s];
    order.forward.push_back(stage.forward + hand_over);
    order.backward.push_back(stage.backward + hand_over);
    if (splits_) {
      const Seconds weights = weight_gradient(stage);
      order.input_gradient.push_back(stage.backward - weights + hand_over);
      order.weight_gradient.push_back(weights + hand_over);
    }
    order.hops.push_back(cuts.stages.size() > 1 ? hop_time(input_, setting_, request_, cuts, s) : 0);
  }
  if (head_passes_ > 0) {
    order.head = head_pass();
    order.shards = has_shards_;
    order.backward.back() += exchanges_.sum;  // dX of a micro-batch is summed before its backward pass
    if (head_passes_ == 1) {
      order.forward.back() = std::max(order.forward.back(), exchanges_.gather_links);
      order.backward.back() = std::max(order.backward.back(), exchanges_.scatter_links);
    }
  }
  return order;
}

Schedule StepEstimate::schedule(const Partition& cuts) const {
  return make_schedule(setting_.pipeline, passes(cuts, {}));
}

// Converts the times of a schedule, in which each worker has a core, to real time.
Seconds StepEstimate::real_time(const ScheduleTimes& schedule, std::vector<Workers> changes) const {
  for (const auto& rank : schedule.ranks) {
    for (const ActionTime& time : rank) {
      if (time.action.kind != ActionKind::kHead) {
        changes.push_back({time.start, workers_});
        changes.push_back({time.end, -workers_});
      }
    }
  }
  for (const ActionTime& time : schedule.heads) {
    changes.push_back({time.end - head_.pass(), head_workers_});  // workers are idle during exchanges
    changes.push_back({time.end, -head_workers_});
  }
  std::ranges::sort(changes, {}, &Workers::time);
  const int cores = input_.machine.parallel_workers();
  Seconds late = 0;
  Seconds now = 0;
  int busy = 0;
  for (const Workers& one : changes) {
    late += busy > cores ? (one.time - now) * (static_cast<double>(busy) / cores - 1) : 0.0;
    now = one.time;
    busy += one.change;
  }
  return now + late;
}

Seconds StepEstimate::selection() const {
  return has_shards_[0]
             ? selection_ * std::max(1.0, static_cast<double>(head_workers_) / input_.machine.parallel_workers())
             : 0;
}

StepEstimate::StepTimes StepEstimate::times(const Partition& cuts) const {
  const UpdateTimes updates = updates_.times(cuts);
  const ScheduleRequest order = passes(cuts, updates.zeroing);
  StepTimes made{.schedule = simulate(make_schedule(setting_.pipeline, order), order)};
  const bool wait = input_.module.train.sums_squares();  // the sum needs the gradients of all stages
  std::vector<Workers> changes;
  Seconds end = made.schedule.makespan;
  const auto add = [&](Seconds start, Seconds time, int workers) {
    end = std::max(end, start + time);
    changes.push_back({start, workers});
    changes.push_back({start + time, -workers});
  };
  int apart = head_workers_;                        // the workers of shards on devices without a stage
  std::vector<Seconds> own(has_shards_.size(), 0);  // index: rank
  for (size_t s = 0; s < cuts.stages.size(); ++s) {
    own[static_cast<size_t>(ranks_[s])] += updates.stages[s];
  }
  for (size_t rank = 0; rank < own.size(); ++rank) {
    const auto& passes = made.schedule.ranks[rank];
    const Seconds start = wait || passes.empty() ? made.schedule.makespan : passes.back().end;
    add(start, own[rank] + (has_shards_[rank] ? head_.update : 0), workers_);
    apart -= has_shards_[rank] ? workers_ : 0;
  }
  if (!made.schedule.heads.empty() && apart > 0) {
    add(made.schedule.heads.back().end, head_.update, apart);
  }
  made.step = end;
  if (input_.machine.threads > input_.machine.parallel_workers()) {
    made.step = real_time(made.schedule, std::move(changes));
    made.slowed = made.step > end;
  }
  made.step += updates.network + selection();
  return made;
}

Prediction StepEstimate::predict(const Partition& cuts) const {
  const StepTimes made = times(cuts);
  const double share = made.slowed ? 0.0 : made.schedule.makespan / made.step;
  return {.step = made.step,
          .images_per_second = static_cast<double>(input_.module.train.batch) / made.step,
          .bubble = made.schedule.bubble * share,
          .imbalance = made.schedule.imbalance * share,
          .exposed_comm = exchanges_.of_pass() * head_passes_};
}

// The busiest device also waits while a micro-batch passes the other devices: for their passes there and back, of which
// gradients of weights take no part. With a head pass for each micro-batch, such gradients fill a part of the wait.
Seconds StepEstimate::passes_roughly(const Partition& cuts) const {
  std::vector<Seconds> busy(has_shards_.size(), 0);
  Seconds wait = 0;
  for (size_t s = 0; s < cuts.stages.size(); ++s) {
    const PartitionStage& stage = cuts.stages[s];
    const Seconds weights = weight_gradient(stage);
    busy[static_cast<size_t>(ranks_[s])] += stage.time() + (splits_ ? 3 : 2) * input_.cost.hand_over();
    wait = std::max(wait, stage.time() - (head_passes_ == 1 ? 1 : 2) * weights);
  }
  return request_.micro_batches * std::ranges::max(busy) + (setting_.ranks() - 1) * wait;
}

Prediction StepEstimate::predict_roughly(const Partition& cuts) const {
  const CostModel& cost = input_.cost;
  const Machine& machine = input_.machine;
  const UpdateTimes updates = updates_.times(cuts);
  Seconds work = 0;
  for (const PartitionStage& stage : cuts.stages) {
    work += stage.time() * request_.micro_batches * workers_;
  }
  const Seconds hand_overs = 2 * cost.hand_over() * (request_.stages + request_.micro_batches - 1);
  const Seconds alone = setting_.is_plain() ? cuts.objective + hand_overs : passes_roughly(cuts);
  const Seconds passes = std::max(alone, work / machine.parallel_workers());
  Prediction predicted;
  predicted.step = passes + std::ranges::max(updates.stages) + updates.network + selection() +
                   (head_pass() * head_passes_ + head_.update) * cost.crowding(machine.devices);
  predicted.images_per_second = static_cast<double>(input_.module.train.batch) / predicted.step;
  predicted.bubble = std::max(0.0, 1 - work / workers_ / setting_.ranks() / predicted.step);
  predicted.exposed_comm = exchanges_.of_pass() * head_passes_;
  return predicted;
}

Seconds StepEstimate::saved_by_early_buckets(const Partition& cuts) const {
  constexpr double kExceptLastBucket = 7.0 / 8;
  if (input_.machine.nodes() == 1 || setting_.replicas == 1 || input_.module.train.compress.is_on() ||
      cuts.stages.empty()) {
    return 0;
  }
  const UpdateTimes updates = updates_.times(cuts);
  const PartitionStage& first = cuts.stages[updates.first];
  return first.recomputed.empty() ? kExceptLastBucket * std::min(updates.first_network, first.backward) : 0;
}

ScheduleCosts StepEstimate::costs() const {
  const CostModel& cost = input_.cost;
  const Machine& machine = input_.machine;
  const bool on_all = std::ranges::find(has_shards_, false) == has_shards_.end();
  ScheduleCosts costs{.step = [this](const Partition& cuts) { return times(cuts).step; },
                      .hand_over = cost.hand_over(),
                      .heads = on_all || head_passes_ == 1 ? head_pass() * head_passes_ : 0};
  for (size_t l = 0; l < request_.layers.size(); ++l) {
    costs.updates.push_back(updates_.of_layer(l));
  }
  Seconds work = 0;
  for (const PartitionLayer& layer : request_.layers) {
    work += layer.forward + layer.backward;
  }
  costs.after = selection() + (on_all ? head_.update : 0);
  const Seconds all =
      work * request_.micro_batches * workers_ + (head_.pass() * head_passes_ + head_.update) * head_workers_;
  costs.floor = all / machine.parallel_workers() + selection() - costs.after;
  if (machine.threads > machine.parallel_workers()) {
    costs.tries = kCrowdedTries;
  }
  return costs;
}

}  // namespace xrun::planner
