#include "planner/report/text.h"

#include <algorithm>
#include <cmath>

#include "graph/base/utf8.h"
#include "planner/program/run_memory.h"
#include "planner/report/certificate.h"
#include "planner/report/cluster_traffic.h"
#include "planner/report/compression.h"
#include "planner/report/device_kinds.h"
#include "planner/report/explain.h"
#include "planner/report/layers.h"
#include "planner/report/lines.h"
#include "planner/report/reason_text.h"
#include "planner/report/summary.h"
#include "planner/report/table.h"
#include "planner/search/fit.h"

namespace xrun::planner {
namespace {

std::string headline(const Plan& plan, int columns) {
  std::string left = printable_line(plan.model + " on " + plan.machine.name);
  const std::string right = printable_line("plan " + plan.id);
  const size_t width = columns > 0 ? static_cast<size_t>(std::min(columns, 85)) : 85;
  left.append(left.size() + right.size() + 1 < width ? width - left.size() - right.size() : 1, ' ');
  return left + right + "\n\n";
}

std::string parts_table(const Plan& plan, const Module& module, int columns) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  table.add({"part", "how", "parameters", "memory/device", "time"});
  int64_t parameters = 0;
  for (const PlanPart& part : list_parts(plan, module)) {
    parameters += part.parameters;
    table.add({part.name, part.how, part.parameters > 0 ? format_count(part.parameters) : "",
               part.memory > 0 ? format_bytes(part.memory) : "",
               (part.time < 0 ? "-" : "") + format_seconds(std::abs(part.time))});
  }
  table.add_rule();
  table.add({"", "", format_count(parameters), format_bytes(largest_device_of(plan.training)),
             format_seconds(plan.predicted.step)});
  return table.text("  ", columns);
}

// Returns a table with the arenas of all devices, and one line for the arenas of evaluation.
std::string devices_lines(const Plan& plan, const Module& module, const RunMemory& memory, int columns) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight});
  const bool gpus = plan.machine.has_gpus();
  const std::string name = gpus ? "gpu " : "cpu ";
  const auto add = [&](const DeviceSummary& device) {
    const bool host = device.device == kHost;
    table.add({host ? "devices  " : "", host ? "host" : name + std::to_string(device.device),
               host || gpus ? device.what
                            : device.what + (device.what.empty() ? "" : ", ") + std::to_string(device.threads) +
                                  (device.threads == 1 ? " thread" : " threads"),
               format_bytes(device.arena)});
  };
  for (const DeviceKind& kind : device_kinds(list_devices(plan, module))) {  // the first is the host
    add(kind.first);
    if (kind.count > 1) {
      table.add({"", kind.others(),
                 "the last is " + name + std::to_string(kind.last.device) + (kind.last.what.empty() ? "" : ": ") +
                     kind.last.what,
                 "at most " + format_bytes(kind.most)});
    }
  }
  if (memory.evaluation > 0) {
    table.add({"", "eval", "forward pass, mapped at the first evaluation", format_bytes(memory.evaluation)});
  }
  if (memory.saving > 0) {
    table.add({"", "save", "copies of rows for saves in the background", format_bytes(memory.saving)});
  }
  return table.text("  ", columns);
}

// Returns rows of choices and their reasons, and those of Plan::why.
std::string why_lines(const Plan& plan, std::vector<std::pair<std::string, std::string>> rows, int columns = 0) {
  for (const Reason& reason : plan.why) {
    rows.emplace_back(choice_text(reason), reason_text(reason));
  }
  TextTable table({Align::kLeft, Align::kLeft, Align::kLeft});
  bool first = true;
  for (const auto& [choice, reason] : rows) {
    table.add({first ? "why      " : "", choice, reason});
    first = false;
  }
  return rows.empty() ? "" : "\n" + table.text("  ", columns);
}

std::string others_lines(const std::string& name, const std::vector<Alternative>& others, int columns = 0) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft});
  bool first = true;
  for (const Alternative& other : others) {
    table.add({first ? name : "", settings_text(other), format_seconds(other.step), format_bytes(other.memory),
               note_text(other)});
    first = false;
  }
  return others.empty() ? "" : "\n" + table.text("  ", columns);
}

// Returns a table with the costs of other choices of active classes and formats.
std::string costs_lines(const Plan& plan, int columns) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kLeft});
  table.add({"classes  ", "of " + plan.costs_of, "step", "memory", "rows moved", ""});
  for (const HeadCost& cost : plan.costs) {
    table.add({"", head_choice_text(cost), format_seconds(cost.step), format_bytes(cost.memory),
               format_bytes(cost.moved),
               std::string(cost.chosen ? "chosen" : "changes training") + (cost.fits ? "" : ", does not fit")});
  }
  return plan.costs.empty() ? "" : "\n" + table.text("  ", columns);
}

std::string memory_table(const Plan& plan, const Module& module) {
  std::string text;
  for (const DeviceKind& kind : device_kinds(list_devices(plan, module))) {
    const DeviceSummary& device = kind.first;
    text += (device.device == kHost ? std::string("host") : "cpu " + std::to_string(device.device)) + "   " +
            device.what + "\n";
    TextTable table({Align::kLeft, Align::kRight});
    for (const MemoryPart& part : memory_parts(plan.training, device.device)) {
      table.add({part.name, format_bytes(part.bytes)});
    }
    table.add({"largest sum of live buffers", format_bytes(device.live_max)});
    table.add({"arena", format_bytes(device.arena)});
    text += table.text("  ");
    if (kind.count > 1) {
      text += kind.others() + ", the last is cpu " + std::to_string(kind.last.device) + ": arenas of " +
              format_bytes(kind.least) + " to " + format_bytes(kind.most) + "\n";
    }
  }
  const RunMemory memory = run_memory(module, plan.training, plan.inference);
  if (memory.evaluation > 0) {
    text +=
        "eval   forward pass, mapped at the first evaluation\n  all arenas  " + format_bytes(memory.evaluation) + "\n";
  }
  if (memory.saving > 0) {
    text += "save   copies of rows for saves in the background\n  at most  " + format_bytes(memory.saving) + "\n";
  }
  const std::string readers = readers_text(memory, plan);
  text += readers.empty() ? "" : "data   " + readers + "\n";
  return text + "Parts are those that are alive when the device needs most.\n";
}

std::string communication_table(const Plan& plan) {
  TextTable table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  table.add({"operation", "per step", "bytes", "time"});
  for (const CommSummary& one : list_communication(plan)) {
    table.add({one.what, format_count(one.count), format_bytes(one.bytes), format_seconds(one.time)});
  }
  const Seconds exposed = plan.predicted.exposed_comm;
  return table.text("") + "exposed communication: " + format_seconds(exposed) + " of a step of " +
         format_seconds(plan.predicted.step) + "\n" + network_table(plan);
}

std::string times_line(const Plan& plan) {
  return plan.layer_times ? "  times      " + layer_times_text(plan) + "\n" : "";
}

}  // namespace

std::string report_text(const Plan& plan, const Module& module, int columns) {
  constexpr size_t kTexts = 13;  // the column where the text begins in rows with a name and one text
  const RunMemory memory = run_memory(module, plan.training, plan.inference);
  const auto fold = [&](const std::string& line) {
    return line.empty() ? line : wrapped(line.substr(0, line.size() - 1), kTexts, columns) + "\n";
  };
  return headline(plan, columns) + parts_table(plan, module, columns) + "\n" + fold(predicted_line(plan, module)) +
         fold(bound_line(plan)) + fold(search_line(plan)) + fold(memory_line(plan, module, memory)) +
         fold(bits_line(plan)) + fold(disk_lines(plan, module)) + fold(communication_lines(plan)) +
         fold(network_lines(plan)) + fold(growth_line(plan)) + fold(compression_text(plan, module)) +
         fold(graphs_line(plan, module)) + fold(costs_line(plan)) + fold(times_line(plan)) +
         devices_lines(plan, module, memory, columns) + fold(data_line(plan, module, memory)) +
         why_lines(plan, {}, columns) + others_lines("also     ", plan.alternatives, columns) +
         costs_lines(plan, columns);
}

std::string report_table(const Plan& plan, const Module& module, std::string_view table, int depth) {
  if (table == "layers") {
    return layers_table(plan, module, depth);
  }
  if (table == "memory") {
    return memory_table(plan, module);
  }
  if (table == "comm") {
    return communication_table(plan);
  }
  if (table == "why") {
    std::string text = why_lines(plan, certificate_rows(plan)) + others_lines("also     ", plan.alternatives) +
                       others_lines("kinds    ", plan.other_kinds);
    const std::string times = costs_line(plan) + times_line(plan);
    text += times.empty() ? "" : "\n" + times;
    return text.empty() ? text : text.substr(1);
  }
  return "";
}

}  // namespace xrun::planner
