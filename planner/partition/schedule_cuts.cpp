// Depth-first branch and bound over the ends of the stages, from the first to the last. M micro-batches pass through
// stages with times f and b, so a step takes at least
//   - for each stage, the time that one micro-batch takes through the stages before it, there and back, plus M · (f +
//   b);
//   - under 1F1B, the time that one micro-batch takes through all stages plus (M - 1) times the largest f, or the
//   largest
//     b;
//   - under GPipe, that time plus (M - 1) times the sum of the largest f and the largest b, which is exact without
//   hops.
// Each of these largest numbers has a least value for the stages that are still open, which dynamic programming finds
// beforehand. A branch whose bound is no less than a thousandth below the best makespan is cut off.
// Tests: tests/planner/partition/schedule_cuts_test.cpp
#include "planner/partition/schedule_cuts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "planner/partition/cut_rules.h"
#include "planner/partition/stage_times.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kWorthwhile = 1 - 1e-3;  // a makespan that is less than this part of the best one is an improvement
constexpr int kMostSchedules = 64;        // that are simulated
constexpr int64_t kMostBranches = 200'000;
constexpr int kMostLayers = 2048;  // longer chains are cut only between groups, and not by this search

class CutSearch {
 public:
  CutSearch(const PartitionRequest& request, const ScheduleCosts& costs)
      : request_(request), costs_(costs), rules_(request), layers_(static_cast<int>(request.layers.size())) {
    StageSums sums(request, 1, 0);
    for (int l = 0; l < layers_; ++l) {
      sums.add_layer();
      forward_.push_back(sums.forward());
      both_.push_back(sums.forward() + sums.backward());
    }
    if (request.cap > 0) {
      table_.emplace(request);
    }
    least_load_ = least_largest([&](int s, int begin, int end) { return passed(s, begin) + load(s, begin, end); });
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
    Seconds passed = 0;  // time of a micro-batch through the closed stages
    Seconds load = 0;    // largest sum of the time before a stage and of its M micro-batches
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
  // The least time of a micro-batch through the stages before stage `s`.
  Seconds passed(int s, int begin) const { return both_[static_cast<size_t>(begin)] + 2 * s * costs_.hand_over; }

  // The least value of the largest of `number` over this stage and all later ones. `number` grows with the end.
  template <typename Number>
  LeastTable least_largest(const Number& number) const {
    LeastTable least(static_cast<size_t>(request_.stages) + 1,
                     std::vector<double>(static_cast<size_t>(layers_) + 1, kInfinity));
    least.back().back() = 0;
    for (int s = request_.stages - 1; s >= 0; --s) {
      for (int begin = s; begin < layers_; ++begin) {
        if (!rules_.may_begin(s, begin)) {
          continue;
        }
        double& now = least[static_cast<size_t>(s)][static_cast<size_t>(begin)];
        for (int end = begin + 1; end <= rules_.last_end(s, begin); ++end) {
          const double here = number(s, begin, end);
          if (here >= now) {
            break;
          }
          if (rules_.may_end(s, end)) {
            now = std::min(now, std::max(here, least[static_cast<size_t>(s) + 1][static_cast<size_t>(end)]));
          }
        }
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
    if (request_.pipeline == PipelineKind::kGpipe) {
      return all + more * (forward + backward) + costs_.heads;
    }
    // Layers that run again in the closed stages also delay the open ones.
    const double later = least_load_[s][l] + branch.passed - passed(closed, end);
    return std::max({std::max(branch.load, closed < request_.stages ? later : 0) + costs_.heads, all + more * forward,
                     all + more * backward});
  }

  bool ended() const { return schedules_ >= kMostSchedules || branches_ >= kMostBranches; }

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
      child.branch.load = std::max(branch.load, branch.passed + load(s, begin, end));
      child.branch.passed += forward + backward;
      child.branch.forward = std::max(branch.forward, forward);
      child.branch.backward = std::max(branch.backward, backward);
      ++branches_;
      if (rules_.may_end(s, end)) {
        child.bound = bound(s + 1, end, child.branch);
        children.push_back(child);
      }
      if (child.branch.load + costs_.heads >= best_ * kWorthwhile) {
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
      const int held =
          micro_batches_held(request_.pipeline, static_cast<int>(s), request_.stages, request_.micro_batches);
      if (!choose_recompute(request_, held, stage).fits) {
        return;
      }
      made.stages.push_back(std::move(stage));
    }
    ++schedules_;
    made.objective = objective_of(request_, made);
    if (const Seconds makespan = costs_.makespan(made); makespan < best_ * kWorthwhile) {
      best_ = makespan;
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

std::optional<Partition> find_faster_cuts(const PartitionRequest& request, const std::vector<Partition>& found,
                                          const ScheduleCosts& costs) {
  if (request.stages < 2 || request.shares_memory() || std::ssize(request.layers) > kMostLayers) {
    return std::nullopt;
  }
  double best = kInfinity;
  for (const Partition& one : found) {
    best = std::min(best, costs.makespan(one));
  }
  return CutSearch(request, costs).run(best);
}

}  // namespace xrun::planner
