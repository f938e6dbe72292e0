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

#include "graph/base/check.h"
#include "planner/partition/coarse_layers.h"
#include "planner/partition/cut_table.h"
#include "planner/partition/shared_limits.h"
#include "planner/partition/stage_times.h"

namespace xrun::planner {
namespace {

// With up to this many layers, every bound on the largest stage is tried. With more, they are tried by ranges.
constexpr int kFewLayers = 48;
// Objectives that differ by less than this fraction are equal.
constexpr double kRounding = 1e-12;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sets the times and the memory of stages, whose ranges are given, and the objective.
Partition measured(const PartitionRequest& request, std::vector<PartitionStage> stages) {
  Partition made{.stages = std::move(stages)};
  for (size_t s = 0; s < made.stages.size(); ++s) {
    const int held = micro_batches_held(request, static_cast<int>(s));
    XRUN_CHECK(choose_recompute(request, held, made.stages[s]).fits, "a stage of the optimum does not fit");
  }
  made.objective = objective_of(request, made);
  return made;
}

class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request)
      : request_(request),
        is_long_(std::ssize(request.layers) > kFewLayers),
        times_(request),
        table_(request, times_) {}

  std::vector<Partition> run() {
    const Seconds first = table_.least_limit();
    if (first == kInfinity) {
      return {};
    }
    const double least = table_.cheapest(times_.upto(kInfinity));
    double seen = 0;
    std::vector<Range> ranges;
    for (Seconds at = first; at < kInfinity; at = times_.above(at)) {
      const double floor = least + times_of_largest() * at;
      const bool enough = static_cast<int>(found_.size()) >= request_.candidates;
      // Alternatives within a quarter of the optimum are worth a simulation.
      if (floor >= best_objective_ && (enough || floor > 1.25 * best_objective_)) {
        break;
      }
      Seconds last = at;
      if (floor >= best_objective_) {
        // A bound close to the last one would give almost the same partition.
        last = at < 1.01 * seen ? std::min(times_.above(1.01 * seen * (1 - kRounding)), kInfinity) : at;
        if (last == kInfinity || (last > at && least + times_of_largest() * last > 1.25 * best_objective_)) {
          break;
        }
      } else if (is_long_) {
        last = times_.upto(1.001 * at);
      }
      seen = last;
      ranges.push_back(attempt(at, last));
      at = last;
    }
    while (!ranges.empty()) {
      divide(ranges);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Partition& a, const Partition& b) { return a.objective < b.objective; });
    found_.resize(std::min(found_.size(), static_cast<size_t>(std::max(1, request_.candidates))));
    found_[0].bound = times_.proven() ? found_[0].objective : 0;
    return std::move(found_);
  }

 private:
  // Bounds of which no cuts were tried, from `first` to less than `last`, with the least sum of stage times under a
  // larger bound.
  struct Range {
    Seconds first = 0;
    Seconds last = 0;
    double sum = 0;
  };

  double times_of_largest() const { return request_.micro_batches - 1; }

  // Finds the best cuts under the bound `last`, and returns the smaller bounds from `first` on under which there may be
  // other ones.
  Range attempt(Seconds first, Seconds last) {
    const double sum = table_.cheapest(last);
    if (sum == kInfinity) {
      return {};
    }
    Partition made = measured(request_, table_.trace());
    best_objective_ = std::min(best_objective_, made.objective);
    const Seconds largest = std::ranges::max(made.stages, {}, &PartitionStage::time).time();
    add(found_, std::move(made));
    return {first, std::min(last, largest * (1 - kRounding)), sum};
  }

  // Takes a range, and divides it if its bounds may allow better cuts.
  void divide(std::vector<Range>& ranges) {
    const Range range = ranges.back();
    ranges.pop_back();
    if (range.first >= range.last ||
        range.sum + times_of_largest() * range.first >= best_objective_ * (1 - kRounding)) {
      return;
    }
    const Seconds middle = std::max(range.first, times_.upto((range.first + range.last) / 2));
    ranges.push_back({times_.above(middle), range.last, range.sum});
    ranges.push_back(attempt(range.first, middle));
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
  bool is_long_;
  StageTimes times_;
  CutTable table_;
  std::vector<Partition> found_;
  double best_objective_ = kInfinity;
};

std::vector<Partition> partition_layers(const PartitionRequest& request) {
  const int most = most_layers(request);
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
  if (!request.shares_memory() && !found.empty() && std::ssize(request.layers) <= kMostMovedLayers) {
    // The best cuts are moved layer by layer within the groups.
    const int size = (static_cast<int>(request.layers.size()) + most - 1) / most;
    std::vector<Partition> moved = run(near_cuts(request, found[0], size));
    if (!moved.empty() && moved[0].objective < found[0].objective) {
      moved[0].bound = 0;
      found.insert(found.begin(), std::move(moved[0]));
    }
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

std::optional<Partition> balanced_partition(const PartitionRequest& request) {
  const auto count = static_cast<int>(request.layers.size());
  if (request.stages < 1 || request.stages > count) {
    return std::nullopt;
  }
  const StageTimes times(request);
  const CutTable table(request, times);
  if (!table.is_plain() || request.shares_memory()) {
    std::vector<Partition> found = partition(request);
    return found.empty() ? std::nullopt : std::optional(std::move(found[0]));
  }
  const Seconds limit = table.least_limit();
  if (limit == kInfinity) {
    return std::nullopt;
  }
  return measured(request, table.longest_stages(limit));
}

}  // namespace xrun::planner
