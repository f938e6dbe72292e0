// Tests: tests/planner/report/sweep/sweep_text_test.cpp, tests/cases/simulate_test.cpp
#include "planner/report/sweep/sweep_page.h"

#include <nlohmann/json.hpp>

#include "planner/report/json.h"
#include "planner/report/sweep/sweep_text.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const SimulatedPlan& plan, double speed_up) {
  Json parts = Json::array();
  for (const StepPart& part : plan.parts.parts) {
    parts.push_back({{"name", part.name}, {"seconds", part.time}, {"with_hidden_seconds", part.whole}});
  }
  Json settings = Json::object();
  for (const auto& [name, value] : plan.settings) {
    settings[name] = value;
  }
  Json json{
      {"plan", plan.id},
      {"machine", plan.machine},
      {"devices", plan.devices},
      {"memory", plan.memory},
      {"tightest_memory", {{"what", plan.tightest.what}, {"used", plan.tightest.used}, {"limit", plan.tightest.limit}}},
      {"step_seconds", plan.step},
      {"samples_per_second", plan.samples_per_second},
      {"speed_up", speed_up},
      {"idle", plan.idle},
      {"limit", plan.limit},
      {"settings", std::move(settings)},
      {"settings_text", settings_text(plan)},
      {"step_device", plan.parts.device},
      {"step_parts", std::move(parts)}};
  if (plan.parts.lists > 0) {
    json["lists_seconds"] = plan.parts.lists;
  }
  if (plan.epoch) {
    json["samples"] = plan.samples;
    json["epoch_seconds"] = *plan.epoch;
  }
  if (!plan.not_run.empty()) {
    json["not_run"] = plan.not_run;
  }
  return json;
}

Json json_of(const Sweep& sweep, const SweepPoint& point) {
  Json values = Json::object();
  for (size_t k = 0; k < sweep.keys.size(); ++k) {
    values[sweep.keys[k]] = point.values[k];
  }
  Json json{{"values", std::move(values)}};
  if (point.plan) {
    json["plan"] = json_of(*point.plan, sweep.speed_up(point));
  } else {
    json["error"] = {{"code", point.code}, {"message", point.reason}};
  }
  return json;
}

}  // namespace

Json sweep_document(const Sweep& sweep) {
  Json points = Json::array();
  for (const SweepPoint& point : sweep.points) {
    points.push_back(json_of(sweep, point));
  }
  Json wins = Json::array();
  for (const Winner& one : winners(sweep)) {
    wins.push_back({{"decision", one.decision}, {"value", one.value}, {"where", one.where}, {"points", one.points}});
  }
  const auto fastest = sweep.fastest();
  Json document{{"v", kSweepVersion},
                {"model", sweep.model},
                {"modelled", true},
                {"costs", sweep.costs},
                {"not_run", sweep.not_run()},
                {"keys", sweep.keys},
                {"points", std::move(points)},
                {"fastest", fastest ? Json(*fastest) : Json()},
                {"winners", std::move(wins)}};
  if (sweep.fit) {
    const KeyFit& fit = *sweep.fit;
    document["fit"] = {{"largest", fit.largest},
                       {"next", fit.next ? Json(*fit.next) : Json()},
                       {"complete", fit.complete},
                       {"out_of_order", fit.out_of_order},
                       {"text", fit_text(sweep)}};
  }
  return document;
}

std::string sweep_json(const Sweep& sweep) { return document_text(sweep_document(sweep)); }

std::string sweep_page(const Sweep& sweep) {
  PageParts parts = page_parts();
  std::string scripts;
  for (const PageText& part : page_texts()) {
    scripts += part.name == "elements" ? part.text : "";
  }
  for (const PageText& part : sweep_texts()) {
    if (part.name == "markup") {
      parts.markup = part.text;
    } else {
      scripts += part.text;
    }
  }
  parts.scripts = std::move(scripts);
  return join_page(parts, sweep.model + ", simulated", sweep_document(sweep));
}

}  // namespace xrun::planner
