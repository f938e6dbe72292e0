#include "planner/report/classes.h"

#include <nlohmann/json.hpp>

#include "graph/base/utf8.h"
#include "planner/report/json.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

const char* name_of(ClassLimit limit) {
  return limit == ClassLimit::kMemory ? "memory" : limit == ClassLimit::kDevice ? "memory_limit" : "class_numbers";
}

std::string limit_text(ClassLimit limit, const Module& module, const Machine& machine) {
  switch (limit) {
    case ClassLimit::kMemory:
      return format_bytes(machine.memory) + " of the machine";
    case ClassLimit::kDevice:
      return "memory_limit " + format_bytes(module.schedule.memory_limit->value) + " of a device";
    default:
      return "class numbers of 32 bits";
  }
}

}  // namespace

std::string report_classes(const ClassFits& fits, const Module& module, const Machine& machine, int columns) {
  const std::string head = "classes that fit on " + machine.name + ", head `" + fits.head + "` of " +
                           format_count(fits.dim) + " dims (the file has " + format_count(fits.classes) + ")";
  TextTable table(
      {Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft});
  table.add({"class rows", "active", "classes", "step", "memory", "limit", ""});
  for (const ClassFit& fit : fits.choices) {
    const std::string classes = fit.classes == 0 ? "none" : format_count(fit.classes);
    table.add({fit.rows, fit.active, (fit.complete ? "" : "at least ") + classes,
               fit.classes > 0 ? format_seconds(fit.step) : "", fit.classes > 0 ? format_bytes(fit.memory) : "",
               fit.complete ? limit_text(fit.limit, module, machine) : "not found in time",
               fit.of_text ? "as in the file" : ""});
  }
  const std::string note =
      "Varied: the classes of this head, which of them are active, and how their rows lie in "
      "memory. Data, labels and other layers are those of the file; disk is not counted.";
  return wrapped(printable_line(head), 0, columns) + "\n\n" + table.text("  ", columns) + "\n" +
         wrapped(note, 0, columns) + "\n";
}

std::string classes_json(const ClassFits& fits, const Module& module, const Machine& machine) {
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const ClassFit& fit : fits.choices) {
    choices.push_back({{"rows", fit.rows},
                       {"active", fit.active},
                       {"of_text", fit.of_text},
                       {"classes", fit.classes},
                       {"complete", fit.complete},
                       {"step_seconds", fit.step},
                       {"memory", fit.memory},
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
