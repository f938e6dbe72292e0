#include "planner/report/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "graph/base/counted.h"
#include "graph/base/utf8.h"
#include "graph/settings/reader_def.h"
#include "planner/cost/graph_builds.h"
#include "planner/program/rows_on_disk.h"
#include "planner/program/run_memory.h"
#include "planner/program/save_size.h"
#include "planner/report/cluster_traffic.h"
#include "planner/report/compression.h"
#include "planner/report/device_kinds.h"
#include "planner/report/explain.h"
#include "planner/report/reason_text.h"
#include "planner/report/summary.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

std::string format(const char* pattern, double value) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string bar(double share, int width) {
  const int filled = std::clamp(static_cast<int>(std::lround(share * width)), 0, width);
  return "[" + std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(width - filled), ' ') +
         "]";
}

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
               part.memory > 0 ? format_bytes(part.memory) : "", format_seconds(part.time)});
  }
  Bytes largest = 0;
  for (const Arena& arena : plan.training.arenas) {
    largest = std::max(largest, arena.device == kHost ? 0 : arena.bytes);
  }
  table.add_rule();
  table.add({"", "", format_count(parameters), format_bytes(largest), format_seconds(plan.predicted.step)});
  return table.text("  ", columns);
}

std::string predicted_line(const Plan& plan, const Module& module) {
  const Prediction& predicted = plan.predicted;
  const auto whole = static_cast<int64_t>(std::llround(predicted.images_per_second));
  std::string line = "  predicted  " + format_count(whole) + " samples/s";
  const RunTimes times = run_times(plan, module);
  if (times.epoch) {
    line += "     epoch " + format_seconds(*times.epoch);
  }
  const TrainSpan& span = module.train.duration;
  const bool epochs = span.unit == TrainSpan::kEpochs;
  if (times.run && !(epochs && span.amount == 1)) {
    const double steps = span.steps(plan.samples, module.train.batch);
    line += "     " +
            (epochs ? format("%g epochs ", span.amount)
                    : format_count(static_cast<int64_t>(std::ceil(steps))) + " steps ") +
            format_seconds(*times.run);
  }
  if (predicted.bubble + predicted.imbalance > 5e-4) {
    line += format("     idle %.1f %%", 100 * (predicted.bubble + predicted.imbalance));
  }
  return line + "\n";
}

std::string memory_line(const Plan& plan, const RunMemory& memory) {
  const auto usable = static_cast<double>(plan.machine.memory);
  const Bytes sum = memory.sum() + decoding_of(plan);
  const double share = usable > 0 ? static_cast<double>(sum) / usable : 0;
  return "  memory     " + bar(share, 37) + "  " + format_bytes(sum) + " of " + format_bytes(plan.machine.memory) +
         "\n";
}

// Returns a note that results come from generated samples; empty if there are no such samples.
std::string synthetic_text(const Module& module) {
  std::string text;
  for (const std::string& name : synthetic_sources(module.data)) {
    text += (text.empty() ? "synthetic: " : ", ") + name;
  }
  return text;
}

// Returns a text about the memory of readers and decoders; empty if it is 0.
std::string readers_text(const RunMemory& memory, const Plan& plan) {
  std::string text = memory.readers > 0 ? "at most " + format_bytes(memory.readers) + " for readers" : "";
  if (!memory.uncounted.empty()) {
    text += (text.empty() ? "not counted for readers: the files of " : "; not counted: the files of ");
    for (size_t i = 0; i < memory.uncounted.size(); ++i) {
      text += (i == 0 ? "" : ", ") + memory.uncounted[i];
    }
  }
  if (plan.decoding > 0) {
    text += (text.empty() ? "" : "; ") + format_bytes(decoding_of(plan)) + " to decode pictures, " +
            format_bytes(plan.decoding) + " a worker";
  }
  return text;
}

// Returns a table with the arenas of all devices, and one line for the arenas of evaluation.
std::string devices_lines(const Plan& plan, const Module& module, const RunMemory& memory, int columns) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight});
  const auto add = [&](const DeviceSummary& device) {
    const bool host = device.device == kHost;
    table.add({host ? "devices  " : "", host ? "host" : "cpu " + std::to_string(device.device),
               host ? device.what
                    : device.what + (device.what.empty() ? "" : ", ") + std::to_string(device.threads) +
                          (device.threads == 1 ? " thread" : " threads"),
               format_bytes(device.arena)});
  };
  for (const DeviceKind& kind : device_kinds(list_devices(plan, module))) {  // the first is the host
    add(kind.first);
    if (kind.count > 1) {
      table.add({"", kind.others(),
                 "the last is cpu " + std::to_string(kind.last.device) + (kind.last.what.empty() ? "" : ": ") +
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

// Returns the notes on generated data and on the memory of readers; empty if there are no notes.
std::string data_line(const Plan& plan, const Module& module, const RunMemory& memory) {
  std::string data = synthetic_text(module);
  const std::string readers = readers_text(memory, plan);
  data += (data.empty() || readers.empty() ? "" : "; ") + readers;
  return data.empty() ? "" : "  data       " + printable_line(data) + "\n";
}

// Returns a line about the time to build graphs of nearest classes, and the time that builds add to the steps; empty
// without graphs.
std::string graphs_line(const Plan& plan, const Module& module) {
  std::string text;
  for (const GraphBuild& graph : plan.graphs) {
    text += (text.empty() ? "" : ", ") + module.graph.heads[static_cast<size_t>(graph.head)].name +
            (graph.is_exact ? " exact, " : " approximate, ") + format_seconds(graph.time()) + " a build";
  }
  if (text.empty()) {
    return text;
  }
  text += "; one every " + to_text(module.train.active_classes.rebuild);
  if (const auto period = graph_period(plan, module)) {
    text += " (" + format_seconds(period->time) + " of steps)";
    const Seconds run = plan.predicted.step + period->added;
    text += period->builds > 0 ? format(": %.0f %% of the run", 100 * period->added / run) : "";
  }
  return "  graphs     " + printable_line(text) + "\n";
}

// Returns a line about the times and the memory of the first and the last steps of a growing batch; empty if the batch
// does not grow.
std::string growth_line(const Plan& plan) {
  const std::vector<SizeSummary> sizes = list_sizes(plan);
  if (sizes.empty()) {
    return "";
  }
  const auto text = [](const SizeSummary& size) {
    return "steps of " + counted(size.batch, "sample") + " take " + format_seconds(size.step) + " and use " +
           format_bytes(size.used);
  };
  return "  growth     first " + text(sizes.front()) + "; last " + text(sizes.back()) + "\n";
}

// Returns lines about class rows in files, which need disk space instead of memory. If `cluster.node.storage` gives the
// rate of the storage, the lines also state the times to read the rows of a step and to save a checkpoint.
std::string disk_lines(const Plan& plan, const Module& module) {
  const double rate = module.cluster.storage;
  const auto time = [&](Bytes bytes) { return format_seconds(static_cast<double>(bytes) / rate); };
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (const RowsOnDisk& one : rows_on_disk(module, plan.training, plan.samples)) {
    add(format_bytes(one.sum()) + " next to the checkpoints: rows of " + one.head + " " + format_bytes(one.rows) +
        ", undo log at most " + format_bytes(one.undo) + "; a step touches about " + format_bytes(one.step_pages) +
        " of pages; times assume that they are in memory" +
        (rate > 0 ? ", reading them takes " + time(one.step_pages) : ""));
  }
  if (rate > 0) {
    const std::vector<Bytes> nodes = save_by_node(plan.training, plan.machine);
    const Bytes most = *std::ranges::max_element(nodes);
    add("a save takes " + time(most) + ": " + format_bytes(std::accumulate(nodes.begin(), nodes.end(), Bytes{0})) +
        (nodes.size() > 1 ? ", at most " + format_bytes(most) + " of it on one node" : ""));
  }
  return text.empty() ? "" : "  disk       " + text + "\n";
}

std::string communication_lines(const Plan& plan) {
  const std::vector<CommSummary> list = list_communication(plan);
  if (list.empty()) {
    return "";
  }
  std::string line;
  for (const CommSummary& one : list) {
    line += (line.empty() ? "" : ", ") + one.what + " " + format_bytes(one.bytes) + " " + format_seconds(one.time);
  }
  return "  traffic    per step: " + line + "\n";
}

std::string network_line(const Plan& plan) {
  const std::string text = network_text(plan);
  return text.empty() ? "" : "  network    " + printable_line(text) + "\n";
}

std::string why_lines(const Plan& plan, int columns = 0) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kLeft});
  bool first = true;
  for (const Reason& reason : plan.why) {
    table.add({first ? "why      " : "", choice_text(reason), reason_text(reason)});
    first = false;
  }
  return plan.why.empty() ? "" : "\n" + table.text("  ", columns);
}

std::string alternatives_lines(const Plan& plan, int columns = 0) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft});
  bool first = true;
  for (const Alternative& other : plan.alternatives) {
    table.add({first ? "also     " : "", settings_text(other), format_seconds(other.step), format_bytes(other.memory),
               note_text(other)});
    first = false;
  }
  return plan.alternatives.empty() ? "" : "\n" + table.text("  ", columns);
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

std::string layers_table(const Plan& plan, const Module& module, int depth) {
  const bool staged = plan.training.stages.size() > 1;
  TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
                   Align::kRight, Align::kRight});
  table.add({"layer", "output", "parameters", "fwd MFLOP", "fwd ms", "bwd ms", "saved MiB", staged ? "stage" : ""});
  for (const LayerSummary& layer : list_layers(plan, module, depth)) {
    table.add({layer.name, layer.output, layer.parameters > 0 ? format_count(layer.parameters) : "",
               format("%.3f", layer.forward_flops / 1e6), format("%.2f", layer.forward * 1e3),
               format("%.2f", layer.backward * 1e3),
               format("%.2f", static_cast<double>(layer.saved) / static_cast<double>(kMiB)),
               !staged           ? ""
               : layer.stage < 0 ? "all"
                                 : std::to_string(layer.stage)});
  }
  return table.text("") + "MFLOP: forward, of one sample; ms and MiB: of one micro-batch of " +
         format_count(plan.training.micro_batch_rows()) + " samples\nsaved: kept for the backward pass" +
         (staged ? ", what other stages sent included\n" : "\n");
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
  return table.text("") + "not hidden behind computing: " + format_seconds(exposed) + " of a step of " +
         format_seconds(plan.predicted.step) + "\n" + network_table(plan);
}

}  // namespace

std::string report_text(const Plan& plan, const Module& module, int columns) {
  constexpr size_t kTexts = 13;  // the column where the text begins in rows with a name and one text
  const RunMemory memory = run_memory(module, plan.training, plan.inference);
  const auto fold = [&](const std::string& line) {
    return line.empty() ? line : wrapped(line.substr(0, line.size() - 1), kTexts, columns) + "\n";
  };
  return headline(plan, columns) + parts_table(plan, module, columns) + "\n" + fold(predicted_line(plan, module)) +
         memory_line(plan, memory) + fold(disk_lines(plan, module)) + fold(communication_lines(plan)) +
         fold(network_line(plan)) + fold(growth_line(plan)) + fold(compression_text(plan, module)) +
         fold(graphs_line(plan, module)) + devices_lines(plan, module, memory, columns) +
         fold(data_line(plan, module, memory)) + why_lines(plan, columns) + alternatives_lines(plan, columns) +
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
    std::string text = why_lines(plan) + alternatives_lines(plan);
    return text.empty() ? text : text.substr(1);
  }
  return "";
}

}  // namespace xrun::planner
