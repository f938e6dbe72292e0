// Tests: tests/planner/report/text_test.cpp
#include "planner/report/lines.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "graph/base/counted.h"
#include "graph/base/utf8.h"
#include "graph/settings/reader_def.h"
#include "planner/cost/graph_builds.h"
#include "planner/program/rows_on_disk.h"
#include "planner/program/save_size.h"
#include "planner/report/cluster_traffic.h"
#include "planner/report/explain.h"
#include "planner/report/summary.h"
#include "planner/search/fit.h"

namespace xrun::planner {
namespace {

std::string bar(double share, int width) {
  const int filled = std::clamp(static_cast<int>(std::lround(share * width)), 0, width);
  return "[" + std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(width - filled), ' ') +
         "]";
}

// Returns a note that results come from generated samples; empty if the module has no such samples.
std::string synthetic_text(const Module& module) {
  std::string text;
  for (const std::string& name : synthetic_sources(module.data)) {
    text += (text.empty() ? "synthetic: " : ", ") + name;
  }
  return text;
}

}  // namespace

std::string format(const char* pattern, double value) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
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
  if (plan.certificate && plan.certificate->limit == Certificate::Limit::kLoader) {
    line += "     limited by the loader";
  }
  return line + "\n";
}

std::string memory_line(const Plan& plan, const Module& module, const RunMemory& memory) {
  const Machine& machine = plan.machine;
  const Bytes of_hosts = memory.on_hosts() + decoding_of(plan);
  const std::string hosts = format_bytes(of_hosts) + " of " + format_bytes(machine.memory);
  const auto line = [](Bytes used, Bytes usable) {
    return "  memory     " + bar(usable > 0 ? static_cast<double>(used) / static_cast<double>(usable) : 0, 37) + "  ";
  };
  if (machine.has_gpus()) {
    const Bytes used = memory.largest_device();
    return line(used, machine.device_memory) + format_bytes(used) + " of " + format_bytes(machine.device_memory) +
           (machine.devices > 1 ? " on the fullest " : " on the ") + machine.gpu + "; " + hosts + " on the host\n";
  }
  const auto& limit = module.schedule.memory_limit;
  return line(of_hosts, machine.memory) + hosts +
         (limit ? "; the largest device uses " + format_bytes(largest_device_of(plan.training)) + " of its " +
                      format_bytes(limit->value) + " (memory_limit)"
                : "") +
         "\n";
}

std::string bits_line(const Plan& plan) {
  return plan.machine.has_gpus()
             ? "  bits       products, convolutions, attention and heads add in another order than on "
               "CPUs, so the last bits of results may differ\n"
             : "";
}

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

std::string data_line(const Plan& plan, const Module& module, const RunMemory& memory) {
  std::string data = synthetic_text(module);
  const std::string readers = readers_text(memory, plan);
  data += (data.empty() || readers.empty() ? "" : "; ") + readers;
  return data.empty() ? "" : "  data       " + printable_line(data) + "\n";
}

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

std::string layer_times_text(const Plan& plan) {
  if (!plan.layer_times) {
    return "";
  }
  const UsedTimes& times = *plan.layer_times;
  return counted(times.layers, "layer") + " (" + counted_of(times.nodes, times.all_nodes, "operator") +
         (times.layers == 1 ? ") has" : ") have") + " the times of " + printable_line(times.file) + ", for " +
         counted(times.rows, "row") + "; others have those of the cost model";
}

const std::string* calibration_of(const Plan& plan) {
  const auto made = std::ranges::find(plan.options, "calibration", &std::pair<std::string, std::string>::first);
  return made == plan.options.end() ? nullptr : &made->second;
}

std::string costs_line(const Plan& plan) {
  const std::string* made = calibration_of(plan);
  return made == nullptr ? "" : "  costs      measured by a calibration of " + printable_line(*made) + "\n";
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

std::string network_lines(const Plan& plan) {
  const std::string network = network_text(plan);
  const std::string links = device_link_text(plan.machine);
  return (links.empty() ? "" : "  links      " + printable_line(links) + "\n") +
         (network.empty() ? "" : "  network    " + printable_line(network) + "\n");
}

}  // namespace xrun::planner
