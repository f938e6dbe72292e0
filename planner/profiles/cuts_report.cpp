#include "planner/profiles/cuts_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "planner/report/json.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

constexpr double kMilliseconds = 1e3;
constexpr double kProven = 1 + 1e-4;  // a bound that is nearer than this is printed as the optimum

Seconds time_of(const LayerProfile& profile, const std::vector<int>& stage) {
  Seconds sum = 0;
  for (const int layer : stage) {
    sum += profile.layers[static_cast<size_t>(layer)].time();
  }
  return sum;
}

// The name of a layer with its kind, without the arguments of the kind.
std::string label_of(const ProfiledLayer& layer) {
  return layer.name + " " + layer.kind.substr(0, layer.kind.find('('));
}

}  // namespace

std::string report_cuts(const LayerProfile& profile, const GraphCuts& cuts, const std::string& name, int columns) {
  std::string text = fmt::format("{}   {}   {} for a forward and a backward pass\n\n", name,
                                 counted(std::ssize(profile.layers), "layer"), format_seconds(profile.time()));
  TextTable table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft});
  table.add({"stage", "layers", "time", "of largest", "first", "last"});
  for (size_t s = 0; s < cuts.stages.size(); ++s) {
    const std::vector<int>& stage = cuts.stages[s];
    const Seconds time = time_of(profile, stage);
    table.add({std::to_string(s), std::to_string(stage.size()), format_seconds(time),
               fmt::format("{:.1f} %", cuts.largest > 0 ? 100 * time / cuts.largest : 0),
               label_of(profile.layers[static_cast<size_t>(stage.front())]),
               label_of(profile.layers[static_cast<size_t>(stage.back())])});
  }
  text += table.text("  ", columns);
  text += fmt::format("\n  largest stage {}; ", format_seconds(cuts.largest));
  text += cuts.largest <= cuts.bound * kProven ? "no other cuts have a smaller one\n"
                                               : fmt::format("no cuts have one below {}\n", format_seconds(cuts.bound));
  return text;
}

std::string cuts_json(const LayerProfile& profile, const GraphCuts& cuts, const std::string& name) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const std::vector<int>& stage : cuts.stages) {
    nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
    for (const int layer : stage) {
      nodes.push_back(profile.layers[static_cast<size_t>(layer)].name);
    }
    stages.push_back({{"nodes", std::move(nodes)}, {"time_ms", kMilliseconds * time_of(profile, stage)}});
  }
  return document_text({{"v", kReportVersion},
                        {"file", name},
                        {"stages", std::move(stages)},
                        {"bottleneck_ms", kMilliseconds * cuts.largest},
                        {"lower_bound_ms", kMilliseconds * cuts.bound}});
}

}  // namespace xrun::planner
