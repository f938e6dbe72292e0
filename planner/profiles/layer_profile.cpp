// Tests: tests/planner/profiles/layer_profile_test.cpp
#include "planner/profiles/layer_profile.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>

#include "graph/base/errors.h"
#include "graph/directed_graph.h"

namespace xrun::planner {
namespace {

constexpr size_t kMostLayers = 100'000;
constexpr size_t kMostEdges = 1'000'000;
constexpr double kMostMilliseconds = 1e9;
constexpr Seconds kMillisecond = 1e-3;
constexpr size_t kShownOfCycle = 6;  // layers of a cycle that its message names
constexpr std::string_view kBetween = " -- ";

std::string_view without_spaces(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

class Parser {
 public:
  explicit Parser(std::string_view name) : name_(name) {}

  Result<LayerProfile> parse(std::string_view text) {
    if (constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF"; text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
    }
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      ++line_;
      if (line.ends_with('\r')) {
        line.remove_suffix(1);
      }
      if (line.find_first_not_of(" \t") != std::string_view::npos) {
        XRUN_TRY(line.starts_with('\t') ? read_edge(line.substr(1)) : read_layer(line));
      }
    }
    XRUN_TRY(resolve_edges());
    XRUN_TRY(check_order());
    return std::move(profile_);
  }

 private:
  using Values = std::map<std::string_view, std::string_view>;
  struct Edge {
    std::string from;
    std::string to;
    int line = 0;
  };

  Error fault(int line, Text message, Text help) const {
    return content_error("XG0631", fmt::format("{}:{}: {}", name_, line, message.text), std::move(help));
  }

  Status read_layer(std::string_view line) {
    constexpr const char* kForm = "write NAME -- KIND -- forward_compute_time=MS, backward_compute_time=MS, ...";
    const size_t first = line.find(kBetween);
    const size_t last = line.rfind(kBetween);
    if (first == std::string_view::npos || first == last) {
      return fault(line_, "neither a layer nor an edge; lines of edges begin with a tab",
                   without_spaces(line).starts_with('{')
                       ? Text("times as JSON are those of a model: xrun plan MODEL.xgraph --layer-times {}", name_)
                       : Text(kForm));
    }
    if (profile_.layers.size() == kMostLayers) {
      return fault(line_, "more than 100 000 layers", "merge layers, or profile a smaller model");
    }
    ProfiledLayer layer{.name = std::string(line.substr(0, first)),
                        .kind = std::string(line.substr(first + kBetween.size(), last - first - kBetween.size()))};
    layer.is_input = layer.kind.starts_with("Input");
    XRUN_ASSIGN(const Values values, read_values(line.substr(last + kBetween.size())));
    XRUN_ASSIGN(layer.forward, read_time(values, "forward_compute_time"));
    XRUN_ASSIGN(layer.backward, read_time(values, "backward_compute_time"));
    if (!places_.emplace(layer.name, profile_.layers.size()).second) {
      return fault(line_, {"`{}` is there twice", layer.name}, "give each layer a name of its own");
    }
    profile_.layers.push_back(std::move(layer));
    return {};
  }

  // Reads "KEY=VALUE, KEY=VALUE, ...".
  Result<Values> read_values(std::string_view text) const {
    Values values;
    while (true) {
      const size_t end = std::min(text.find(','), text.size());
      const std::string_view part = without_spaces(text.substr(0, end));
      const size_t equals = part.find('=');
      if (equals == std::string_view::npos) {
        return fault(line_, {"`{}` is not KEY=VALUE", part},
                     "put commas only between values; the decimal sign is a point: 1.5");
      }
      if (!values.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
        return fault(line_, {"`{}` is there twice", part.substr(0, equals)}, "remove one of the two");
      }
      if (end == text.size()) {
        return values;
      }
      text.remove_prefix(end + 1);
    }
  }

  Result<Seconds> read_time(const Values& values, std::string_view key) const {
    const auto at = values.find(key);
    if (at == values.end()) {
      return fault(line_, {"no `{}`", key}, {"add it in milliseconds: {}=1.5", key});
    }
    const std::string_view number = at->second;
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool whole = error == std::errc() && end == number.data() + number.size();
    if (!whole || !(value >= 0 && value <= kMostMilliseconds)) {
      return fault(line_, {"`{}={}` is not a time in milliseconds", key, number},
                   "write a number from 0 to 10^9 without a unit");
    }
    return value * kMillisecond;
  }

  Status read_edge(std::string_view line) {
    const size_t between = line.find(kBetween);
    if (between == std::string_view::npos) {
      return fault(line_, "an edge needs two layers", "write a tab, then NAME -- NAME: the second reads the first");
    }
    if (edges_.size() == kMostEdges) {
      return fault(line_, "more than 1 000 000 edges", "merge layers, or profile a smaller model");
    }
    edges_.push_back(
        {std::string(line.substr(0, between)), std::string(line.substr(between + kBetween.size())), line_});
    return {};
  }

  Status resolve_edges() {
    if (profile_.layers.empty()) {
      return fault(1, "the profile has no layers", "name a profile in the format of PipeDream");
    }
    if (edges_.empty() && profile_.layers.size() > 1) {
      return fault(line_, "the profile has no edges, so the order of its layers is unknown",
                   "add a line for each layer that reads another one: a tab, then NAME -- NAME");
    }
    for (const Edge& edge : edges_) {
      for (const std::string& layer : {edge.from, edge.to}) {
        if (!places_.contains(layer)) {
          return fault(edge.line, {"there is no layer `{}`", layer}, "correct the name, or add the layer");
        }
      }
      profile_.edges.emplace_back(static_cast<int>(places_.at(edge.from)), static_cast<int>(places_.at(edge.to)));
    }
    return {};
  }

  // The layers of a cycle, and those after it, have no place in an order. Each of them reads another one, so a walk
  // from a layer to one that it reads, and on, comes to a cycle.
  Status check_order() const {
    const DirectedGraph graph(profile_.layers.size(), profile_.edges);
    std::vector<bool> ordered(profile_.layers.size(), false);
    for (const int layer : graph.order_by([](int node, int) { return node; })) {
      ordered[static_cast<size_t>(layer)] = true;
    }
    std::vector<int> read(profile_.layers.size(), -1);  // index: layer; its last edge from a layer without a place
    for (size_t e = 0; e < edges_.size(); ++e) {
      const auto [from, to] = profile_.edges[e];
      if (!ordered[static_cast<size_t>(from)]) {
        read[static_cast<size_t>(to)] = static_cast<int>(e);
      }
    }
    const auto first = std::ranges::find(ordered, false);
    return first == ordered.end() ? Status() : Status(cycle(read, static_cast<int>(first - ordered.begin())));
  }

  Error cycle(const std::vector<int>& read, int layer) const {
    std::vector<int> walk;  // edges, each to the layer from which the one before it comes
    std::vector<int> turn(profile_.layers.size(), -1);
    while (turn[static_cast<size_t>(layer)] < 0) {
      turn[static_cast<size_t>(layer)] = static_cast<int>(walk.size());
      walk.push_back(read[static_cast<size_t>(layer)]);
      layer = profile_.edges[static_cast<size_t>(walk.back())].first;
    }
    walk.erase(walk.begin(), walk.begin() + turn[static_cast<size_t>(layer)]);
    std::string names = profile_.layers[static_cast<size_t>(layer)].name;
    for (size_t i = walk.size(); i-- > 0;) {
      const bool shown = walk.size() - i <= kShownOfCycle || i == 0;
      const bool left_out = !shown && walk.size() - i == kShownOfCycle + 1;
      names += shown ? " -> " + edges_[static_cast<size_t>(walk[i])].to : left_out ? " -> ..." : "";
    }
    const int last = edges_[static_cast<size_t>(std::ranges::max(walk))].line;
    return fault(last, {"the edges form a cycle: {}", names}, "remove one of them, or turn it round");
  }

  std::string_view name_;
  int line_ = 0;
  LayerProfile profile_;
  std::vector<Edge> edges_;
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace

Seconds LayerProfile::time() const {
  Seconds sum = 0;
  for (const ProfiledLayer& layer : layers) {
    sum += layer.time();
  }
  return sum;
}

std::vector<int> LayerProfile::sources() const {
  std::vector<bool> reads(layers.size(), false);
  for (const auto& [from, to] : edges) {
    reads[static_cast<size_t>(to)] = true;
  }
  std::vector<int> found;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!reads[i] && !layers[i].is_input) {
      found.push_back(static_cast<int>(i));
    }
  }
  return found;
}

Result<LayerProfile> parse_profile(std::string_view text, std::string_view name) { return Parser(name).parse(text); }

}  // namespace xrun::planner
