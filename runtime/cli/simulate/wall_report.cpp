#include "runtime/cli/simulate/wall_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "graph/base/utf8.h"
#include "planner/report/json.h"
#include "planner/report/table.h"

namespace xrun::cli {
namespace {

using planner::Align;
using planner::TextTable;
using Json = nlohmann::ordered_json;

constexpr const char* kSimulated = "instructions sleep and links between nodes are token buckets; no kernel runs";
constexpr size_t kTexts = 10;  // the column where the text begins in rows with a name and one text

std::string row(const std::string& name, const std::string& text, int columns) {
  return planner::wrapped("  " + name + std::string(kTexts - 2 - name.size(), ' ') + text, kTexts, columns) + "\n";
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string plan_text(const WallReport& report) {
  const auto of = [&](const std::string& name) {
    return std::ranges::find(report.settings, name, &std::pair<std::string, std::string>::first)->second;
  };
  const auto some = [&](const std::string& name, const std::string& what) {
    return counted(std::stoll(of(name)), what);
  };
  return some("stages", "stage") + ", " + some("replicas", "replica") + ", " + some("micro_batches", "micro-batch") +
         ", " + of("pipeline") + "; " + counted(static_cast<int64_t>(report.instructions), "instruction") + " on " +
         counted(static_cast<int64_t>(report.devices.size()), "device");
}

std::string clock_text(const WallReport& report) {
  return counted(static_cast<int64_t>(report.steps.size()), "step") +
         fmt::format("; a second of the plan takes {:g} s (--slow {:g})", report.slow, report.slow);
}

std::string noise_text(const WallReport& report) {
  return report.noise == 0 ? "none"
                           : fmt::format("normal, standard deviation {:g} % of the time of each computation, --seed {}",
                                         100 * report.noise, report.seed);
}

template <typename Get>
Spread spread(const WallReport& report, const Get& get) {
  std::vector<double> values;
  std::ranges::transform(report.steps, std::back_inserter(values), get);
  return spread_of(std::move(values));
}

Spread simulated(const WallReport& report) { return spread(report, &WallStepTimes::simulated); }
Spread measured(const WallReport& report) { return spread(report, &WallStepTimes::measured); }
// Times by the clock, divided by those that the simulator predicts for the noise of the step.
Spread ratio(const WallReport& report) {
  return spread(report, [](const WallStepTimes& step) { return step.measured / step.simulated; });
}

std::string steps_table(const WallReport& report) {
  TextTable table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight});
  table.add({"step", "median", "low", "high", "to predicted"});
  const auto add = [&](const std::string& name, const Spread& times) {
    table.add({name, format_seconds(times.median), format_seconds(times.low), format_seconds(times.high),
               fmt::format("{:.3f}", times.median / report.predicted)});
  };
  table.add({"predicted", format_seconds(report.predicted), "", "", "1.000"});
  if (report.noise > 0) {
    add("predicted with the noise", simulated(report));
  }
  add("by the clock", measured(report));
  const Spread ratios = ratio(report);
  return table.text("  ") +
         row("ratio",
             fmt::format("by the clock to predicted{}: median {:.3f}, from {:.3f} to {:.3f}",
                         report.noise > 0 ? " with the noise of the step" : "", ratios.median, ratios.low, ratios.high),
             0);
}

std::string devices_table(const WallReport& report) {
  TextTable table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight});
  table.add({"device", "busy: predicted", "by the clock", "idle: predicted", "by the clock"});
  for (size_t d = 0; d < report.devices.size(); ++d) {
    const WallDevice& device = report.devices[d];
    table.add({std::to_string(d), percent(device.predicted), percent(device.measured), percent(1 - device.predicted),
               percent(1 - device.measured)});
  }
  return table.text("  ");
}

Json json_of(const Spread& spread) { return {{"median", spread.median}, {"low", spread.low}, {"high", spread.high}}; }

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {.low = values.front(), .median = median, .high = values.back()};
}

std::string wall_text(const WallReport& report, int columns) {
  return planner::wrapped(printable_line("by the clock: " + report.model + " on " + report.machine), 0, columns) +
         "\n\n" + row("clock", clock_text(report), columns) + row("", kSimulated, columns) +
         row("plan", plan_text(report), columns) + row("noise", noise_text(report), columns) + "\n" +
         steps_table(report) + "\n" + devices_table(report);
}

std::string wall_csv(const WallReport& report) {
  std::string text = "step,predicted_seconds,predicted_with_noise_seconds,wall_seconds,slow,noise,seed\n";
  for (size_t s = 0; s < report.steps.size(); ++s) {
    const WallStepTimes& step = report.steps[s];
    text += fmt::format("{},{},{},{},{},{},{}\n", s, report.predicted, step.simulated, step.measured, report.slow,
                        report.noise, report.seed);
  }
  return text;
}

std::string wall_json(const WallReport& report) {
  Json document{{"v", 1}, {"model", report.model}, {"machine", report.machine}, {"simulated", kSimulated}};
  for (const auto& [name, value] : report.settings) {
    name == "pipeline" ? document[name] = value : document[name] = std::stoll(value);
  }
  document["instructions"] = report.instructions;
  document["slow"] = report.slow;
  document["noise"] = {{"distribution", "normal"}, {"deviation", report.noise}, {"seed", report.seed}};
  document["predicted_seconds"] = report.predicted;
  document["predicted_with_noise_seconds"] = json_of(simulated(report));
  document["wall_seconds"] = json_of(measured(report));
  document["ratio"] = json_of(ratio(report));
  document["steps"] = Json::array();
  for (const WallStepTimes& step : report.steps) {
    document["steps"].push_back({{"predicted_with_noise_seconds", step.simulated}, {"wall_seconds", step.measured}});
  }
  document["devices"] = Json::array();
  for (const WallDevice& device : report.devices) {
    document["devices"].push_back({{"predicted_busy", device.predicted}, {"wall_busy", device.measured}});
  }
  return planner::document_text(document);
}

}  // namespace xrun::cli
