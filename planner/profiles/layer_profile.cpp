// Tests: tests/planner/profiles/layer_profile_test.cpp
#include "planner/profiles/layer_profile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "graph/base/errors.h"
#include "graph/directed_graph.h"

namespace xrun::planner {
namespace {

constexpr size_t kMostLayers = 100'000;
constexpr size_t kMostEdges = 1'000'000;
constexpr Seconds kMillisecond = 1e-3;
constexpr std::string_view kBetween = " -- ";

class Parser {
 public:
  explicit Parser(std::string_view name) : name_(name) {}

  Result<LayerProfile> parse(std::string_view text) {
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
      return fault(line_, "neither a layer nor an edge; lines of edges begin with a tab", kForm);
    }
    if (profile_.layers.size() == kMostLayers) {
      return fault(line_, "more than 100 000 layers", "merge layers, or profile a smaller model");
    }
    ProfiledLayer layer{.name = std::string(line.substr(0, first)),
                        .kind = std::string(line.substr(first + kBetween.size(), last - first - kBetween.size()))};
    layer.is_input = layer.kind.starts_with("Input");
    const std::string_view values = line.substr(last + kBetween.size());
    XRUN_ASSIGN(layer.forward, read_time(values, "forward_compute_time"));
    XRUN_ASSIGN(layer.backward, read_time(values, "backward_compute_time"));
    if (!places_.emplace(layer.name, profile_.layers.size()).second) {
      return fault(line_, {"`{}` is there twice", layer.name}, "give each layer a name of its own");
    }
    profile_.layers.push_back(std::move(layer));
    return {};
  }

  Result<Seconds> read_time(std::string_view values, std::string_view key) const {
    const size_t at = values.find(std::string(key) + "=");
    if (at == std::string_view::npos) {
      return fault(line_, {"no `{}`", key}, {"add it in milliseconds: {}=1.5", key});
    }
    const std::string_view rest = values.substr(at + key.size() + 1);
    const std::string_view number = rest.substr(0, std::min(rest.find_first_of(", "), rest.size()));
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value) || value < 0) {
      return fault(line_, {"`{}={}` is not a time in milliseconds", key, number}, "write a finite number from 0 on");
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

  // The layers of a cycle, and those after it, have no place in an order.
  Status check_order() const {
    const DirectedGraph graph(profile_.layers.size(), profile_.edges);
    std::vector<bool> ordered(profile_.layers.size(), false);
    for (const int layer : graph.order_by([](int node, int) { return node; })) {
      ordered[static_cast<size_t>(layer)] = true;
    }
    for (size_t e = 0; e < edges_.size(); ++e) {
      const auto [from, to] = profile_.edges[e];
      if (!ordered[static_cast<size_t>(from)] && !ordered[static_cast<size_t>(to)]) {
        return fault(edges_[e].line, {"`{}` and `{}` are in or after a cycle", edges_[e].from, edges_[e].to},
                     "remove the edge that closes the cycle");
      }
    }
    return {};
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

Result<LayerProfile> parse_profile(std::string_view text, std::string_view name) { return Parser(name).parse(text); }

}  // namespace xrun::planner
