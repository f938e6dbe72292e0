// Tests: tests/planner/partition/partition_test.cpp, tests/planner/partition/ranges_of_bounds_test.cpp
#include "planner/partition/stage_times.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "planner/partition/growing_stage.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMargin = 1.05;

// Returns a time that no stage of the best cuts takes, for the objective and for schedules: M micro-batches in such a
// stage take longer than the best cuts if everything runs again, with a margin for hops and hand-overs. Infinite if no
// such cuts fit.
Seconds longest_useful(const PartitionRequest& request) {
  if (request.recompute != Recompute::kAuto) {
    return kInfinity;
  }
  PartitionRequest all = request;
  all.total = 0;
  all.nodes.clear();
  for (PartitionLayer& layer : all.layers) {
    layer.backward += layer.inputs_again;  // which chosen layers may need
  }
  all.candidates = 1;
  all.recompute = Recompute::kAll;
  const std::vector<Partition> cuts = partition(all);
  return cuts.empty() ? kInfinity : kMargin * cuts[0].objective / request.micro_batches;
}

}  // namespace

StageTimes::StageTimes(const PartitionRequest& request) : request_(request), size_(request.layers.size() + 1) {
  if (request.cap == 0) {
    sums_.push_back(0);
    StageSums sums(request, 1, 0);
    for (size_t l = 0; l < request.layers.size(); ++l) {
      sums.add_layer();
      sums_.push_back(sums.forward() + sums.backward());
    }
    return;
  }
  longest_ = longest_useful(request);
  for (int s = 0; s < request.stages; ++s) {
    const int held = micro_batches_held(request, s);
    std::vector<Seconds>& times = by_held_[held];
    if (times.empty()) {
      fill(held, times);
    }
    by_stage_.push_back(&times);
  }
  for (const auto& [held, table] : by_held_) {
    std::copy_if(table.begin(), table.end(), std::back_inserter(distinct_), [](Seconds t) { return t < kInfinity; });
  }
  std::sort(distinct_.begin(), distinct_.end());
  distinct_.erase(std::unique(distinct_.begin(), distinct_.end()), distinct_.end());
}

int StageTimes::end_within(Seconds limit, int s, int begin, int last) const {
  int low = begin;  // the stage without layers takes no time
  for (int high = std::max(begin, last); low < high;) {
    const int middle = (low + high + 1) / 2;
    time(s, begin, middle) <= limit ? low = middle : high = middle - 1;
  }
  return low;
}

Seconds StageTimes::above(Seconds time) const {
  if (!free()) {
    const auto at = std::upper_bound(distinct_.begin(), distinct_.end(), time);
    return at == distinct_.end() ? kInfinity : *at;
  }
  Seconds least = kInfinity;
  size_t end = 0;
  for (size_t begin = 0; begin + 1 < size_; ++begin) {
    end = std::max(end, begin + 1);
    while (end < size_ && sums_[end] - sums_[begin] <= time) {
      ++end;
    }
    if (end == size_) {
      break;
    }
    least = std::min(least, sums_[end] - sums_[begin]);
  }
  return least;
}

Seconds StageTimes::upto(Seconds time) const {
  if (!free()) {
    const auto at = std::upper_bound(distinct_.begin(), distinct_.end(), time);
    return at == distinct_.begin() ? 0.0 : *std::prev(at);
  }
  Seconds most = 0;
  size_t end = 0;
  for (size_t begin = 0; begin + 1 < size_; ++begin) {
    end = std::max(end, begin);
    while (end + 1 < size_ && sums_[end + 1] - sums_[begin] <= time) {
      ++end;
    }
    most = std::max(most, sums_[end] - sums_[begin]);
  }
  return most;
}

void StageTimes::fill(int held, std::vector<Seconds>& times) {
  times.assign(size_ * size_, kInfinity);
  const int n = static_cast<int>(request_.layers.size());
  // A single stage has all layers.
  const bool whole = request_.stages == 1;
  const auto is_cut = [&](int at) {
    return at == n || (!whole && (at == 0 || !request_.layers[static_cast<size_t>(at)].joined));
  };
  for (int begin = 0; begin < (whole ? 1 : n); ++begin) {
    if (begin > 0 && !is_cut(begin)) {
      continue;
    }
    GrowingStage grown(request_, held, begin);
    const StageSums& sums = grown.sums();
    Seconds before = 0;  // the time of a shorter stage also stands at ends that are no cuts, so that times ascend
    for (int end = begin + 1; end <= n; ++end) {
      Seconds& time = times[static_cast<size_t>(begin) * size_ + static_cast<size_t>(end)];
      grown.add_layer();
      if (sums.forward() + sums.backward() > longest_) {
        break;
      }
      if (!is_cut(end)) {
        time = before;
        continue;
      }
      PartitionStage stage{.begin = begin, .end = end, .forward = sums.forward(), .backward = sums.backward()};
      stage.memory = sums.memory();
      if (!sums.fits()) {
        const Recomputation chosen = request_.recompute == Recompute::kAuto ? grown.choose(stage) : Recomputation{};
        proven_ = proven_ && chosen.proven;
        if (!chosen.fits) {
          break;  // more layers do not fit either
        }
      }
      time = stage.time();
      before = time;
    }
  }
}

}  // namespace xrun::planner
