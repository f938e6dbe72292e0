// Tests: tests/planner/profiles/layer_times_test.cpp
#include "planner/profiles/given_times.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "graph/layouts/head_values.h"
#include "planner/cost/cost_model.h"
#include "planner/report/layers.h"

namespace xrun::planner {
namespace {

constexpr int kNoLayer = -1;

// The operators of a layer in one pass, with the sum of their times by the cost model.
struct PassSum {
  int nodes = 0;
  Seconds time = 0;
};

struct LayerSums {
  PassSum forward;
  PassSum backward;
};

class TimesSetter {
 public:
  TimesSetter(const LayerTimes& times, const Module& module, KernelFacts& facts)
      : times_(times), graph_(module.graph), rows_(module.train.norm_rows), facts_(facts) {
    XRUN_CHECK(facts.nodes.size() == graph_.nodes.size(), "the facts have an entry for each node");
  }

  Result<UsedTimes> run() {
    UsedTimes used{.rows = times_.rows, .layers = static_cast<int>(times_.layers.size())};
    XRUN_TRY(find_layers(used));
    XRUN_TRY(check_layers());
    const CostModel cost(facts_, machine_);
    std::vector<Seconds> times(graph_.nodes.size(), 0);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (PassSum* sum = sum_of(i)) {
        times[i] = cost.node(graph_, NodeId(i), rows_);
        ++sum->nodes;
        sum->time += times[i];
      }
    }
    XRUN_TRY(check_backward());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (const PassSum* sum = sum_of(i)) {
        const Seconds whole = time_of(static_cast<size_t>(layer_of_[i]), *sum);
        facts_.nodes[i].time = sum->time > 0 ? whole * (times[i] / sum->time) : whole / sum->nodes;
      }
    }
    return used;
  }

 private:
  Error fault(const TimedLayer& layer, Text message, Text help) const {
    return content_error("XG0632", fmt::format("{}:{}: {}", times_.file, layer.line, message.text), std::move(help));
  }

  // Finds the layer of each operator of the stages.
  Status find_layers(UsedTimes& used) {
    std::unordered_map<std::string_view, int> known;
    for (size_t l = 0; l < times_.layers.size(); ++l) {
      known[times_.layers[l].name] = static_cast<int>(l);
    }
    const auto of_head = values_of_heads(graph_);
    layer_of_.assign(graph_.nodes.size(), kNoLayer);
    sums_.resize(times_.layers.size());
    found_.assign(times_.layers.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase == Phase::kForward && !of_head[node.outputs[0]]) {
        ++used.all_nodes;
        XRUN_TRY(find_layer(i, known));
        used.nodes += layer_of_[i] != kNoLayer ? 1 : 0;
      }
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      layer_of_[i] = node.phase == Phase::kBackward ? layer_of_[static_cast<size_t>(node.forward.index)] : layer_of_[i];
    }
    return {};
  }

  // Looks for the name of a layer among the beginnings of a node's path.
  Status find_layer(size_t node, const std::unordered_map<std::string_view, int>& known) {
    const std::string_view path = graph_.nodes[node].path;
    for (size_t end = path.find('.'); true; end = path.find('.', end + 1)) {
      const auto at = known.find(path.substr(0, end));
      if (at != known.end() && layer_of_[node] != kNoLayer) {
        const TimedLayer& inner = times_.layers[static_cast<size_t>(at->second)];
        return fault(inner,
                     {"layer `{}` is part of `{}`, which has a time too", inner.name,
                      times_.layers[static_cast<size_t>(layer_of_[node])].name},
                     "give times of layers that have no operators in common");
      }
      if (at != known.end()) {
        layer_of_[node] = at->second;
        found_[static_cast<size_t>(at->second)] = true;
      }
      if (end == std::string_view::npos) {
        return {};
      }
    }
  }

  Status check_layers() const {
    for (size_t l = 0; l < times_.layers.size(); ++l) {
      const TimedLayer& layer = times_.layers[l];
      if (found_[l]) {
        continue;
      }
      if (const std::string head = head_named(layer.name); !head.empty()) {
        return fault(layer, {"`{}` is the head `{}`, whose times cannot be given", layer.name, head},
                     "leave it out: the classes of a head are divided among devices, and its times are those of the "
                     "cost model");
      }
      return fault(layer, {"the model has no layer `{}`", layer.name},
                   nearest_names(layer.name, names_like(layer.name)) + "; `xrun show FILE --table layers` lists them");
    }
    return {};
  }

  // Returns the head that a name of the file or of the table `layers` names; empty if there is none.
  std::string head_named(std::string_view name) const {
    for (const Head& head : graph_.heads) {
      if (name == head.name || name == "head " + head.name) {
        return head.name;
      }
    }
    return "";
  }

  // Returns the names of layers with as many parts as `name`, or those of the table if no layer has so many.
  std::vector<std::string> names_like(std::string_view name) const {
    const auto parts = static_cast<int>(1 + std::ranges::count(name, '.'));
    std::set<std::string> same;
    std::set<std::string> all;
    const auto of_head = values_of_heads(graph_);
    for (const Node& node : graph_.nodes) {
      if (node.phase == Phase::kForward && !of_head[node.outputs[0]]) {
        all.insert(layer_name(node.path, 0));
        if (std::ranges::count(node.path, '.') + 1 >= parts) {
          same.insert(layer_name(node.path, parts));
        }
      }
    }
    const std::set<std::string>& names = same.empty() ? all : same;
    return {names.begin(), names.end()};
  }

  Status check_backward() const {
    for (size_t l = 0; l < times_.layers.size(); ++l) {
      const TimedLayer& layer = times_.layers[l];
      if (layer.backward.value_or(0) > 0 && sums_[l].backward.nodes == 0) {
        return fault(layer, {"layer `{}` has no backward pass, and `backward_ms` is not 0", layer.name},
                     "leave `backward_ms` out, or train the layer");
      }
    }
    return {};
  }

  // Returns the sum to which an operator belongs; null if its layer has no time.
  PassSum* sum_of(size_t node) {
    if (layer_of_[node] == kNoLayer) {
      return nullptr;
    }
    LayerSums& sums = sums_[static_cast<size_t>(layer_of_[node])];
    return graph_.nodes[node].phase == Phase::kForward ? &sums.forward : &sums.backward;
  }

  // Returns the user's time of a pass over a row block of a layer.
  Seconds time_of(size_t at, const PassSum& sum) const {
    const TimedLayer& layer = times_.layers[at];
    const double block = static_cast<double>(rows_) / static_cast<double>(times_.rows);
    const PassSum& forward = sums_[at].forward;
    if (&sum == &forward) {
      return layer.forward * block;
    }
    const double ratio = forward.time > 0 ? sum.time / forward.time : 1;
    return layer.backward.value_or(layer.forward * ratio) * block;
  }

  const LayerTimes& times_;
  const Graph& graph_;
  int64_t rows_;
  KernelFacts& facts_;
  Machine machine_;
  std::vector<int> layer_of_;  // index: NodeId
  std::vector<bool> found_;    // index: layer of the file
  std::vector<LayerSums> sums_;
};

}  // namespace

Result<UsedTimes> use_layer_times(const LayerTimes& times, const Module& module, KernelFacts& facts) {
  return TimesSetter(times, module, facts).run();
}

}  // namespace xrun::planner
