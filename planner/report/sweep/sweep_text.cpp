#include "planner/report/sweep/sweep_text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/counted.h"
#include "graph/base/utf8.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

constexpr size_t kTexts = 13;  // the column where the text begins in rows with a name and one text
constexpr int kBar = 22;       // characters of the bar of a whole step

constexpr const char* kModelled = " (modelled, no devices used)";

std::string rate_text(const SimulatedPlan& plan) {
  return format_count(static_cast<int64_t>(std::llround(plan.samples_per_second)));
}

std::string idle_text(const SimulatedPlan& plan) { return fmt::format("{:.1f} %", 100 * plan.idle); }

std::string memory_text(const UsedMemory& memory) {
  return fmt::format("{} of the {} of {} ({:.0f} %)", format_bytes(memory.used), format_bytes(memory.limit),
                     memory.what, 100 * memory.share());
}

std::string row(const std::string& name, const std::string& text, int columns) {
  return wrapped("  " + name + std::string(kTexts - 2 - name.size(), ' ') + printable_line(text), kTexts, columns) +
         "\n";
}

std::string bar(double share) {
  const int filled = std::clamp(static_cast<int>(std::lround(share * kBar)), 0, kBar);
  return "[" + std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kBar - filled), ' ') +
         "]";
}

// Returns the table of the parts of a step.
std::string parts_table(const SimulatedPlan& plan) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kLeft});
  for (const StepPart& part : plan.parts.parts) {
    const Seconds hidden = part.whole - part.time;
    const bool moves = hidden > 1e-6 * plan.step;
    table.add(
        {part.name, bar(part.time / plan.step), format_seconds(part.time),
         moves ? fmt::format("{} of {} hidden during computations", format_seconds(hidden), format_seconds(part.whole))
               : ""});
  }
  if (plan.parts.lists > 0) {
    table.add({"lists of nearest classes", bar(plan.parts.lists / plan.step), format_seconds(plan.parts.lists),
               "builds, spread over the steps; in addition to the step"});
  }
  return fmt::format("  where a step goes, on device {}\n", plan.parts.device) + table.text("    ");
}

// Returns the rows about the source of the times and about what no executor does yet.
std::string notes(const Sweep& sweep, int columns) {
  std::string text = row("costs", sweep.costs, columns);
  bool first = true;
  for (const std::string& one : sweep.not_run()) {
    text += row(first ? "not yet" : "", one, columns);
    first = false;
  }
  return text;
}

std::string one_plan(const Sweep& sweep, int columns) {
  const SimulatedPlan& plan = *sweep.points[0].plan;
  std::string speed = format_seconds(plan.step) + " a step     " + rate_text(plan) + " samples/s";
  speed += plan.epoch ? "     epoch " + format_seconds(*plan.epoch) + " of " + counted(plan.samples, "sample") : "";
  speed += plan.idle > 5e-4 ? "     idle " + idle_text(plan) : "";
  return sweep.model + " on " + plan.machine + kModelled + "\n\n" + row("modelled", speed, columns) +
         row("memory", format_bytes(plan.memory) + " on the largest device; tightest: " + memory_text(plan.tightest),
             columns) +
         row("plan", settings_text(plan), columns) + (plan.limit.empty() ? "" : row("limit", plan.limit, columns)) +
         notes(sweep, columns) + "\n" + parts_table(plan);
}

std::string points_table(const Sweep& sweep, int columns) {
  std::vector<Align> aligned(sweep.keys.size() + 1, Align::kLeft);
  aligned.insert(aligned.end(), 5, Align::kRight);
  aligned.insert(aligned.end(), 2, Align::kLeft);
  TextTable table(std::move(aligned));
  std::vector<std::string> head{""};
  for (const std::string& key : sweep.keys) {
    head.push_back(short_name(key));
  }
  for (const char* name : {"memory/device", "step", "samples/s", "speed-up", "idle", "limit", "plan"}) {
    head.emplace_back(name);
  }
  table.add(std::move(head));
  const auto fastest = sweep.fastest();
  for (size_t p = 0; p < sweep.points.size(); ++p) {
    const SweepPoint& point = sweep.points[p];
    std::vector<std::string> cells{fastest == p ? "*" : ""};
    cells.insert(cells.end(), point.values.begin(), point.values.end());
    if (point.plan) {
      const SimulatedPlan& plan = *point.plan;
      for (std::string& cell : std::vector<std::string>{format_bytes(plan.memory), format_seconds(plan.step),
                                                        rate_text(plan), fmt::format("{:.2f} x", sweep.speed_up(point)),
                                                        idle_text(plan), plan.limit, settings_text(plan)}) {
        cells.push_back(std::move(cell));
      }
    } else {
      cells.insert(cells.end(), 5, "-");
      cells.emplace_back("no plan");
      cells.push_back(point.code + ": " + point.reason);
    }
    table.add(std::move(cells));
  }
  return table.text("", columns);
}

std::string winners_table(const Sweep& sweep, int columns) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kLeft});
  bool first = true;
  for (const Winner& one : winners(sweep)) {
    if (!one.value.empty()) {
      table.add({first ? "wins     " : "", one.decision + " = " + one.value, one.where});
      first = false;
    }
  }
  return table.text("  ", columns);
}

// Returns " on MACHINE" if all plans are for the same machine.
std::string common_machine(const Sweep& sweep) {
  std::string name;
  for (const SweepPoint& point : sweep.points) {
    if (point.plan && !name.empty() && name != point.plan->machine) {
      return "";
    }
    name = point.plan ? point.plan->machine : name;
  }
  return name.empty() ? "" : " on " + name;
}

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + "\"";
}

}  // namespace

std::string settings_text(const SimulatedPlan& plan) {
  const auto of = [&](const std::string& name) {
    return std::ranges::find(plan.settings, name, &std::pair<std::string, std::string>::first)->second;
  };
  const auto some = [&](const std::string& name, const std::string& one, const std::string& many) {
    return of(name) + " " + (of(name) == "1" ? one : many);
  };
  return some("stages", "stage", "stages") + ", " + some("replicas", "replica", "replicas") + ", " +
         some("micro_batches", "micro-batch", "micro-batches") + ", " + of("pipeline") +
         (of("shards").empty() ? "" : ", " + some("shards", "shard", "shards")) +
         (of("recompute") == "none" ? "" : ", " + some("recompute", "layer runs again", "layers run again"));
}

std::string fit_text(const Sweep& sweep) {
  const KeyFit& fit = *sweep.fit;
  const std::string name = short_name(sweep.keys[0]);
  const SweepPoint& largest = sweep.points[fit.largest];
  if (!fit.complete) {
    const SweepPoint* next = fit.next ? &sweep.points[*fit.next] : nullptr;
    return fmt::format("{} = {} has a plan, and the time ran out before a largest value was found{}", name,
                       largest.values[0],
                       next != nullptr ? fmt::format("; {} has none: {}: {}", next->values[0], next->code, next->reason)
                                       : std::string());
  }
  if (!fit.next) {
    return fmt::format("{} = {} has a plan, and no larger value was tried", name, largest.values[0]);
  }
  const SweepPoint& next = sweep.points[*fit.next];
  std::string text = fmt::format(
      "the largest {} with a plan is {}, bound by {}; {} has none: {}: {}", name, largest.values[0],
      next.code == "XG0601" ? "memory: " + memory_text(largest.plan->tightest) : std::string("what is legal"),
      next.values[0], next.code, next.reason);
  const bool apart = *fit.next > fit.largest + 1;
  text += apart ? fmt::format("; values between them are not legal ({})", sweep.points[fit.largest + 1].code) : "";
  for (const size_t point : fit.out_of_order) {
    const SweepPoint& other = sweep.points[point];
    text += fmt::format("; plans do not end there: {} has {}", other.values[0], other.plan ? "one" : "none");
  }
  return text;
}

std::string report_sweep(const Sweep& sweep, int columns) {
  if (sweep.keys.empty()) {
    return one_plan(sweep, columns);
  }
  const std::string head = sweep.model + common_machine(sweep) + kModelled;
  std::string text = wrapped(printable_line(head), 0, columns) + "\n\n" + points_table(sweep, columns) + "\n";
  text += sweep.fit ? row("fit", fit_text(sweep), columns) +
                          row("", "other rows have the first plan that fits, which a search may improve", columns)
                    : row("fastest",
                          "the row with * has most samples a second; speed-up is over the first row with a "
                          "plan",
                          columns);
  text += notes(sweep, columns);
  return text + (sweep.fit ? "" : "\n" + winners_table(sweep, columns));
}

std::string sweep_csv(const Sweep& sweep) {
  std::vector<std::string> names{"fastest"};
  names.insert(names.end(), sweep.keys.begin(), sweep.keys.end());
  for (const char* name :
       {"machine", "devices", "memory_bytes", "step_seconds", "samples_per_second", "speed_up", "idle", "epoch_seconds",
        "limit", "stages", "replicas", "micro_batches", "pipeline", "shards", "recompute", "code", "reason"}) {
    names.emplace_back(name);
  }
  std::string text = fmt::format("{}\n", fmt::join(names, ","));
  const auto fastest = sweep.fastest();
  for (size_t p = 0; p < sweep.points.size(); ++p) {
    const SweepPoint& point = sweep.points[p];
    std::vector<std::string> cells{fastest == p ? "true" : "false"};
    cells.insert(cells.end(), point.values.begin(), point.values.end());
    if (point.plan) {
      const SimulatedPlan& plan = *point.plan;
      for (const std::string& one : {plan.machine, std::to_string(plan.devices), std::to_string(plan.memory),
                                     fmt::format("{}", plan.step), fmt::format("{}", plan.samples_per_second),
                                     fmt::format("{:.4f}", sweep.speed_up(point)), fmt::format("{:.4f}", plan.idle),
                                     plan.epoch ? fmt::format("{}", *plan.epoch) : std::string(), plan.limit}) {
        cells.push_back(one);
      }
      for (const auto& [name, value] : plan.settings) {
        cells.push_back(value);
      }
    } else {
      cells.insert(cells.end(), 15, "");
    }
    cells.push_back(point.code);
    cells.push_back(point.reason);
    for (std::string& one : cells) {
      one = cell(one);
    }
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

}  // namespace xrun::planner
