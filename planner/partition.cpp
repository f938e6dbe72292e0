// partition: for each bound t of the largest stage, ascending, g[s][j] = cheapest first j layers on s stages with no
// stage above t; the optimum is the best of g[K][n] + (M - 1) · (largest stage used). The bounds end as soon as the
// cheapest sum of all + (M - 1) · t is no better than what is known.
// Source: Zheng et al., "Alpa", OSDI 2022, section 5.2, with recomputation per stage (ALGORITHMS II.3).
#include "planner/partition.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

// Up to so many layers every bound is tried.
constexpr int kExactLayers = 48;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> prefix_sums(const std::vector<double>& weights) {
  std::vector<double> sums(weights.size() + 1, 0);
  for (size_t i = 0; i < weights.size(); ++i) {
    sums[i + 1] = sums[i] + weights[i];
  }
  return sums;
}

// Fills stages greedily up to `limit`; empty when that takes more than `stages`. Stages that are left over are cut off
// the end one layer each, which never makes a stage larger.
Cuts fill(const std::vector<double>& sums, int stages, double limit) {
  const int n = static_cast<int>(sums.size()) - 1;
  Cuts cuts{0};
  while (cuts.back() < n) {
    const int begin = cuts.back();
    const int most = n - (stages - static_cast<int>(cuts.size()));  // the stages behind need a layer each
    int end = begin;
    while (end < most && sums[static_cast<size_t>(end) + 1] - sums[static_cast<size_t>(begin)] <= limit) {
      ++end;
    }
    if (end == begin || static_cast<int>(cuts.size()) > stages) {
      return {};
    }
    cuts.push_back(end);
  }
  return static_cast<int>(cuts.size()) == stages + 1 ? cuts : Cuts{};
}

// Branch and bound for the cheapest subset that frees `need` bytes: layers by seconds a byte, the bound takes the last
// one in part.
class Cheapest {
 public:
  Cheapest(const PartitionRequest& request, const PartitionStage& stage, Bytes need) {
    for (int l = stage.begin; l < stage.end; ++l) {
      const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
      if (layer.saved > 0) {
        items_.push_back({l, layer.saved, layer.forward});
      }
    }
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      const double left = a.seconds * static_cast<double>(b.bytes);
      const double right = b.seconds * static_cast<double>(a.bytes);
      return left != right ? left < right : a.layer < b.layer;
    });
    search(0, need, 0);
  }

  bool found() const { return best_ < kInfinity; }
  std::vector<int> layers() const {
    std::vector<int> sorted = chosen_best_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  struct Item {
    int layer;
    Bytes bytes;
    Seconds seconds;
  };

  double bound(size_t at, Bytes need) const {
    double sum = 0;
    for (; at < items_.size() && need > 0; ++at) {
      if (items_[at].bytes >= need) {
        return sum + items_[at].seconds * static_cast<double>(need) / static_cast<double>(items_[at].bytes);
      }
      sum += items_[at].seconds;
      need -= items_[at].bytes;
    }
    return need > 0 ? kInfinity : sum;
  }

  void search(size_t at, Bytes need, double spent) {
    if (need <= 0) {
      if (spent < best_) {
        best_ = spent;
        chosen_best_ = chosen_;
      }
      return;
    }
    if (at == items_.size() || visits_-- <= 0 || spent + bound(at, need) >= best_) {
      return;
    }
    chosen_.push_back(items_[at].layer);
    search(at + 1, need - items_[at].bytes, spent + items_[at].seconds);
    chosen_.pop_back();
    size_t next = at + 1;  // leaving one of several equal layers leaves them all: the order among them is free
    while (next < items_.size() && items_[next].bytes == items_[at].bytes &&
           items_[next].seconds == items_[at].seconds) {
      ++next;
    }
    search(next, need, spent);
  }

  std::vector<Item> items_;
  std::vector<int> chosen_;
  std::vector<int> chosen_best_;
  double best_ = kInfinity;
  int visits_ = 200000;  // the first descent is greedy and good: what is found by then is kept
};

// Every stage that could be, by the number of micro-batches that it holds.
class StageTable {
 public:
  explicit StageTable(const PartitionRequest& request) : request_(request), size_(request.layers.size() + 1) {
    for (int s = 0; s < request.stages; ++s) {
      const int held = micro_batches_held(request.pipeline, s, request.stages, request.micro_batches);
      auto& table = by_held_[held];
      if (table.empty()) {
        fill(held, table);
      }
      by_stage_.push_back(&table);
    }
  }

  // Time of layers begin..end-1 as stage `s`; infinite when it does not fit.
  Seconds time(int s, int begin, int end) const { return (*by_stage_[static_cast<size_t>(s)])[place(begin, end)]; }

  std::vector<Seconds> distinct_times() const {
    std::vector<Seconds> times;
    for (const auto& [held, table] : by_held_) {
      std::copy_if(table.begin(), table.end(), std::back_inserter(times), [](Seconds t) { return t < kInfinity; });
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    return times;
  }

 private:
  const PartitionRequest& request_;
  size_t place(int begin, int end) const { return static_cast<size_t>(begin) * size_ + static_cast<size_t>(end); }

  void fill(int held, std::vector<Seconds>& table) const {
    table.assign(size_ * size_, kInfinity);
    const int n = static_cast<int>(request_.layers.size());
    for (int begin = 0; begin < n; ++begin) {
      for (int end = begin + 1; end <= n; ++end) {
        PartitionStage stage{.begin = begin, .end = end};
        if (!choose_recompute(request_, held, stage)) {
          break;  // nor do more layers
        }
        table[place(begin, end)] = stage.time();
      }
    }
  }

  size_t size_;
  std::map<int, std::vector<Seconds>> by_held_;
  std::vector<const std::vector<Seconds>*> by_stage_;
};

class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request)
      : request_(request),
        n_(static_cast<int>(request.layers.size())),
        last_cut_(request.last_cut > 0 ? request.last_cut : n_ - 1),
        table_(request) {}

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
    // The smallest bound under which anything fits.
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
      // An alternative near the last one is the same plan; and no prediction of many layers is exact to 1 / 1000.
      const double apart = floor >= best ? 1.01 : n_ > kExactLayers ? 1.001 : 1.0;
      if (bounds[at] < seen * apart) {
        continue;
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
    return found;
  }

 private:
  double hop(int position) const {
    return position == n_ ? 0.0
                          : request_.seconds_per_boundary_byte *
                                static_cast<double>(request_.layers[static_cast<size_t>(position)].incoming);
  }

  // Cheapest sum of all stages with none above `limit`; leaves the choices behind for trace.
  double cheapest(Seconds limit) {
    const int stages = request_.stages;
    best_.assign(static_cast<size_t>(stages) + 1, std::vector<double>(static_cast<size_t>(n_) + 1, kInfinity));
    from_.assign(best_.size(), std::vector<int>(static_cast<size_t>(n_) + 1, -1));
    best_[0][0] = 0;
    for (int s = 0; s < stages; ++s) {
      for (int i = s; i <= (s == 0 ? 0 : std::min(last_cut_, n_ - (stages - s))); ++i) {
        const double before = best_[static_cast<size_t>(s)][static_cast<size_t>(i)];
        if (before == kInfinity) {
          continue;
        }
        for (int j = i + 1; j <= n_ - (stages - s - 1); ++j) {
          const int pinned = request_.layers[static_cast<size_t>(j) - 1].pinned;
          if (pinned >= 0 && pinned != s) {
            break;
          }
          const Seconds time = table_.time(s, i, j);
          if (time > limit) {
            break;  // more layers never take less time
          }
          if (s + 1 == stages && j < n_) {
            continue;
          }
          double& place = best_[static_cast<size_t>(s) + 1][static_cast<size_t>(j)];
          const double sum = before + time + hop(j);
          if (sum < place) {
            place = sum;
            from_[static_cast<size_t>(s) + 1][static_cast<size_t>(j)] = i;
          }
        }
      }
    }
    return best_[static_cast<size_t>(stages)][static_cast<size_t>(n_)];
  }

  Partition trace(double sum) const {
    Partition made;
    made.stages.resize(static_cast<size_t>(request_.stages));
    Seconds largest = 0;
    int end = n_;
    for (int s = request_.stages - 1; s >= 0; --s) {
      const int begin = from_[static_cast<size_t>(s) + 1][static_cast<size_t>(end)];
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
  std::vector<std::vector<double>> best_;
  std::vector<std::vector<int>> from_;
};

}  // namespace

Cuts balance(const std::vector<double>& weights, int stages) {
  const int n = static_cast<int>(weights.size());
  XRUN_CHECK(stages >= 1 && stages <= n, "between one stage and as many as layers");
  const std::vector<double> sums = prefix_sums(weights);
  std::vector<std::vector<double>> best(static_cast<size_t>(stages) + 1,
                                        std::vector<double>(static_cast<size_t>(n) + 1, kInfinity));
  std::vector<std::vector<int>> from(best.size(), std::vector<int>(static_cast<size_t>(n) + 1, -1));
  best[0][0] = 0;
  for (size_t s = 1; s < best.size(); ++s) {
    for (size_t j = s; j <= static_cast<size_t>(n); ++j) {
      for (size_t i = s - 1; i < j; ++i) {
        const double largest = std::max(best[s - 1][i], sums[j] - sums[i]);
        if (largest < best[s][j]) {
          best[s][j] = largest;
          from[s][j] = static_cast<int>(i);
        }
      }
    }
  }
  Cuts cuts(static_cast<size_t>(stages) + 1, n);
  for (int s = stages; s > 0; --s) {
    cuts[static_cast<size_t>(s) - 1] = from[static_cast<size_t>(s)][static_cast<size_t>(cuts[static_cast<size_t>(s)])];
  }
  return cuts;
}

Cuts balance_by_bisection(const std::vector<double>& weights, int stages) {
  XRUN_CHECK(stages >= 1 && stages <= static_cast<int>(weights.size()), "between one stage and as many as layers");
  const std::vector<double> sums = prefix_sums(weights);
  // Numbers that are not negative are ordered as their bits are.
  auto low = std::bit_cast<uint64_t>(0.0);
  auto high = std::bit_cast<uint64_t>(sums.back());
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    fill(sums, stages, std::bit_cast<double>(middle)).empty() ? low = middle + 1 : high = middle;
  }
  return fill(sums, stages, std::bit_cast<double>(high));
}

double bottleneck(const std::vector<double>& weights, const Cuts& cuts) {
  const std::vector<double> sums = prefix_sums(weights);
  double largest = 0;
  for (size_t s = 0; s + 1 < cuts.size(); ++s) {
    largest = std::max(largest, sums[static_cast<size_t>(cuts[s + 1])] - sums[static_cast<size_t>(cuts[s])]);
  }
  return largest;
}

int micro_batches_held(PipelineKind pipeline, int stage, int stages, int micro_batches) {
  return pipeline == PipelineKind::kGpipe ? micro_batches : std::min(micro_batches, stages - stage);
}

bool choose_recompute(const PartitionRequest& request, int held, PartitionStage& stage) {
  stage.recomputed.clear();
  stage.forward = 0;
  stage.backward = 0;
  Bytes resident = 0;
  Bytes saved = 0;
  for (int l = stage.begin; l < stage.end; ++l) {
    const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
    stage.forward += layer.forward;
    stage.backward += layer.backward;
    resident += layer.resident;
    saved += layer.saved;
  }
  resident += held * request.layers[static_cast<size_t>(stage.begin)].incoming;
  stage.memory = resident + held * saved;
  const bool fits = request.cap == 0 || stage.memory <= request.cap;
  if (request.recompute == Recompute::kNone || (request.recompute == Recompute::kAuto && fits)) {
    return fits;
  }
  if (request.recompute != Recompute::kAuto) {
    for (int l = stage.begin; l < stage.end; ++l) {
      if (request.recompute == Recompute::kAll || request.layers[static_cast<size_t>(l)].again) {
        stage.recomputed.push_back(l);
      }
    }
  } else {
    // held · (bytes freed) must cover what is too much.
    const Bytes need = (stage.memory - request.cap + held - 1) / held;
    const Cheapest cheapest(request, stage, need);
    if (!cheapest.found()) {
      return false;
    }
    stage.recomputed = cheapest.layers();
  }
  for (const int l : stage.recomputed) {
    stage.backward += request.layers[static_cast<size_t>(l)].forward;
    stage.memory -= held * request.layers[static_cast<size_t>(l)].saved;
  }
  return request.cap == 0 || stage.memory <= request.cap;
}

std::vector<Partition> partition(const PartitionRequest& request) {
  if (request.stages < 1 || request.stages > static_cast<int>(request.layers.size())) {
    return {};
  }
  return Partitioner(request).run();
}

}  // namespace xrun::planner
