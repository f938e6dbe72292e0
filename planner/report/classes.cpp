// Tests: tests/planner/search/class_fit_test.cpp
#include "planner/report/classes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/base/utf8.h"
#include "planner/report/json.h"
#include "planner/report/table.h"
#include "planner/search/head_choices.h"

namespace xrun::planner {
namespace {

const char* name_of(ClassLimit limit) {
  return limit == ClassLimit::kMemory   ? "memory"
         : limit == ClassLimit::kNode   ? "node_memory"
         : limit == ClassLimit::kDevice ? "memory_limit"
                                        : "class_numbers";
}

std::string limit_text(ClassLimit limit, const Module& module, const Machine& machine) {
  switch (limit) {
    case ClassLimit::kMemory:
      return format_bytes(machine.memory) + " of the machine";
    case ClassLimit::kNode:
      return format_bytes(machine.node_memory) + " of a node";
    case ClassLimit::kDevice:
      return memory_limits(module, machine).device == machine.device_memory
                 ? format_bytes(machine.device_memory) + " of " + machine.gpu_with_article()
                 : "memory_limit " + format_bytes(module.schedule.memory_limit->value) + " of a device";
    default:
      return "class numbers of 32 bits";
  }
}

}  // namespace

std::string report_classes(const ClassFits& fits, const Module& module, const Machine& machine, int columns) {
  const std::string head = "classes that fit on " + machine.name + ", head `" + fits.head + "` of " +
                           format_count(fits.dim) + " dims (the file has " + format_count(fits.classes) + ")";
  // A column that would be empty for all choices is left out.
  const bool limited = module.schedule.memory_limit.has_value() || machine.has_gpus();
  const bool graphs = std::ranges::any_of(fits.choices, [](const ClassFit& fit) { return fit.graph > 0; });
  std::vector<Align> aligned{Align::kLeft, Align::kLeft, Align::kRight, Align::kRight};
  aligned.insert(aligned.end(), (graphs ? 1 : 0) + (limited ? 1 : 0) + 1, Align::kRight);
  aligned.insert(aligned.end(), 2, Align::kLeft);
  TextTable table(std::move(aligned));
  const auto add = [&](std::vector<std::string> row, const std::string& graph, const std::string& memory,
                       const std::string& device, std::vector<std::string> rest) {
    if (graphs) {
      row.push_back(graph);
    }
    row.push_back(memory);
    if (limited) {
      row.push_back(device);
    }
    row.insert(row.end(), rest.begin(), rest.end());
    table.add(std::move(row));
  };
  add({"class rows", "active", "classes", "step"}, "graph", "memory", "memory/device", {"limit", ""});
  for (const ClassFit& fit : fits.choices) {
    const std::string classes = fit.classes == 0 ? "none" : format_count(fit.classes);
    const bool any = fit.classes > 0;
    add({rows_text(fit.choice, fit.states), active_text(fit.choice.active), (fit.complete ? "" : "at least ") + classes,
         any ? format_seconds(fit.step) : ""},
        fit.graph > 0 ? format_seconds(fit.graph) : "", any ? format_bytes(fit.memory) : "",
        any ? format_bytes(fit.device) : "",
        {fit.complete ? limit_text(fit.limit, module, machine) : "not found in time",
         fit.of_text ? "as in the file" : ""});
  }
  const std::string note =
      "Varied: the classes of this head, which of them are active, and how their rows lie in "
      "memory. Data, labels and other layers are those of the file; disk is not counted." +
      std::string(graphs ? " graph: the time of one build of the graph, which the step times do not include." : "");
  return wrapped(printable_line(head), 0, columns) + "\n\n" + table.text("  ", columns) + "\n" +
         wrapped(note, 0, columns) + "\n";
}

std::string classes_json(const ClassFits& fits, const Module& module, const Machine& machine) {
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const ClassFit& fit : fits.choices) {
    choices.push_back({{"rows", rows_text(fit.choice, fit.states)},
                       {"active", active_text(fit.choice.active)},
                       {"of_text", fit.of_text},
                       {"classes", fit.classes},
                       {"complete", fit.complete},
                       {"step_seconds", fit.step},
                       {"graph_seconds", fit.graph},
                       {"memory", fit.memory},
                       {"device_memory", fit.device},
                       {"limit", name_of(fit.limit)}});
  }
  return document_text({{"v", kReportVersion},
                        {"model", module.model},
                        {"head", fits.head},
                        {"classes", fits.classes},
                        {"dim", fits.dim},
                        {"cluster", {{"name", machine.name}, {"memory", machine.memory}}},
                        {"choices", std::move(choices)},
                        {"plans", fits.plans}});
}

}  // namespace xrun::planner
