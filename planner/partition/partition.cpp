// The objective is the sum of all stage times plus (M - 1) times the largest one. For a fixed bound t on the largest
// stage, dynamic programming minimises the sum: g[s][j] is the least time of the first j layers on s stages with no
// stage above t. The bounds t are tried in ascending order, and the optimum is the best of g[K][n] + (M - 1) · (largest
// stage used), for K stages, n layers and M micro-batches. No further bounds are tried as soon as the least time of all
// layers + (M - 1) · t is no better than the best result so far. Source: Zheng et al., "Alpa", OSDI 2022, section 5.2,
// with recomputation per stage (docs/internals/algorithms.md, "Partition").
//
// Chains of many layers have too many bounds to try them all. Bounds within 1 / 1000 of each other then form a range,
// of which only the last bound is tried. The least sum S under it and the first bound t of the range prove that no cuts
// of the range are better than S + (M - 1) · t; a range for which that is less than the best result is divided again.
#include "planner/partition/partition.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/base/check.h"
#include "planner/partition/coarse_layers.h"
#include "planner/partition/cut_rules.h"
#include "planner/partition/shared_limits.h"
#include "planner/partition/stage_times.h"

namespace xrun::planner {
namespace {

// With up to this many layers, every bound on the largest stage is tried. With more, they are tried by ranges.
constexpr int kFewLayers = 48;
// Objectives that differ by less than this fraction are equal.
constexpr double kRounding = 1e-12;

// With more layers than this, neighbouring layers are merged, since the tables grow with the square of the layers.
constexpr int kMostLayers = 2048;
// Replaces kMostLayers if each stage chooses the layers to run again.
constexpr int kMostLayersChosen = 256;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sets each of next[first .. last] to the sum of `before`, its time and its hop, if the sum is smaller. Most of the
// time is spent in this loop. The compiler vectorizes it, but not if the function is inlined.
[[gnu::noinline]] void lower(double* __restrict next, double before, const double* times, const double* hops, int first,
                             int last) {
  for (int j = first; j <= last; ++j) {
    const double sum = before + times[j] + hops[j];
    const double known = next[j];
    next[j] = sum < known ? sum : known;
  }
}

class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request)
      : request_(request), n_(static_cast<int>(request.layers.size())), rules_(request), table_(request) {
    for (int position = 0; position <= n_; ++position) {
      hops_.push_back(hop(position));
    }
  }

  std::vector<Partition> run() {
    bounds_ = table_.distinct_times();
    const double least = bounds_.empty() ? kInfinity : cheapest(bounds_.back());
    if (least == kInfinity) {
      return {};
    }
    // Finds the smallest bound under which any cuts fit.
    size_t low = 0;
    for (size_t high = bounds_.size() - 1; low < high;) {
      const size_t middle = (low + high) / 2;
      possible(bounds_[middle]) ? high = middle : low = middle + 1;
    }
    double seen = 0;
    std::vector<Range> ranges;
    for (size_t at = low; at < bounds_.size(); ++at) {
      const double floor = least + times_of_largest() * bounds_[at];
      const bool enough = static_cast<int>(found_.size()) >= request_.candidates;
      // Alternatives within a quarter of the optimum are worth a simulation.
      if (floor >= best_objective_ && (enough || floor > 1.25 * best_objective_)) {
        break;
      }
      const size_t first = at;
      if (floor >= best_objective_) {
        if (bounds_[at] < 1.01 * seen) {
          continue;  // a bound close to the last one would give almost the same partition
        }
      } else if (n_ > kFewLayers) {
        const auto after =
            std::upper_bound(bounds_.begin() + static_cast<std::ptrdiff_t>(at), bounds_.end(), 1.001 * bounds_[at]);
        at = static_cast<size_t>(after - bounds_.begin()) - 1;
      }
      seen = bounds_[at];
      ranges.push_back(attempt(first, at));
    }
    while (!ranges.empty()) {
      divide(ranges);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Partition& a, const Partition& b) { return a.objective < b.objective; });
    found_.resize(std::min(found_.size(), static_cast<size_t>(std::max(1, request_.candidates))));
    found_[0].bound = table_.proven() ? found_[0].objective : 0;
    return std::move(found_);
  }

 private:
  // Bounds of which no cuts were tried, first .. last - 1, with the least sum of stage times under the last of them or
  // a larger bound.
  struct Range {
    size_t first = 0;
    size_t last = 0;
    double sum = 0;
  };

  double times_of_largest() const { return request_.micro_batches - 1; }

  // Finds the best cuts under the bound `last`, and returns the smaller bounds from `first` on under which there may be
  // other ones.
  Range attempt(size_t first, size_t last) {
    const double sum = cheapest(bounds_[last]);
    if (sum == kInfinity) {
      return {};
    }
    Partition made = trace(bounds_[last], sum);
    best_objective_ = std::min(best_objective_, made.objective);
    const Seconds largest = std::ranges::max(made.stages, {}, &PartitionStage::time).time();
    const auto same = std::lower_bound(bounds_.begin(), bounds_.end(), largest * (1 - kRounding));
    add(found_, std::move(made));
    return {first, std::min(last, static_cast<size_t>(same - bounds_.begin())), sum};
  }

  // Takes a range, and divides it if its bounds may allow better cuts.
  void divide(std::vector<Range>& ranges) {
    const Range range = ranges.back();
    ranges.pop_back();
    if (range.first >= range.last ||
        range.sum + times_of_largest() * bounds_[range.first] >= best_objective_ * (1 - kRounding)) {
      return;
    }
    const size_t middle = (range.first + range.last) / 2;
    ranges.push_back({middle + 1, range.last, range.sum});
    ranges.push_back(attempt(range.first, middle));
  }

  double hop(int position) const {
    return position == n_ ? 0.0
                          : request_.seconds_per_boundary_byte *
                                static_cast<double>(request_.layers[static_cast<size_t>(position)].incoming);
  }

  // The range of ends of a stage `s` that begins at layer `begin` and takes at most `limit`. The ends form one range,
  // since more layers never take less time. The last stage ends with the last layer.
  struct Ends {
    int first = 0;
    int last = -1;
  };
  Ends ends_within(Seconds limit, int s, int begin) const {
    const Seconds* times = table_.times(s, begin);
    const int end = rules_.last_end(s, begin);
    if (s + 1 == request_.stages) {
      return end == n_ && times[n_] <= limit ? Ends{n_, n_} : Ends{};
    }
    return end <= begin
               ? Ends{}
               : Ends{begin + 1,
                      static_cast<int>(std::upper_bound(times + begin + 1, times + end + 1, limit) - times) - 1};
  }

  // Whether there are cuts with no stage above `limit`.
  bool possible(Seconds limit) const {
    std::vector<int> now(static_cast<size_t>(n_) + 2, 0);  // [i]: number of ways in which stages can end before layer i
    now[0] = 1;
    for (int s = 0; s < request_.stages; ++s) {
      std::vector<int> changes(now.size(), 0);  // changes in the number of ways from one end to the next
      for (int i = s; i < n_; ++i) {
        if (now[static_cast<size_t>(i)] == 0 || !rules_.may_begin(s, i)) {
          continue;
        }
        const Ends ends = ends_within(limit, s, i);
        if (ends.first <= ends.last) {
          ++changes[static_cast<size_t>(ends.first)];
          --changes[static_cast<size_t>(ends.last) + 1];
        }
      }
      std::partial_sum(changes.begin(), changes.end(), now.begin());
    }
    return now[static_cast<size_t>(n_)] > 0;
  }

  // Returns the least sum of all stages for cuts with no stage above `limit`, and keeps the table for `trace`.
  double cheapest(Seconds limit) {
    const int stages = request_.stages;
    const auto width = static_cast<size_t>(n_) + 1;
    best_.assign((static_cast<size_t>(stages) + 1) * width, kInfinity);
    best_[0] = 0;
    for (int s = 0; s < stages; ++s) {
      const double* now = best_of(s);
      double* next = best_.data() + static_cast<size_t>(s + 1) * width;
      for (int i = s; i < n_; ++i) {
        if (now[i] < kInfinity && rules_.may_begin(s, i)) {
          const Ends ends = ends_within(limit, s, i);
          lower(next, now[i], table_.times(s, i), hops_.data(), ends.first, ends.last);
        }
      }
    }
    return best_.back();
  }

  // Returns, for each position, the least time of the layers before the position on `s` stages.
  const double* best_of(int s) const { return best_.data() + static_cast<size_t>(s) * (static_cast<size_t>(n_) + 1); }

  // Returns the first layer of stage `s` in the best cuts of the layers before `end`.
  int begin_of(Seconds limit, int s, int end) const {
    const double* now = best_of(s);
    for (int i = s; i < n_; ++i) {
      if (now[i] < kInfinity && rules_.may_begin(s, i)) {
        const Ends ends = ends_within(limit, s, i);
        if (ends.first <= end && end <= ends.last &&
            now[i] + table_.times(s, i)[end] + hops_[static_cast<size_t>(end)] == best_of(s + 1)[end]) {
          return i;
        }
      }
    }
    XRUN_CHECK(false, "no stage ends where the best cuts do");
    return 0;
  }

  // Returns the cuts that the last call of `cheapest` found; `limit` and `sum` are the argument and the result of the
  // call.
  Partition trace(Seconds limit, double sum) const {
    Partition made;
    made.stages.resize(static_cast<size_t>(request_.stages));
    Seconds largest = 0;
    int end = n_;
    for (int s = request_.stages - 1; s >= 0; --s) {
      const int begin = begin_of(limit, s, end);
      PartitionStage& stage = made.stages[static_cast<size_t>(s)];
      stage.begin = begin;
      stage.end = end;
      const int held = micro_batches_held(request_.pipeline, s, request_.stages, request_.micro_batches);
      XRUN_CHECK(choose_recompute(request_, held, stage).fits, "a stage of the optimum does not fit");
      largest = std::max(largest, stage.time());
      end = begin;
    }
    made.objective = sum + (request_.micro_batches - 1) * largest;
    return made;
  }

  static void add(std::vector<Partition>& found, Partition made) {
    const bool known = std::any_of(found.begin(), found.end(), [&](const Partition& other) {
      return std::equal(made.stages.begin(), made.stages.end(), other.stages.begin(),
                        [](const PartitionStage& a, const PartitionStage& b) { return a.end == b.end; });
    });
    if (!known) {
      found.push_back(std::move(made));
    }
  }

  const PartitionRequest& request_;
  int n_;
  CutRules rules_;
  StageTimes table_;
  std::vector<Seconds> hops_;    // index: position; time of the hop to a stage that begins there
  std::vector<double> best_;     // [stages][layers]
  std::vector<Seconds> bounds_;  // all times of stages, ascending
  std::vector<Partition> found_;
  double best_objective_ = kInfinity;
};

std::vector<Partition> partition_layers(const PartitionRequest& request) {
  const bool chosen = request.shares_memory() || (request.cap > 0 && request.recompute == Recompute::kAuto);
  const int most = chosen ? kMostLayersChosen : kMostLayers;
  const auto run = [](const PartitionRequest& some) {
    return some.shares_memory() ? partition_within_shared(some) : Partitioner(some).run();
  };
  if (static_cast<int>(request.layers.size()) <= most) {
    return run(request);
  }
  const CoarseLayers coarse = merge_layers(request, most);
  std::vector<Partition> found = run(coarse.request);
  for (Partition& each : found) {
    each.bound = 0;
    refine(request, coarse, each);
  }
  return found;
}

}  // namespace

Seconds objective_of(const PartitionRequest& request, const Partition& partition) {
  Seconds sum = 0;
  Seconds largest = 0;
  for (const PartitionStage& stage : partition.stages) {
    const Bytes incoming = stage.begin == 0 ? 0 : request.layers[static_cast<size_t>(stage.begin)].incoming;
    sum += stage.time() + request.seconds_per_boundary_byte * static_cast<double>(incoming);
    largest = std::max(largest, stage.time());
  }
  return sum + (request.micro_batches - 1) * largest;
}

std::vector<Partition> partition(const PartitionRequest& request) {
  if (request.stages < 1 || request.stages > static_cast<int>(request.layers.size())) {
    return {};
  }
  return partition_layers(request);
}

}  // namespace xrun::planner
