#include "planner/profiles/cuts_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "planner/report/json.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

constexpr double kMilliseconds = 1e3;
constexpr double kRounding = 1e-9;
constexpr double kSearched = 1e-5;  // the search ends at this difference between the bound and the result
constexpr size_t kShownSources = 5;

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

// Names the layers that read no other one, since an edge to them may be missing; empty if there are no such layers.
std::string sources_text(const LayerProfile& profile) {
  const std::vector<int> sources = profile.sources();
  if (sources.empty()) {
    return "";
  }
  std::string names;
  for (size_t i = 0; i < std::min(sources.size(), kShownSources); ++i) {
    names += (i == 0 ? "" : ", ") + label_of(profile.layers[static_cast<size_t>(sources[i])]);
  }
  const size_t more = sources.size() - std::min(sources.size(), kShownSources);
  return fmt::format("  {}{} {} no other layer: add the missing edges, unless the profile has none there\n", names,
                     more > 0 ? fmt::format(" and {} more", more) : "", sources.size() == 1 ? "reads" : "read");
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
  const double gap = cuts.largest > 0 ? 1 - cuts.bound / cuts.largest : 0;
  text += gap <= kRounding   ? "no other cuts have a smaller one\n"
          : gap <= kSearched ? "no other cuts have one that is more than 0.001 % smaller\n"
                             : fmt::format("no cuts have one below {}\n", format_seconds(cuts.bound));
  return text + sources_text(profile);
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
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (const int layer : profile.sources()) {
    sources.push_back(profile.layers[static_cast<size_t>(layer)].name);
  }
  return document_text({{"v", kReportVersion},
                        {"file", name},
                        {"stages", std::move(stages)},
                        {"bottleneck_ms", kMilliseconds * cuts.largest},
                        {"lower_bound_ms", kMilliseconds * cuts.bound},
                        {"sources", std::move(sources)}});
}

}  // namespace xrun::planner
