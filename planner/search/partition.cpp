// The objective is the sum of all stage times plus (M - 1) times the largest one. For a fixed bound t on the largest
// stage, dynamic programming minimises the sum: g[s][j] is the least time of the first j layers on s stages with no
// stage above t. The bounds t are tried in ascending order, and the optimum is the best of g[K][n] + (M - 1) · (largest
// stage used), for K stages, n layers and M micro-batches. No further bounds are tried as soon as the least time of all
// layers + (M - 1) · t is no better than the best result so far. Source: Zheng et al., "Alpa", OSDI 2022, section 5.2,
// with recomputation per stage (docs/internals/algorithms.md, "Partition").
#include "planner/search/partition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "graph/base/check.h"
#include "planner/search/coarse_layers.h"
#include "planner/search/total_memory.h"

namespace xrun::planner {
namespace {

// With up to this many layers, every bound on the largest stage is tried. With more, bounds within 1 / 1000 of each
// other are tried once.
constexpr int kExactLayers = 48;

// With more layers than this, neighbouring layers are merged, since the tables grow with the square of the layers.
constexpr int kMostLayers = 2048;
// Replaces kMostLayers if each stage chooses the layers to run again.
constexpr int kMostLayersChosen = 256;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Times and costs of every possible stage, by the number of micro-batches that it holds.
class StageTable {
 public:
  explicit StageTable(const PartitionRequest& request) : request_(request), size_(request.layers.size() + 1) {
    // Without a limit or price of memory, the number of held micro-batches makes no difference.
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

  // Returns the times of stage `s` if it begins at layer `begin`; index: end. A time is infinite if the stage does not
  // fit.
  const Seconds* times(int s, int begin) const {
    return by_stage_[static_cast<size_t>(s)]->times.data() + static_cast<size_t>(begin) * size_;
  }
  // Returns these times plus the price of the memory that the stage holds.
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
    std::vector<Seconds> costs;  // empty if memory has no price
  };
  size_t place(int begin, int end) const { return static_cast<size_t>(begin) * size_ + static_cast<size_t>(end); }

  void fill(int held, Table& table) const {
    const double price = request_.seconds_per_kept_byte;
    table.times.assign(size_ * size_, kInfinity);
    table.costs.assign(price > 0 ? size_ * size_ : 0, kInfinity);
    const int n = static_cast<int>(request_.layers.size());
    // A single stage has all layers.
    const bool whole = request_.stages == 1;
    for (int begin = 0; begin < (whole ? 1 : n); ++begin) {
      StageSums sums(request_, held, begin);
      for (int end = begin + 1; end <= n; ++end) {
        sums.add_layer();
        if (whole && end < n) {
          continue;
        }
        PartitionStage stage{.begin = begin, .end = end, .forward = sums.forward(), .backward = sums.backward()};
        stage.memory = sums.memory();
        if (!sums.fits() && (request_.recompute != Recompute::kAuto || !choose_recompute(request_, held, stage))) {
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

// Sets each of next[first .. last] to the sum of `before`, its cost and its hop, if the sum is smaller. Most of the
// time is spent in this loop. The compiler vectorizes it, but not if the function is inlined.
[[gnu::noinline]] void lower(double* __restrict next, double before, const double* costs, const double* hops, int first,
                             int last) {
  for (int j = first; j <= last; ++j) {
    const double sum = before + costs[j] + hops[j];
    const double known = next[j];
    next[j] = sum < known ? sum : known;
  }
}

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
      possible(bounds[middle]) ? high = middle : low = middle + 1;
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
          continue;  // a bound close to the last one would give almost the same partition
        }
      } else if (n_ > kExactLayers) {
        // Bounds within 1 / 1000 form a window, since no prediction of many layers is more exact. The last bound of a
        // window allows all cuts that the others allow; the first one would exclude the best cuts.
        const auto behind =
            std::upper_bound(bounds.begin() + static_cast<std::ptrdiff_t>(at), bounds.end(), 1.001 * bounds[at]);
        at = static_cast<size_t>(behind - bounds.begin()) - 1;
      }
      seen = bounds[at];
      const double sum = cheapest(bounds[at]);
      Partition made = trace(bounds[at], sum);
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

  // The last positions at which stage `s` may end or begin: each later stage needs a layer, and no cut is after
  // last_cut_.
  int last_end(int s) const { return n_ - (request_.stages - s - 1); }
  int last_begin(int s) const { return s == 0 ? 0 : std::min(last_cut_, last_end(s) - 1); }

  // The range of ends of a stage `s` that begins at layer `begin` and takes at most `limit`. The ends form one range,
  // since more layers never take less time. The last stage ends with the last layer.
  struct Ends {
    int first = 0;
    int last = -1;
  };
  Ends ends_within(Seconds limit, int s, int begin) const {
    const Seconds* times = table_.times(s, begin);
    const int end = std::min(pin_ends_[static_cast<size_t>(s)][static_cast<size_t>(begin)], last_end(s));
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
      for (int i = s; i <= last_begin(s); ++i) {
        if (now[static_cast<size_t>(i)] == 0 || request_.layers[static_cast<size_t>(i)].joined) {
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

  // Whether a stage may begin at layer `i`. `before` is the least time of the stages before it, infinite if there are
  // no such cuts.
  bool begins(int i, double before) const {
    return before < kInfinity && !request_.layers[static_cast<size_t>(i)].joined;
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
      for (int i = s; i <= last_begin(s); ++i) {
        if (begins(i, now[i])) {
          const Seconds* costs = table_.costs(s, i);
          const Ends ends = ends_within(limit, s, i);
          lower(next, now[i], costs, hops_.data(), ends.first, ends.last);
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
    for (int i = s; i <= last_begin(s); ++i) {
      if (begins(i, now[i])) {
        const Ends ends = ends_within(limit, s, i);
        if (ends.first <= end && end <= ends.last &&
            now[i] + table_.costs(s, i)[end] + hops_[static_cast<size_t>(end)] == best_of(s + 1)[end]) {
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
  std::vector<Seconds> hops_;               // index: position; time of the hop to a stage that begins there
  std::vector<std::vector<int>> pin_ends_;  // [stage][layer]: the first later layer that is pinned to another stage
  std::vector<double> best_;                // [stages][layers]
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
