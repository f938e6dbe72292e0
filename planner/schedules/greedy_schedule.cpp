// Steps: take the earliest time at which a rank is free or a value arrives; let the rank choose a pass; note when the
// pass ends and when its result arrives. Memory is granted as in the banker's algorithm (Dijkstra, 1965): a forward
// pass begins only if afterwards every micro-batch could still end, the oldest one first. Ranks therefore never fill
// their memory with micro-batches of which none can continue.
// Tests: tests/planner/schedules/auto_schedule_test.cpp
#include "planner/schedules/greedy_schedule.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "planner/schedules/saved_peaks.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Greedy {
 public:
  Greedy(const ScheduleRequest& request, const GreedyRules& rules)
      : request_(request), rules_(rules), bytes_(saved_bytes(request)), schedule_(empty_schedule(request)) {
    const auto count = static_cast<size_t>(request.micro_batches);
    stages_.resize(request.forward.size());
    ranks_.resize(schedule_.orders.size());
    for (size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].forward_ready.assign(count, s == 0 ? 0 : kInfinity);
      stages_[s].backward_ready.assign(count, kInfinity);
      ranks_[rank_of(s)].stages.push_back(s);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      double all = 0;
      for (const size_t s : ranks_[r].stages) {
        all += bytes_.saved[s];
      }
      ranks_[r].missing.assign(count, all);
      ranks_[r].held.assign(count, 0);
      ranks_[r].memory = request.memory.empty() ? kInfinity : request.memory[r] * (1 + 1e-9);
      events_.emplace(0, r);
    }
  }

  std::optional<Schedule> run() {
    while (!events_.empty()) {
      const auto [now, r] = *events_.begin();
      events_.erase(events_.begin());
      if (ranks_[r].free <= now) {
        choose(r, now);
      }
    }
    for (const Stage& stage : stages_) {
      if (stage.weights < request_.micro_batches) {
        return std::nullopt;
      }
    }
    return std::move(schedule_);
  }

 private:
  struct Stage {
    int forwards = 0;  // passes that have begun
    int inputs = 0;
    int weights = 0;
    std::vector<Seconds> forward_ready;  // index: micro-batch; when the values for the pass arrive
    std::vector<Seconds> backward_ready;
  };
  struct Rank {
    std::vector<size_t> stages;  // ascending
    Seconds free = 0;
    bool fills = true;  // no backward pass has begun
    bool prefers_backward = false;
    double memory = kInfinity;
    double live = 0;              // bytes
    std::vector<double> held;     // index: micro-batch; its part of `live`
    std::vector<double> missing;  // index: micro-batch; bytes of its forward passes that have not begun
    int oldest = 0;               // the first micro-batch that is not done
  };

  size_t rank_of(size_t s) const { return static_cast<size_t>(schedule_.rank_of_stage[s]); }

  // When the values of the next forward or backward pass of a stage arrive; never if the stage may not begin it.
  Seconds next_forward(size_t s) const {
    const Stage& stage = stages_[s];
    const int left = static_cast<int>(stages_.size() - s);
    const bool may = rules_.depth == 0 || stage.forwards - stage.inputs < rules_.depth * (left - 1) + 1;
    return may && stage.forwards < request_.micro_batches ? stage.forward_ready[static_cast<size_t>(stage.forwards)]
                                                          : kInfinity;
  }
  Seconds next_backward(size_t s) const {
    const Stage& stage = stages_[s];
    return stage.inputs < stage.forwards ? stage.backward_ready[static_cast<size_t>(stage.inputs)] : kInfinity;
  }

  // Returns whether all micro-batches of a rank can end after the next forward pass of stage `s`, the oldest one first.
  bool is_safe(const Rank& rank, size_t s) const {
    if (rank.memory == kInfinity) {
      return true;
    }
    const int mine = stages_[s].forwards;
    double free = rank.memory - rank.live - bytes_.saved[s];
    if (free < 0) {
      return false;
    }
    const int last = std::max(mine, stages_[rank.stages.front()].forwards - 1);
    for (int i = rank.oldest; i <= last; ++i) {
      const auto at = static_cast<size_t>(i);
      const double added = i == mine ? bytes_.saved[s] : 0;
      if (rank.missing[at] - added > free) {
        return false;
      }
      free += rank.held[at] + added;
    }
    return true;
  }

  void choose(size_t r, Seconds now) {
    Rank& rank = ranks_[r];
    int forward = -1;
    int backward = -1;
    int weight = -1;
    bool is_full = false;
    Seconds next_value = kInfinity;
    Seconds backward_at = kInfinity;
    for (const size_t s : rank.stages) {
      const int stage = static_cast<int>(s);
      if (next_forward(s) > now) {
        next_value = std::min(next_value, next_forward(s));
      } else if (!is_safe(rank, s)) {
        is_full = true;
      } else if (forward < 0 || rules_.last_stage_first || first_forward(s, forward)) {
        forward = stage;
      }
      if (next_backward(s) > now) {
        backward_at = std::min(backward_at, next_backward(s));
      } else if (backward < 0 || stages_[s].inputs <= stages_[static_cast<size_t>(backward)].inputs) {
        backward = stage;
      }
      if (stages_[s].weights < stages_[s].inputs &&
          (weight < 0 || stages_[s].weights <= stages_[static_cast<size_t>(weight)].weights)) {
        weight = stage;
      }
    }
    next_value = std::min(next_value, backward_at);
    const bool delays =
        forward >= 0 && rules_.prompt_backward && backward_at < now + request_.forward[static_cast<size_t>(forward)];
    if (backward >= 0 && (forward < 0 || delays || rank.prefers_backward)) {
      begin(rules_.splits ? ActionKind::kInputGradient : ActionKind::kBackward, backward, now);
    } else if (forward >= 0 && !delays) {
      begin(ActionKind::kForward, forward, now);
    } else if (weight >= 0 && (!rules_.fitting_weights || is_full ||
                               now + request_.weight_gradient[static_cast<size_t>(weight)] <= next_value)) {
      begin(ActionKind::kWeightGradient, weight, now);
    }
  }

  bool first_forward(size_t s, int other) const {
    return stages_[s].forwards < stages_[static_cast<size_t>(other)].forwards;
  }

  void begin(ActionKind kind, int stage_index, Seconds now) {
    const auto s = static_cast<size_t>(stage_index);
    const size_t r = rank_of(s);
    Stage& stage = stages_[s];
    Rank& rank = ranks_[r];
    const bool is_forward = kind == ActionKind::kForward;
    const bool is_weight = kind == ActionKind::kWeightGradient;
    const int index = is_forward ? stage.forwards++ : is_weight ? stage.weights++ : stage.inputs++;
    stage.weights += kind == ActionKind::kBackward ? 1 : 0;
    const auto i = static_cast<size_t>(index);
    schedule_.orders[r].push_back({kind, index, stage_index});
    const auto& times = is_forward                           ? request_.forward
                        : is_weight                          ? request_.weight_gradient
                        : kind == ActionKind::kInputGradient ? request_.input_gradient
                                                             : request_.backward;
    const Seconds end = now + times[s];
    rank.free = end;
    events_.emplace(end, r);
    if (is_forward) {
      rank.prefers_backward = !rank.fills;
      rank.missing[i] -= bytes_.saved[s];
      hold(rank, i, bytes_.saved[s]);
      s + 1 < stages_.size() ? arrive(s, s + 1, end, stages_[s + 1].forward_ready[i])
                             : arrive(s, s, end, stage.backward_ready[i]);
    } else if (!is_weight) {
      rank.fills = false;
      rank.prefers_backward = false;
      if (s > 0) {
        arrive(s, s - 1, end, stages_[s - 1].backward_ready[i]);
      }
    }
    if (kind == ActionKind::kInputGradient) {
      hold(rank, i, bytes_.retained[s] - bytes_.saved[s]);
    } else if (!is_forward) {
      hold(rank, i, is_weight ? -bytes_.retained[s] : -bytes_.saved[s]);
    }
    while (rank.oldest < request_.micro_batches &&
           std::ranges::all_of(rank.stages, [&](size_t one) { return stages_[one].weights > rank.oldest; })) {
      ++rank.oldest;
    }
  }

  // Notes when a value arrives that stage `from` has made at `end`.
  void arrive(size_t from, size_t to, Seconds end, Seconds& ready) {
    const Seconds hop = request_.hops.empty() ? request_.hop : request_.hops[std::max(from, to)];
    ready = rank_of(from) == rank_of(to) ? end : end + hop;
    events_.emplace(ready, rank_of(to));
  }

  static void hold(Rank& rank, size_t i, double bytes) {
    rank.held[i] += bytes;
    rank.live += bytes;
  }

  const ScheduleRequest& request_;
  const GreedyRules& rules_;
  const SavedBytes bytes_;
  Schedule schedule_;
  std::vector<Stage> stages_;
  std::vector<Rank> ranks_;
  std::set<std::pair<Seconds, size_t>> events_;  // times at which a rank may choose
};

}  // namespace

std::vector<GreedyRules> greedy_rules(const ScheduleRequest& request) {
  std::vector<GreedyRules> all;
  const bool has_chunks = empty_schedule(request).has_chunks();
  for (const bool splits : {false, true}) {
    for (const int depth : {1, 2, 0}) {
      for (const bool prompt : {false, true}) {
        for (const bool fitting : {false, true}) {
          for (const bool last_first : {false, true}) {
            if ((splits && request.input_gradient.empty()) || (fitting && !splits) || (last_first && !has_chunks)) {
              continue;
            }
            all.push_back({depth, splits, prompt, fitting, last_first});
          }
        }
      }
    }
  }
  return all;
}

std::optional<Schedule> greedy_schedule(const ScheduleRequest& request, const GreedyRules& rules) {
  return Greedy(request, rules).run();
}

}  // namespace xrun::planner
