// The objective is the sum of all stage times plus (M - 1) times the largest one. Its least value for stage times of at
// most t is not known, but a lower bound is: at a price of memory, layers and cuts are chosen independently of the
// limit (planner/partition/priced_stages.h), and for every price, the least cost less the price of the total is a
// bound. The best price is found by intersecting lines: each solution is a line, its time plus price times its excess
// of memory.
//
// Steps: the range of possible largest stages is divided into ranges. For each, the bound is computed; solutions that
// it finds and that fit are results. Ranges are visited in ascending order of their bounds. A range whose bound is no
// better than the best result is dropped; a wide one is divided; in a narrow one, all partitions are searched
// (planner/partition/label_search.h). Source: constrained shortest paths by Lagrangian relaxation and labels, Handler
// and Zang, Networks 1980.
#include "planner/partition/total_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

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
// Steps of the label search before it is given up: less than a tenth of a second.
constexpr int64_t kSteps = 2'000'000;
constexpr int64_t kStepsOfRange = kSteps / 32;
constexpr int kPrices = 60;  // prices that are tried for one range; a few suffice

// Seconds from `first` to `last` that the largest stage may take.
struct Range {
  Seconds first = 0;
  Seconds last = 0;
  double bound = 0;  // no partition of the range has a smaller objective
  Prices prices;     // that give the bound
};

class TotalPartitioner {
 public:
  explicit TotalPartitioner(const PartitionRequest& request) : request_(request), stages_(request) {}

  std::vector<Partition> run() {
    Seconds all = 0;
    for (const PartitionLayer& layer : request_.layers) {
      all += 2 * layer.forward + layer.backward;
    }
    const auto later = [](const Range& a, const Range& b) { return a.bound > b.bound; };
    std::priority_queue<Range, std::vector<Range>, decltype(later)> ranges(later);
    ranges.push(bounded(0, all * (1 + kRounding)));
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
        ranges.push(bounded(range.first, middle));
        ranges.push(bounded(middle, range.last));
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
  // Returns the range with its bound; the bound is infinite if no partition of the range fits.
  Range bounded(Seconds first, Seconds last) {
    Range range{.first = first, .last = last, .bound = kInfinity};
    const double least = (request_.micro_batches - 1) * first;
    // Without a price, and with a price of memory alone.
    if (stages_.solve(last, {1, 0}) == kInfinity) {
      return range;
    }
    Line over = line();
    if (over.excess <= 0) {
      return {first, last, over.sum + least, {1, 0}};
    }
    stages_.solve(last, {0, 1});
    Line under = line();
    if (under.excess > 0) {
      return range;
    }
    for (int i = 0; i < kPrices; ++i) {
      const double price = (under.sum - over.sum) / (over.excess - under.excess);
      const double meeting = over.sum + price * over.excess;
      const double bound = stages_.solve(last, {1, price}) - price * static_cast<double>(request_.total);
      range.bound = bound > stages_.most(request_.stages, last) ? kInfinity : bound + least;
      range.prices = {1, price};
      const Line found = line();
      if (bound >= meeting - kRounding * std::abs(meeting)) {
        break;
      }
      (found.excess > 0 ? over : under) = found;
    }
    return range;
  }

  // A solution: its time is `sum` and its memory exceeds the total by `excess` bytes.
  struct Line {
    double sum = 0;
    double excess = 0;
  };

  // The line of the last solution. If the solution fits, it is also a result.
  Line line() {
    Partition made = stages_.cheapest();
    Seconds largest = 0;
    for (const PartitionStage& stage : made.stages) {
      largest = std::max(largest, stage.time());
    }
    const Line line{made.objective - (request_.micro_batches - 1) * largest,
                    static_cast<double>(made.memory() - request_.total)};
    if (line.excess <= 0) {
      keep_layers(made);
      add(std::move(made));
    }
    return line;
  }

  // Keeps the values of layers in the memory that remains, those that cost most per byte first.
  void keep_layers(Partition& made) const {
    Bytes space = request_.total - made.memory();
    for (size_t s = 0; s < made.stages.size(); ++s) {
      PartitionStage& stage = made.stages[s];
      const Bytes held = stages_.held(static_cast<int>(s));
      std::vector<int> order = stage.recomputed;
      std::ranges::stable_sort(order, std::greater<>(), [&](int l) {
        const PartitionLayer& layer = request_.layers[static_cast<size_t>(l)];
        return layer.forward / static_cast<double>(layer.saved);
      });
      for (const int l : order) {
        const Bytes bytes = held * request_.layers[static_cast<size_t>(l)].saved;
        if (bytes <= space && (request_.cap == 0 || stage.memory + bytes <= request_.cap)) {
          std::erase(stage.recomputed, l);
          stage.memory += bytes;
          space -= bytes;
        }
      }
    }
    measure(request_, made);
  }

  // Searches a range with at most this many steps. Returns whether it was searched to its end.
  bool search(const Range& range, int64_t steps) {
    const int64_t before = steps;
    stages_.solve(range.last, range.prices);
    auto made =
        search_labels({request_, stages_, range.prices.byte, range.first, range.last, best_ * (1 - kEqual)}, steps);
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
  PricedStages stages_;
  std::vector<Partition> found_;
  double best_ = kInfinity;
  int64_t steps_ = kSteps;  // that remain
};

}  // namespace

Bytes Partition::memory() const {
  Bytes sum = 0;
  for (const PartitionStage& stage : stages) {
    sum += stage.memory;
  }
  return sum;
}

std::vector<Partition> partition_within_total(const PartitionRequest& request) {
  return TotalPartitioner(request).run();
}

}  // namespace xrun::planner
