// Steps: cut the graph in three usual orders; then look for cuts below the best of them by bisection. To find out
// whether stages of at most t seconds suffice, layers are put into stages one by one, always into the last stage, or if
// they do not fit there, into a new one. A set of layers may be reached in many orders, of which the one with the
// fewest stages, and then the least time in the last stage, is no worse than the others. If there are more sets of a
// size than a limit, those that waste the least time in closed stages are kept. If none had to be left out, a failure
// proves that t does not suffice. Tests: tests/planner/profiles/graph_cuts_test.cpp
#include "planner/profiles/graph_cuts.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

#include "graph/base/random.h"
#include "graph/directed_graph.h"
#include "planner/partition/balance.h"

namespace xrun::planner {
namespace {

constexpr size_t kMostSearched = 4096;  // larger graphs are cut in the usual orders only
constexpr int kBisections = 24;
constexpr double kClose = 1e-5;  // the bisection ends at this fraction of the time
constexpr double kRounding = 1e-12;

struct Graph : DirectedGraph {
  explicit Graph(const LayerProfile& profile) : DirectedGraph(profile.layers.size(), profile.edges) {
    for (const ProfiledLayer& layer : profile.layers) {
      times.push_back(layer.time());
    }
  }
  size_t size() const { return times.size(); }

  std::vector<Seconds> times;
};

// The number at the end of a name, such as 77 of "node77"; -1 if there is none.
int64_t number_of(const std::string& name) {
  size_t at = name.size();
  while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9' && name.size() - at < 18) {
    --at;
  }
  return at == name.size() ? -1 : std::stoll(name.substr(at));
}

// A set of layers that have a stage.
struct State {
  uint64_t hash = 0;
  int closed = 0;             // stages before the last one
  Seconds load = 0;           // time of the last stage
  Seconds sum = 0;            // time of all layers of the set
  int step = -1;              // index of the choice that led here
  std::vector<int> ready;     // layers that may come next
  std::vector<uint64_t> has;  // a bit for each layer of the set
};

struct Child {
  uint64_t hash = 0;
  int closed = 0;
  Seconds load = 0;
  Seconds waste = 0;  // time of closed stages that no layer uses
  size_t from = 0;    // index of the state
  int layer = 0;
};

class Search {
 public:
  Search(const Graph& graph, int stages)
      : graph_(graph),
        stages_(stages),
        width_(std::clamp<size_t>(100'000 / graph.size(), 32, 1000)),
        total_(std::accumulate(graph.times.begin(), graph.times.end(), 0.0)),
        reads_(graph.size()) {
    const RandomStream stream(1, 1);
    for (size_t l = 0; l < graph.size(); ++l) {
      hashes_.push_back(uint64_t{stream.bits(2 * l)} << 32 | stream.bits(2 * l + 1));
      for (const int reader : graph.readers[l]) {
        reads_[static_cast<size_t>(reader)].push_back(static_cast<int>(l));
      }
    }
  }

  // Returns an order and stages of at most `limit` seconds. Sets `complete` to whether all sets were looked at.
  std::optional<std::vector<std::vector<int>>> fit(Seconds limit, bool& complete) {
    complete = true;
    steps_.clear();
    std::vector<State> states(1);
    states[0].has.assign((graph_.size() + 63) / 64, 0);
    for (size_t l = 0; l < graph_.size(); ++l) {
      if (graph_.waits[l] == 0) {
        states[0].ready.push_back(static_cast<int>(l));
      }
    }
    for (size_t l = 0; l < graph_.size(); ++l) {
      std::vector<Child> children = children_of(states, limit);
      keep_best(children, complete);
      std::vector<State> next;
      for (const Child& child : children) {
        next.push_back(state_of(child, states[child.from]));
      }
      states = std::move(next);
      if (states.empty()) {
        return std::nullopt;
      }
    }
    return traced(states[0].step);
  }

  Seconds least() const { return std::max(total_ / stages_, *std::ranges::max_element(graph_.times)); }

 private:
  struct Step {
    int before = -1;
    int layer = 0;
    int stage = 0;
  };

  std::vector<Child> children_of(const std::vector<State>& states, Seconds limit) const {
    std::vector<Child> children;
    const auto add = [&](size_t i, int layer) {
      const State& state = states[i];
      const Seconds time = graph_.times[static_cast<size_t>(layer)];
      const bool fits = state.load + time <= limit;
      Child child{.hash = state.hash ^ hashes_[static_cast<size_t>(layer)],
                  .closed = state.closed + (fits ? 0 : 1),
                  .load = fits ? state.load + time : time,
                  .from = i,
                  .layer = layer};
      child.waste = child.closed * limit + child.load - state.sum - time;
      if (child.closed < stages_ && child.load <= limit &&
          child.waste <= stages_ * limit - total_ + kRounding * total_) {
        children.push_back(child);
      }
    };
    for (size_t i = 0; i < states.size(); ++i) {
      // A layer without time comes at once, since it takes nothing from other layers.
      const auto free = std::ranges::find_if(states[i].ready,
                                             [&](int layer) { return graph_.times[static_cast<size_t>(layer)] == 0; });
      if (free != states[i].ready.end()) {
        add(i, *free);
        continue;
      }
      for (const int layer : states[i].ready) {
        add(i, layer);
      }
    }
    return children;
  }

  // Keeps the best child for each set, and if there are too many sets, those with the least waste.
  void keep_best(std::vector<Child>& children, bool& complete) const {
    std::ranges::sort(children, {},
                      [](const Child& c) { return std::tuple(c.hash, c.closed, c.load, c.from, c.layer); });
    const auto same = std::ranges::unique(children, {}, &Child::hash);
    children.erase(same.begin(), same.end());
    if (children.size() > width_) {
      complete = false;
      std::ranges::sort(children, {}, [](const Child& c) { return std::tuple(c.waste, c.closed, c.hash); });
      children.resize(width_);
    }
  }

  State state_of(const Child& child, const State& from) {
    State state{.hash = child.hash, .closed = child.closed, .load = child.load, .ready = from.ready, .has = from.has};
    const auto layer = static_cast<size_t>(child.layer);
    state.sum = from.sum + graph_.times[layer];
    state.has[layer / 64] |= uint64_t{1} << (layer % 64);
    std::erase(state.ready, child.layer);
    for (const int reader : graph_.readers[layer]) {
      const bool all = std::ranges::all_of(reads_[static_cast<size_t>(reader)], [&](int read) {
        return (state.has[static_cast<size_t>(read) / 64] >> (read % 64) & 1) != 0;
      });
      if (all) {
        state.ready.push_back(reader);
      }
    }
    state.step = static_cast<int>(steps_.size());
    steps_.push_back({from.step, child.layer, child.closed});
    return state;
  }

  std::vector<std::vector<int>> traced(int step) const {
    std::vector<std::vector<int>> stages(static_cast<size_t>(steps_[static_cast<size_t>(step)].stage) + 1);
    for (; step >= 0; step = steps_[static_cast<size_t>(step)].before) {
      const Step& one = steps_[static_cast<size_t>(step)];
      stages[static_cast<size_t>(one.stage)].push_back(one.layer);
    }
    for (auto& stage : stages) {
      std::ranges::reverse(stage);
    }
    return stages;
  }

  const Graph& graph_;
  int stages_;
  size_t width_;  // sets of layers that are kept for each size
  Seconds total_;
  std::vector<std::vector<int>> reads_;
  std::vector<uint64_t> hashes_;
  std::vector<Step> steps_;
};

// Divides stages with several layers until there are enough, and sets the largest time.
GraphCuts completed(const Graph& graph, std::vector<std::vector<int>> stages, int wanted) {
  while (std::ssize(stages) < wanted) {
    const auto divided = std::ranges::find_if(stages, [](const auto& stage) { return stage.size() > 1; });
    const int last = divided->back();
    divided->pop_back();
    stages.insert(divided + 1, {last});
  }
  GraphCuts cuts{.stages = std::move(stages)};
  for (const auto& stage : cuts.stages) {
    Seconds time = 0;
    for (const int layer : stage) {
      time += graph.times[static_cast<size_t>(layer)];
    }
    cuts.largest = std::max(cuts.largest, time);
  }
  return cuts;
}

GraphCuts cut_order(const Graph& graph, const std::vector<int>& order, int stages) {
  std::vector<double> times;
  for (const int layer : order) {
    times.push_back(graph.times[static_cast<size_t>(layer)]);
  }
  const Cuts cuts = balance(times, stages);
  std::vector<std::vector<int>> made;
  for (size_t s = 0; s + 1 < cuts.size(); ++s) {
    made.emplace_back(order.begin() + cuts[s], order.begin() + cuts[s + 1]);
  }
  return completed(graph, std::move(made), stages);
}

}  // namespace

GraphCuts cut_graph(const LayerProfile& profile, int stages) {
  const Graph graph(profile);
  const std::vector<std::function<int64_t(int, int)>> orders{
      [](int layer, int) { return int64_t{layer}; },
      [&](int layer, int) { return number_of(profile.layers[static_cast<size_t>(layer)].name); },
      [](int, int turn) { return -int64_t{turn}; }};
  GraphCuts best;
  for (const auto& order : orders) {
    GraphCuts made = cut_order(graph, graph.order_by(order), stages);
    if (best.stages.empty() || made.largest < best.largest) {
      best = std::move(made);
    }
  }
  Search search(graph, stages);
  Seconds below = search.least();
  best.bound = below;
  for (int i = 0; graph.size() <= kMostSearched && i < kBisections && below < best.largest * (1 - kClose); ++i) {
    const Seconds limit = i == 0 ? below * (1 + kRounding) : (below + best.largest) / 2;
    bool complete = false;
    if (auto found = search.fit(limit, complete)) {
      const Seconds bound = best.bound;
      best = completed(graph, std::move(*found), stages);
      best.bound = bound;
    } else {
      below = std::max(below, limit);
      best.bound = complete ? limit : best.bound;
    }
  }
  best.bound = std::min(best.bound, best.largest);
  return best;
}

}  // namespace xrun::planner
