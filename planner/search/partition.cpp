// partition: for each bound t of the largest stage, ascending, g[s][j] = least time of the first j layers on s stages
// with no stage above t; the optimum is the best of g[K][n] + (M - 1) · (largest stage used). The bounds end as soon as
// the least time of all layers + (M - 1) · t is no better than the best result so far.
// Source: Zheng et al., "Alpa", OSDI 2022, section 5.2, with recomputation per stage (docs/algorithms.md, "Partition").
#include "planner/search/partition.h"

#include <algorithm>
#include <limits>
#include <map>

#include "graph/base/check.h"
#include "planner/search/coarse_layers.h"
#include "planner/search/total_memory.h"

namespace xrun::planner {
namespace {

// Up to this many layers, every bound is tried.
constexpr int kExactLayers = 48;

// Beyond this, neighbours are merged, since the tables below grow with the square of the layers.
constexpr int kMostLayers = 2048;
// The same where each stage chooses the layers to run again.
constexpr int kMostLayersChosen = 256;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Times and costs of every possible stage, by the number of micro-batches that it holds.
class StageTable {
 public:
  explicit StageTable(const PartitionRequest& request) : request_(request), size_(request.layers.size() + 1) {
    // Where memory has neither limit nor price, the number of micro-batches that are held makes no difference.
    const bool alike = request.cap == 0 && request.seconds_per_kept_byte == 0;
    for (int s = 0; s < request.stages; ++s) {
      const int held = micro_batches_held(request.pipeline, s, request.stages, request.micro_batches);
      Table& table = by_held_[alike ? 0 : held];
      if (table.times.empty()) {
        fill(held, table);
      }
      by_stage_.push_back(&table);
    }
  }

  // Times of stage `s` from layer `begin`, by end; infinite where it does not fit.
  const Seconds* times(int s, int begin) const {
    return by_stage_[static_cast<size_t>(s)]->times.data() + static_cast<size_t>(begin) * size_;
  }
  // The same plus the price of the memory that the stage holds.
  const Seconds* costs(int s, int begin) const {
    const Table& table = *by_stage_[static_cast<size_t>(s)];
    return (table.costs.empty() ? table.times : table.costs).data() + static_cast<size_t>(begin) * size_;
  }

  std::vector<Seconds> distinct_times() const {
    std::vector<Seconds> times;
    for (const auto& [held, table] : by_held_) {
      std::copy_if(table.times.begin(), table.times.end(), std::back_inserter(times),
                   [](Seconds t) { return t < kInfinity; });
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    return times;
  }

 private:
  struct Table {
    std::vector<Seconds> times;
    std::vector<Seconds> costs;  // empty where memory has no price
  };
  size_t place(int begin, int end) const { return static_cast<size_t>(begin) * size_ + static_cast<size_t>(end); }

  void fill(int held, Table& table) const {
    const double price = request_.seconds_per_kept_byte;
    table.times.assign(size_ * size_, kInfinity);
    table.costs.assign(price > 0 ? size_ * size_ : 0, kInfinity);
    const int n = static_cast<int>(request_.layers.size());
    // Where nothing runs again, one more layer adds its time to the stage.
    const bool plain = request_.cap == 0 && price == 0 &&
                       (request_.recompute == Recompute::kNone || request_.recompute == Recompute::kAuto);
    // A single stage has all layers.
    const bool whole = request_.stages == 1;
    for (int begin = 0; begin < (whole ? 1 : n); ++begin) {
      PartitionStage stage{.begin = begin};
      for (int end = whole && !plain ? n : begin + 1; end <= n; ++end) {
        stage.end = end;
        if (plain) {
          stage.forward += request_.layers[static_cast<size_t>(end) - 1].forward;
          stage.backward += request_.layers[static_cast<size_t>(end) - 1].backward;
        } else if (!choose_recompute(request_, held, stage)) {
          break;  // more layers do not fit either
        }
        table.times[place(begin, end)] = stage.time();
        if (price > 0) {
          table.costs[place(begin, end)] = stage.time() + price * static_cast<double>(stage.memory);
        }
      }
    }
  }

  const PartitionRequest& request_;
  size_t size_;
  std::map<int, Table> by_held_;
  std::vector<const Table*> by_stage_;
};

class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request)
      : request_(request),
        n_(static_cast<int>(request.layers.size())),
        last_cut_(request.last_cut > 0 ? request.last_cut : n_ - 1),
        table_(request) {
    for (int position = 0; position <= n_; ++position) {
      hops_.push_back(hop(position));
    }
    for (int s = 0; s < request.stages; ++s) {
      auto& ends = pin_ends_.emplace_back(static_cast<size_t>(n_) + 1, n_);
      for (int i = n_ - 1; i >= 0; --i) {
        const int pinned = request.layers[static_cast<size_t>(i)].pinned;
        ends[static_cast<size_t>(i)] = pinned >= 0 && pinned != s ? i : ends[static_cast<size_t>(i) + 1];
      }
    }
  }

  std::vector<Partition> run() {
    std::vector<Partition> found;
    const std::vector<Seconds> bounds = table_.distinct_times();
    if (bounds.empty()) {
      return found;
    }
    const double rest = request_.micro_batches - 1;
    const double least = cheapest(bounds.back());
    if (least == kInfinity) {
      return found;
    }
    // Finds the smallest bound under which any cuts fit.
    size_t low = 0;
    for (size_t high = bounds.size() - 1; low < high;) {
      const size_t middle = (low + high) / 2;
      cheapest(bounds[middle]) < kInfinity ? high = middle : low = middle + 1;
    }
    double best = kInfinity;
    double worth = kInfinity;  // alternatives within a quarter of the optimum are worth a simulation
    double seen = 0;
    for (size_t at = low; at < bounds.size(); ++at) {
      const double floor = least + rest * bounds[at];
      const bool enough = static_cast<int>(found.size()) >= request_.candidates;
      if (floor >= best && (enough || floor > worth)) {
        break;
      }
      if (floor >= best) {
        if (bounds[at] < 1.01 * seen) {
          continue;  // an alternative near the last one is the same plan
        }
      } else if (n_ > kExactLayers) {
        // No prediction of many layers is exact to 1 / 1000. The last bound of such a window allows all cuts that the
        // others allow; the first one would exclude the best cuts of the window.
        const auto behind =
            std::upper_bound(bounds.begin() + static_cast<std::ptrdiff_t>(at), bounds.end(), 1.001 * bounds[at]);
        at = static_cast<size_t>(behind - bounds.begin()) - 1;
      }
      seen = bounds[at];
      const double sum = cheapest(bounds[at]);
      Partition made = trace(sum);
      if (made.objective < best) {
        best = made.objective;
        worth = 1.25 * best;
      }
      add(found, std::move(made));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Partition& a, const Partition& b) { return a.objective < b.objective; });
    found.resize(std::min(found.size(), static_cast<size_t>(std::max(1, request_.candidates))));
    for (Partition& made : found) {
      made.objective -= request_.seconds_per_kept_byte * static_cast<double>(made.memory());
    }
    return found;
  }

 private:
  double hop(int position) const {
    return position == n_ ? 0.0
                          : request_.seconds_per_boundary_byte *
                                static_cast<double>(request_.layers[static_cast<size_t>(position)].incoming);
  }

  // The least sum of all stages with none above `limit`; records the choices for trace.
  double cheapest(Seconds limit) {
    const int stages = request_.stages;
    const auto width = static_cast<size_t>(n_) + 1;
    best_.assign((static_cast<size_t>(stages) + 1) * width, kInfinity);
    from_.assign(best_.size(), -1);
    best_[0] = 0;
    for (int s = 0; s < stages; ++s) {
      const double* now = best_.data() + static_cast<size_t>(s) * width;
      double* next = best_.data() + static_cast<size_t>(s + 1) * width;
      int* from = from_.data() + static_cast<size_t>(s + 1) * width;
      // The last stage ends with the last layer; other stages leave a layer for each stage behind them.
      const bool last = s + 1 == stages;
      const int most = n_ - (stages - s - 1);
      for (int i = s; i <= (s == 0 ? 0 : std::min(last_cut_, most - 1)); ++i) {
        const double before = now[i];
        if (before == kInfinity || request_.layers[static_cast<size_t>(i)].joined) {
          continue;
        }
        const Seconds* times = table_.times(s, i);
        const Seconds* costs = table_.costs(s, i);
        const int end = std::min(pin_ends_[static_cast<size_t>(s)][static_cast<size_t>(i)], most);
        for (int j = last ? n_ : i + 1; j <= end; ++j) {
          if (times[j] > limit) {
            break;  // more layers never take less time
          }
          const double sum = before + costs[j] + hops_[static_cast<size_t>(j)];
          if (sum < next[j]) {
            next[j] = sum;
            from[j] = i;
          }
        }
      }
    }
    return best_.back();
  }

  Partition trace(double sum) const {
    Partition made;
    made.stages.resize(static_cast<size_t>(request_.stages));
    Seconds largest = 0;
    int end = n_;
    for (int s = request_.stages - 1; s >= 0; --s) {
      const int begin = from_[(static_cast<size_t>(s) + 1) * (static_cast<size_t>(n_) + 1) + static_cast<size_t>(end)];
      PartitionStage& stage = made.stages[static_cast<size_t>(s)];
      stage.begin = begin;
      stage.end = end;
      const bool fits = choose_recompute(
          request_, micro_batches_held(request_.pipeline, s, request_.stages, request_.micro_batches), stage);
      XRUN_CHECK(fits, "a stage of the optimum does not fit");
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
  int last_cut_;
  StageTable table_;
  std::vector<Seconds> hops_;               // by position
  std::vector<std::vector<int>> pin_ends_;  // [stage][layer]: the first one behind it that is pinned to another stage
  std::vector<double> best_;                // [stages][layers]
  std::vector<int> from_;
};

std::vector<Partition> partition_layers(const PartitionRequest& request) {
  const int most =
      (request.cap > 0 || request.total > 0) && request.recompute == Recompute::kAuto ? kMostLayersChosen : kMostLayers;
  if (static_cast<int>(request.layers.size()) <= most) {
    return Partitioner(request).run();
  }
  const CoarseLayers coarse = merge_layers(request, most);
  std::vector<Partition> found = Partitioner(coarse.request).run();
  for (Partition& each : found) {
    refine(request, coarse, each);
  }
  return found;
}

}  // namespace

std::vector<Partition> partition(const PartitionRequest& request) {
  if (request.stages < 1 || request.stages > static_cast<int>(request.layers.size())) {
    return {};
  }
  return request.total > 0 && request.recompute == Recompute::kAuto ? partition_within_total(request, partition_layers)
                                                                    : partition_layers(request);
}

}  // namespace xrun::planner
