// Tests: tests/planner/report/sweep/sweep_text_test.cpp
#include "planner/report/sweep/sweep.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

#include "planner/program/run_memory.h"
#include "planner/report/certificate.h"
#include "planner/report/explain.h"
#include "planner/report/summary.h"
#include "planner/search/fit.h"

namespace xrun::planner {
namespace {

// The most points of which `Winner::where` lists the values.
constexpr size_t kMostListed = 4;

UsedMemory tightest_memory(const Plan& plan, const Module& module, const RunMemory& memory) {
  const MemoryLimits limits = memory_limits(module, plan.machine);
  const Machine& machine = plan.machine;
  UsedMemory most{"the machine", memory.on_hosts(), limits.total};
  const auto add = [&](UsedMemory other) { most = other.share() > most.share() ? std::move(other) : most; };
  if (limits.device > 0) {
    const bool of_gpu = machine.has_gpus() && limits.device == machine.device_memory;
    add({of_gpu ? "each " + machine.gpu : "each device (`memory_limit`)", memory.largest_device(), limits.device});
  }
  if (limits.node > 0) {
    std::vector<Bytes> nodes = memory_of_nodes(plan.training, machine);
    add({"each node", nodes.empty() ? 0 : std::ranges::max(nodes), limits.node});
  }
  return most;
}

std::string shards_of(const Plan& plan, const Graph& graph) {
  const std::vector<HeadPlan>& heads = plan.training.heads;
  std::vector<std::string> texts;
  for (const HeadPlan& head : heads) {
    const auto count = std::ranges::count_if(head.shards, [](const HeadShard& s) { return s.row_end > s.row_begin; });
    texts.push_back(heads.size() == 1 ? std::to_string(count)
                                      : fmt::format("{} {}", graph.heads[static_cast<size_t>(head.head)].name, count));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string recompute_of(const Program& program) {
  const int layers = recomputed_layers(program);
  return layers == 0 ? "none" : std::to_string(layers);
}

// Returns "nodes = 8, gpus = 4", with the keys at these positions.
std::string values_text(const Sweep& sweep, const SweepPoint& point) {
  std::string text;
  for (size_t k = 0; k < sweep.keys.size(); ++k) {
    text += fmt::format("{}{} = {}", k == 0 ? "" : ", ", short_name(sweep.keys[k]), point.values[k]);
  }
  return text;
}

// Returns "8", "8 and 16", "8, 16 and 32".
std::string list_text(const std::vector<std::string>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == values.size() ? " and " : ", ") + values[i];
  }
  return text;
}

// The values of one decision at the points that have a plan.
using Decided = std::vector<std::pair<size_t, std::string>>;

// Returns the first key that alone decides the value: at all points with an equal value of this key, the decision is
// equal. nullopt: no key does.
std::optional<size_t> deciding_key(const Sweep& sweep, const Decided& decided) {
  for (size_t k = 0; k < sweep.keys.size(); ++k) {
    std::map<std::string, std::string> chosen;
    const bool decides = std::ranges::all_of(decided, [&](const auto& one) {
      return chosen.emplace(sweep.points[one.first].values[k], one.second).first->second == one.second;
    });
    if (decides) {
      return k;
    }
  }
  return std::nullopt;
}

std::string where_text(const Sweep& sweep, const Decided& decided, const std::vector<size_t>& points) {
  if (points.size() == decided.size()) {
    return "everywhere";
  }
  if (const auto key = deciding_key(sweep, decided)) {
    std::vector<std::string> values;
    for (const size_t point : points) {
      const std::string& value = sweep.points[point].values[*key];
      if (std::ranges::find(values, value) == values.end()) {
        values.push_back(value);
      }
    }
    return short_name(sweep.keys[*key]) + " = " + list_text(values);
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(points.size(), kMostListed); ++i) {
    texts.push_back(values_text(sweep, sweep.points[points[i]]));
  }
  return fmt::format("{} of {} points: {}{}", points.size(), decided.size(), fmt::join(texts, "; "),
                     points.size() > kMostListed ? "; ..." : "");
}

}  // namespace

std::optional<size_t> Sweep::first() const {
  const auto found = std::ranges::find_if(points, [](const SweepPoint& point) { return point.plan.has_value(); });
  return found == points.end() ? std::nullopt : std::optional(static_cast<size_t>(found - points.begin()));
}

std::optional<size_t> Sweep::fastest() const {
  std::optional<size_t> best = first();
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].plan && points[i].plan->samples_per_second > points[*best].plan->samples_per_second) {
      best = i;
    }
  }
  return best;
}

double Sweep::speed_up(const SweepPoint& point) const {
  return point.plan->samples_per_second / points[*first()].plan->samples_per_second;
}

std::vector<std::string> Sweep::not_run() const {
  std::vector<std::string> texts;
  for (const SweepPoint& point : points) {
    for (const std::string& text : point.plan ? point.plan->not_run : std::vector<std::string>()) {
      if (std::ranges::find(texts, text) == texts.end()) {
        texts.push_back(text);
      }
    }
  }
  return texts;
}

std::vector<Winner> winners(const Sweep& sweep) {
  std::vector<Winner> all;
  const auto first = sweep.first();
  if (!first) {
    return all;
  }
  const auto& settings = sweep.points[*first].plan->settings;
  for (size_t s = 0; s < settings.size(); ++s) {
    if (std::ranges::find(sweep.keys, "schedule." + settings[s].first) != sweep.keys.end()) {
      continue;  // the sweep decides it
    }
    Decided decided;
    for (size_t p = 0; p < sweep.points.size(); ++p) {
      if (sweep.points[p].plan) {
        decided.emplace_back(p, sweep.points[p].plan->settings[s].second);
      }
    }
    const size_t begin = all.size();
    for (const auto& [point, value] : decided) {
      const auto known = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(),
                                      [&, value = value](const Winner& one) { return one.value == value; });
      if (known == all.end()) {
        all.push_back({settings[s].first, value, "", {point}});
      } else {
        known->points.push_back(point);
      }
    }
    for (size_t w = begin; w < all.size(); ++w) {
      all[w].where = where_text(sweep, decided, all[w].points);
    }
  }
  return all;
}

SimulatedPlan simulated_plan(const Plan& plan, const Module& module) {
  const Program& program = plan.training;
  const RunMemory memory = run_memory(module, program, plan.inference);
  SimulatedPlan made{.id = plan.id,
                     .machine = plan.machine.name,
                     .devices = plan.machine.devices,
                     .memory = memory.largest_device(),
                     .tightest = tightest_memory(plan, module, memory),
                     .step = plan.predicted.step,
                     .samples_per_second = plan.predicted.images_per_second,
                     .idle = plan.predicted.bubble + plan.predicted.imbalance,
                     .settings = {{"stages", std::to_string(program.stages.size())},
                                  {"replicas", std::to_string(program.replicas)},
                                  {"micro_batches", std::to_string(program.micro_batches)},
                                  {"pipeline", to_text(program.pipeline())},
                                  {"shards", shards_of(plan, module.graph)},
                                  {"recompute", recompute_of(program)}},
                     .limit = "",
                     .parts = step_parts(plan, module),
                     .samples = plan.samples,
                     .epoch = run_times(plan, module).epoch,
                     .not_run = {}};
  made.limit = limit_text(plan);
  return made;
}

std::string short_name(const std::string& key) { return key.substr(key.rfind('.') + 1); }

}  // namespace xrun::planner
