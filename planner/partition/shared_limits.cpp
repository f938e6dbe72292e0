// The objective is the sum of all stage times plus (M - 1) times the largest one. Its least value for stage times of at
// most t is not known, but a lower bound is: at prices of memory, layers and cuts are chosen independently of the
// limits (planner/partition/priced_stages.h), and for all prices, the least cost less the prices of the limits is a
// bound. The best price of one limit is found by intersecting lines: each solution is a line, its time plus price times
// its excess of memory. With several limits, the price of each is improved in turn, which may end before the best
// prices, but any prices give a bound.
//
// Steps: the range of possible largest stages is divided into ranges. For each, the bound is computed; solutions that
// it finds and that fit are results. Ranges are visited in ascending order of their bounds. A range whose bound is no
// better than the best result is dropped; a wide one is divided; in a narrow one, all partitions are searched
// (planner/partition/label_search.h). Source: constrained shortest paths by Lagrangian relaxation and labels, Handler
// and Zang, Networks 1980.
#include "planner/partition/shared_limits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "planner/partition/greedy_recompute.h"
#include "planner/partition/label_search.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;
// Results that are better by less than this fraction are not searched for.
constexpr double kEqual = 1e-6;
// A range is searched by labels if its bounds differ by less than this fraction of the objective. If that takes more
// than a part of the steps, the range is divided, down to the smallest fraction.
constexpr double kNarrow = 0.002;
constexpr double kNarrowest = 1e-5;
// Steps of the label search before it is given up: about a fifth of a second.
constexpr int64_t kSteps = 4'000'000;
constexpr int64_t kStepsOfRange = kSteps / 4;
constexpr int kPrices = 60;  // prices of one limit that are tried for one range; a few suffice
// The prices of several limits are improved in turn at most so often, and as long as the bound rises by this fraction.
constexpr int kRounds = 8;
constexpr double kRise = 1e-5;

// The price of a byte of each limit.
using LimitPrices = std::vector<double>;

// Seconds from `first` to `last` that the largest stage may take.
struct Range {
  Seconds first = 0;
  Seconds last = 0;
  double bound = 0;    // no partition of the range has a smaller objective
  LimitPrices prices;  // that give the bound
};

class SharedPartitioner {
 public:
  explicit SharedPartitioner(const PartitionRequest& request)
      : request_(request), limits_(shared_limits(request)), stages_(request) {}

  std::vector<Partition> run() {
    if (limits_.size() > 1 && !find_leanest()) {
      return {};
    }
    Seconds all = 0;
    for (const PartitionLayer& layer : request_.layers) {
      all += layer.forward + layer.again_time() + layer.backward;
    }
    const auto later = [](const Range& a, const Range& b) { return a.bound > b.bound; };
    std::priority_queue<Range, std::vector<Range>, decltype(later)> ranges(later);
    ranges.push(bounded(0, all * (1 + kEqual), LimitPrices(limits_.size(), 1)));
    while (!ranges.empty() && ranges.top().bound < best_ * (1 - kEqual)) {
      const Range range = ranges.top();
      const double width = (request_.micro_batches - 1) * (range.last - range.first) / range.bound;
      const bool narrowest = width <= kNarrowest;
      const bool done = width <= kNarrow && search(range, narrowest ? steps_ : std::min(steps_, kStepsOfRange));
      if (!done && (narrowest || steps_ <= 0)) {
        break;
      }
      ranges.pop();
      if (!done) {
        const Seconds middle = (range.first + range.last) / 2;
        ranges.push(bounded(range.first, middle, range.prices));
        ranges.push(bounded(middle, range.last, range.prices));
      }
    }
    std::ranges::stable_sort(found_, {}, &Partition::objective);
    found_.resize(std::min(found_.size(), static_cast<size_t>(std::max(1, request_.candidates))));
    if (!found_.empty()) {
      found_[0].bound = ranges.empty() ? best_ : std::min(best_, ranges.top().bound);
    }
    return std::move(found_);
  }

 private:
  // Searches for cuts that fit if all layers run again, regardless of their times, so that there is a result even if
  // the search is given up. Returns false if there are none.
  bool find_leanest() {
    PartitionRequest lean = request_;
    lean.seconds_per_boundary_byte = 0;
    for (PartitionLayer& layer : lean.layers) {
      layer.forward = layer.backward = layer.inputs_again = 0;
      layer.saved = 0;
    }
    PricedStages stages(lean);
    stages.solve(0, {0, std::vector<double>(static_cast<size_t>(lean.stages), 0)});
    int64_t steps = kSteps;
    std::optional<Partition> made = search_labels({lean, limits_, stages, 0, 0, 0, 1}, steps);
    if (!made) {
      return steps < 0;
    }
    for (PartitionStage& stage : made->stages) {
      for (int l = stage.begin; l < stage.end; ++l) {
        if (request_.layers[static_cast<size_t>(l)].saved > 0) {
          stage.recomputed.push_back(l);
        }
      }
    }
    measure(request_, *made);
    add_fitted(std::move(*made));
    return true;
  }

  // Returns the range with its bound; the bound is infinite if no partition of the range fits. The search for prices
  // begins with multiples of `near`.
  Range bounded(Seconds first, Seconds last, LimitPrices near) {
    if (std::ranges::all_of(near, [](double price) { return price == 0; })) {
      near.assign(near.size(), 1);
    }
    Range range{.first = first, .last = last, .prices = LimitPrices(limits_.size(), 0)};
    range.bound = climb(last, range.prices, near);
    double before = 0;
    for (int i = 0; limits_.size() > 1 && i < kRounds && range.bound < kInfinity; ++i) {
      before = range.bound;
      for (size_t k = 0; k < limits_.size() && range.bound < kInfinity; ++k) {
        LimitPrices prices = range.prices;
        LimitPrices one(limits_.size(), 0);
        prices[k] = 0;
        one[k] = 1;
        if (const double bound = climb(last, prices, one); bound > range.bound) {
          range.bound = bound;
          range.prices = std::move(prices);
        }
      }
      if (range.bound - before <= kRise * range.bound) {
        break;
      }
    }
    range.bound += (request_.micro_batches - 1) * first;
    return range;
  }

  // Adds the multiple of `along` to the prices that gives the highest bound of the sum of times, and returns the bound.
  double climb(Seconds last, LimitPrices& prices, const LimitPrices& along) {
    const LimitPrices from = prices;
    double bound = solve(last, 1, from);
    if (bound == kInfinity) {
      return bound;
    }
    Line over = line(from, along);
    if (over.excess <= 0) {
      return bound;
    }
    solve(last, 0, along);
    Line under = line(from, along);
    if (under.excess > 0) {
      return kInfinity;
    }
    for (int i = 0; i < kPrices; ++i) {
      const double share = (under.sum - over.sum) / (over.excess - under.excess);
      const double meeting = over.sum + share * over.excess;
      LimitPrices next = from;
      for (size_t k = 0; k < next.size(); ++k) {
        next[k] += share * along[k];
      }
      const double found = solve(last, 1, next);
      if (found > bound) {
        bound = found;
        prices = std::move(next);
      }
      const Line between = line(from, along);
      if (found >= meeting - kRounding * std::abs(meeting)) {
        break;
      }
      (between.excess > 0 ? over : under) = between;
    }
    return bound > stages_.most(request_.stages, last) ? kInfinity : bound;
  }

  // The least cost of stages of at most `last` seconds, less the prices of the limits.
  double solve(Seconds last, double second, const LimitPrices& prices) {
    Prices of_stages{second, std::vector<double>(static_cast<size_t>(request_.stages), 0)};
    for (size_t k = 0; k < limits_.size(); ++k) {
      for (size_t s = 0; s < of_stages.bytes.size(); ++s) {
        of_stages.bytes[s] += prices[k] * limits_[k].replicas[s];
      }
    }
    return stages_.solve(last, std::move(of_stages)) - credit(prices);
  }

  double credit(const LimitPrices& prices) const {
    double sum = 0;
    for (size_t k = 0; k < limits_.size(); ++k) {
      sum += prices[k] * static_cast<double>(limits_[k].limit);
    }
    return sum;
  }

  // A solution: its cost at the prices `from` is `sum`, and rises by `excess` for a multiple of the prices `along`.
  struct Line {
    double sum = 0;
    double excess = 0;
  };

  // The line of the last solution. If its cuts fit, they are also a result.
  Line line(const LimitPrices& from, const LimitPrices& along) {
    Partition made = stages_.cheapest();
    Seconds largest = 0;
    for (const PartitionStage& stage : made.stages) {
      largest = std::max(largest, stage.time());
    }
    Line line{made.objective - (request_.micro_batches - 1) * largest, 0};
    for (size_t k = 0; k < limits_.size(); ++k) {
      const auto space = static_cast<double>(limits_[k].space(made));
      line.sum -= from[k] * space;
      line.excess -= along[k] * space;
    }
    add_fitted(std::move(made));
    return line;
  }

  // Adds a result with these cuts if there are layers to run again with which it fits.
  void add_fitted(Partition made) {
    if (free_excess(request_, limits_, made)) {
      keep_layers(request_, limits_, made);
      add(std::move(made));
    }
  }

  // Searches a range with at most this many steps. Returns whether it was searched to its end.
  bool search(const Range& range, int64_t steps) {
    const int64_t before = steps;
    solve(range.last, 1, range.prices);
    auto made = search_labels(
        {request_, limits_, stages_, credit(range.prices), range.first, range.last, best_ * (1 - kEqual)}, steps);
    if (made) {
      add(std::move(*made));
    }
    steps_ -= before - steps;
    return steps >= 0;
  }

  // Adds a result, unless one with these cuts is as good.
  void add(Partition made) {
    const bool fits = request_.cap == 0 ||
                      std::ranges::all_of(made.stages, [&](const auto& stage) { return stage.memory <= request_.cap; });
    if (!fits) {
      return;
    }
    best_ = std::min(best_, made.objective);
    const auto known = std::ranges::find_if(found_, [&](const Partition& other) {
      return std::ranges::equal(made.stages, other.stages, {}, &PartitionStage::end, &PartitionStage::end);
    });
    if (known == found_.end()) {
      found_.push_back(std::move(made));
    } else if (made.objective < known->objective) {
      *known = std::move(made);
    }
  }

  const PartitionRequest& request_;
  std::vector<NodeLimit> limits_;
  PricedStages stages_;
  std::vector<Partition> found_;
  double best_ = kInfinity;
  int64_t steps_ = kSteps;  // that remain
};

// Whether all partitions within `other` are within `limit`.
bool implied(const NodeLimit& limit, const NodeLimit& other) {
  return limit.limit >= other.limit && std::ranges::equal(limit.replicas, other.replicas, std::less_equal<>());
}

}  // namespace

Bytes Partition::memory() const {
  Bytes sum = 0;
  for (const PartitionStage& stage : stages) {
    sum += stage.memory;
  }
  return sum;
}

Bytes NodeLimit::space(const Partition& partition) const {
  Bytes left = limit;
  for (size_t s = 0; s < replicas.size(); ++s) {
    left -= replicas[s] * partition.stages[s].memory;
  }
  return left;
}

std::vector<NodeLimit> shared_limits(const PartitionRequest& request) {
  std::vector<NodeLimit> limits = request.nodes;
  std::erase_if(
      limits, [](const NodeLimit& node) { return std::ranges::count(node.replicas, 0) == std::ssize(node.replicas); });
  if (request.total > 0) {
    limits.insert(limits.begin(), {request.total, std::vector<int>(static_cast<size_t>(request.stages), 1)});
  }
  for (size_t k = limits.size(); k-- > 0;) {
    const auto implies = [&](const NodeLimit& other) { return &other != &limits[k] && implied(limits[k], other); };
    if (std::ranges::any_of(limits, implies)) {
      limits.erase(limits.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  return limits;
}

std::vector<Partition> partition_within_shared(const PartitionRequest& request) {
  if (std::ranges::any_of(request.nodes, [](const NodeLimit& node) { return node.limit < 0; })) {
    return {};
  }
  return SharedPartitioner(request).run();
}

}  // namespace xrun::planner
