// Depth-first branch and bound over the ends of the stages, from the first to the last. M micro-batches pass through
// stages with times f and b, and each stage then updates its weights, so a step takes at least
//   - for each stage, M · (f + b) plus the larger of two times: that of one micro-batch through the stages before it,
//     there and back; and that of one micro-batch to it, with the update of the stage;
//   - under 1F1B, the time that one micro-batch takes through all stages plus (M - 1) times the largest f or b;
//   - under GPipe, that time plus (M - 1) times the sum of the largest f and the largest b, which is exact without
//     hops and updates.
// Each of these largest numbers has a least value for the stages that are still open, which dynamic programming finds
// beforehand. A branch whose bound is no less than a thousandth below the best step is cut off.
// Tests: tests/planner/partition/schedule_cuts_test.cpp
#include "planner/partition/schedule_cuts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "planner/partition/coarse_layers.h"
#include "planner/partition/cut_rules.h"
#include "planner/partition/stage_times.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kWorthwhile = 1 - 1e-3;  // a step that is less than this part of the best one is an improvement
constexpr int64_t kMostBranches = 200'000;

class CutSearch {
 public:
  CutSearch(const PartitionRequest& request, const ScheduleCosts& costs)
      : request_(request), costs_(costs), rules_(request), layers_(static_cast<int>(request.layers.size())) {
    StageSums sums(request, 1, 0);
    for (int l = 0; l < layers_; ++l) {
      sums.add_layer();
      forward_.push_back(sums.forward());
      both_.push_back(sums.forward() + sums.backward());
      const Seconds update = costs.updates.empty() ? 0.0 : costs.updates[static_cast<size_t>(l)];
      updates_.push_back(updates_.back() + update);
    }
    for (int s = 0; s <= request.stages; ++s) {
      find_legal_ends(s);
    }
    if (request.cap > 0) {
      table_.emplace(request);
    }
    least_load_ = least_largest([&](int s, int begin, int end) {
      return std::max(passed(s, begin), reached(s, begin) + update(begin, end)) + load(s, begin, end);
    });
    least_forward_ = least_largest([&](int s, int begin, int end) { return times(s, begin, end).first; });
    least_backward_ = least_largest([&](int s, int begin, int end) { return times(s, begin, end).second; });
  }

  std::optional<Partition> run(double best) {
    best_ = best;
    cuts_.push_back(0);
    visit(0, {});
    return std::move(found_);
  }

 private:
  using LeastTable = std::vector<std::vector<double>>;  // [stage][begin]: of this stage and all later ones

  // Seconds of a step so far, and the largest numbers of the closed stages.
  struct Branch {
    Seconds passed = 0;   // time of a micro-batch through the closed stages
    Seconds reached = 0;  // its forward passes alone
    Seconds load = 0;     // largest time of a stage with the times before and after it
    Seconds forward = 0;
    Seconds backward = 0;
  };

  struct Child {
    double bound = 0;
    int end = 0;
    Branch branch;
  };

  // Times of a pass over one micro-batch.
  std::pair<Seconds, Seconds> times(int s, int begin, int end) const {
    const Seconds forward = forward_[static_cast<size_t>(end)] - forward_[static_cast<size_t>(begin)];
    return {forward + costs_.hand_over, time(s, begin, end) - forward + costs_.hand_over};
  }
  // The time of both passes without hand-overs; infinite if the stage does not fit.
  Seconds time(int s, int begin, int end) const {
    return table_ ? table_->times(s, begin)[end] : both_[static_cast<size_t>(end)] - both_[static_cast<size_t>(begin)];
  }
  Seconds load(int s, int begin, int end) const {
    const auto [forward, backward] = times(s, begin, end);
    return request_.micro_batches * (forward + backward);
  }
  Seconds update(int begin, int end) const {
    return updates_[static_cast<size_t>(end)] - updates_[static_cast<size_t>(begin)];
  }
  // The least time of a micro-batch to stage `s`, which begins at layer `begin`, and through the stages before it there
  // and back.
  Seconds reached(int s, int begin) const { return forward_[static_cast<size_t>(begin)] + s * costs_.hand_over; }
  Seconds passed(int s, int begin) const { return both_[static_cast<size_t>(begin)] + 2 * s * costs_.hand_over; }

  // Sets for each position the next one at which stage `s` may end.
  void find_legal_ends(int s) {
    auto& next = next_end_.emplace_back(static_cast<size_t>(layers_) + 2, layers_ + 1);
    for (int end = layers_; end > 0 && s < request_.stages; --end) {
      next[static_cast<size_t>(end)] = rules_.may_end(s, end) ? end : next[static_cast<size_t>(end) + 1];
    }
  }

  // A lower bound of the largest of `number` over this stage and all later ones. `number` grows with the end. A
  // position after which less is left than after an earlier one has the bound of the earlier one at most, so that the
  // best end of a stage is found by bisection.
  template <typename Number>
  LeastTable least_largest(const Number& number) const {
    const auto width = static_cast<size_t>(layers_) + 1;
    LeastTable least(static_cast<size_t>(request_.stages) + 1, std::vector<double>(width, kInfinity));
    least.back().back() = 0;
    std::vector<double> after = least.back();  // least[s + 1], or less, descending
    for (int s = request_.stages - 1; s >= 0; --s) {
      auto& now = least[static_cast<size_t>(s)];
      const auto& next = next_end_[static_cast<size_t>(s)];
      for (int begin = s; begin < layers_; ++begin) {
        if (!rules_.may_begin(s, begin)) {
          continue;
        }
        int low = begin + 1;
        int high = rules_.last_end(s, begin) + 1;
        while (low < high) {
          const int middle = (low + high) / 2;
          number(s, begin, middle) >= after[static_cast<size_t>(middle)] ? high = middle : low = middle + 1;
        }
        // Before `low`, what follows is larger than the stage, and least after the last of these ends.
        double& value = now[static_cast<size_t>(begin)];
        value = low - 1 > begin && next[static_cast<size_t>(begin) + 1] < low ? after[static_cast<size_t>(low) - 1]
                                                                              : kInfinity;
        if (const int end = next[static_cast<size_t>(low)]; end <= rules_.last_end(s, begin)) {
          value = std::min(value, number(s, begin, end));
        }
      }
      after = now;
      for (size_t l = 1; l < width; ++l) {
        after[l] = std::min(after[l], after[l - 1]);
      }
    }
    return least;
  }

  double bound(int closed, int end, const Branch& branch) const {
    const auto s = static_cast<size_t>(closed);
    const auto l = static_cast<size_t>(end);
    const double more = request_.micro_batches - 1;
    const double forward = std::max(branch.forward, least_forward_[s][l]);
    const double backward = std::max(branch.backward, least_backward_[s][l]);
    const Seconds all = branch.passed + both_.back() - both_[l] + 2 * (request_.stages - closed) * costs_.hand_over;
    const double later = closed < request_.stages ? least_load_[s][l] : 0;
    const double load = std::max({branch.load, later, costs_.floor - costs_.heads}) + costs_.heads;
    if (request_.pipeline == PipelineKind::kGpipe) {
      return costs_.after + std::max(load, all + more * (forward + backward) + costs_.heads);
    }
    return costs_.after + std::max({load, all + more * forward, all + more * backward});
  }

  bool ended() const { return schedules_ >= costs_.tries || branches_ >= kMostBranches; }

  void visit(int s, const Branch& branch) {
    if (s == request_.stages) {
      simulate_cuts();
      return;
    }
    const int begin = cuts_.back();
    std::vector<Child> children;
    for (int end = begin + 1; end <= rules_.last_end(s, begin) && time(s, begin, end) < kInfinity; ++end) {
      const auto [forward, backward] = times(s, begin, end);
      Child child{.end = end, .branch = branch};
      child.branch.load =
          std::max(branch.load, std::max(branch.passed, branch.reached + update(begin, end)) + load(s, begin, end));
      child.branch.passed += forward + backward;
      child.branch.reached += forward;
      child.branch.forward = std::max(branch.forward, forward);
      child.branch.backward = std::max(branch.backward, backward);
      ++branches_;
      if (rules_.may_end(s, end)) {
        child.bound = bound(s + 1, end, child.branch);
        children.push_back(child);
      }
      if (child.branch.load + costs_.heads + costs_.after >= best_ * kWorthwhile) {
        break;
      }
    }
    std::ranges::stable_sort(children, {}, &Child::bound);
    for (const Child& child : children) {
      if (ended() || child.bound >= best_ * kWorthwhile) {
        return;
      }
      cuts_.push_back(child.end);
      visit(s + 1, child.branch);
      cuts_.pop_back();
    }
  }

  void simulate_cuts() {
    Partition made;
    for (size_t s = 0; s + 1 < cuts_.size(); ++s) {
      PartitionStage stage{.begin = cuts_[s], .end = cuts_[s + 1]};
      const int held = micro_batches_held(request_, static_cast<int>(s));
      if (!choose_recompute(request_, held, stage).fits) {
        return;
      }
      made.stages.push_back(std::move(stage));
    }
    ++schedules_;
    made.objective = objective_of(request_, made);
    if (const Seconds step = costs_.step(made); step < best_ * kWorthwhile) {
      best_ = step;
      found_ = std::move(made);
    }
  }

  const PartitionRequest& request_;
  const ScheduleCosts& costs_;
  CutRules rules_;
  int layers_;
  std::optional<StageTimes> table_;  // only if memory has a limit
  std::vector<Seconds> forward_{0};  // sums over the layers before a layer
  std::vector<Seconds> both_{0};
  std::vector<Seconds> updates_{0};
  std::vector<std::vector<int>> next_end_;  // [stage][position]
  LeastTable least_load_;
  LeastTable least_forward_;
  LeastTable least_backward_;
  std::vector<int> cuts_;
  double best_ = kInfinity;
  std::optional<Partition> found_;
  int schedules_ = 0;
  int64_t branches_ = 0;
};

}  // namespace

std::optional<Partition> find_faster_cuts(const PartitionRequest& request, const Partition& known, Seconds best,
                                          const ScheduleCosts& costs) {
  if (request.stages < 2 || request.pipeline > PipelineKind::kOneFOneB || request.shares_memory() ||
      std::ssize(request.layers) > kMostMovedLayers || costs.floor + costs.after >= best * kWorthwhile) {
    return std::nullopt;
  }
  const int layers = static_cast<int>(request.layers.size());
  const int most = most_layers(request);
  if (layers <= most) {
    return CutSearch(request, costs).run(best);
  }
  const PartitionRequest near = near_cuts(request, known, 2 * ((layers + most - 1) / most));
  return CutSearch(near, costs).run(best);
}

}  // namespace xrun::planner
