// Tests: tests/planner/plan_file_test.cpp, tests/planner/program/kept_model_test.cpp
#include "planner/stale_plan.h"

#include <algorithm>
#include <map>

#include "graph/base/counted.h"

namespace xrun::planner {
namespace {

constexpr size_t kMostParts = 5;

using Texts = std::vector<std::string>;

void compare_sources(const Plan& plan, const Module& training, Texts& changes) {
  for (const SourceDigest& source : training.sources) {
    const auto planned = std::ranges::find(plan.sources, source.path, &SourceDigest::path);
    if (planned == plan.sources.end()) {
      changes.push_back("plan " + plan.id + " was made without `" + source.path + "`");
    } else if (planned->sha256 != source.sha256) {
      changes.push_back("`" + source.path + "` has changed since plan " + plan.id + " was made");
    }
  }
  if (changes.empty() && plan.sources.size() != training.sources.size()) {
    changes.push_back("plan " + plan.id + " was made from " + std::to_string(plan.sources.size()) +
                      " files, now there are " + std::to_string(training.sources.size()));
  }
}

// Returns the named parts of a model with their types: parameters, and results of forward operators.
std::map<std::string, std::string> parts_of(const Graph& graph) {
  std::map<std::string, std::string> parts;
  for (const Parameter& param : graph.params) {
    parts.emplace(param.name, to_text(graph.value(param.value).type));
  }
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) {
      parts.emplace(node.path, std::string(node.op->name) + " to " + to_text(graph.value(node.outputs[0]).type));
    }
  }
  return parts;
}

void compare_parts(const Graph& planned, const Graph& present, Texts& changes) {
  const auto before = parts_of(planned);
  const auto after = parts_of(present);
  Texts parts;
  for (const auto& [name, type] : after) {
    const auto old = before.find(name);
    if (old == before.end()) {
      parts.push_back("the plan has no `" + name + "`, " + type);
    } else if (old->second != type) {
      parts.push_back("`" + name + "` was " + old->second + ", now it is " + type);
    }
  }
  for (const auto& [name, type] : before) {
    if (!after.contains(name)) {
      parts.push_back("`" + name + "`, " + type + ", is no longer in the model");
    }
  }
  const size_t shown = std::min(parts.size(), kMostParts);
  changes.insert(changes.end(), parts.begin(), parts.begin() + static_cast<ptrdiff_t>(shown));
  if (parts.size() > shown) {
    changes.push_back(counted(std::ssize(parts) - static_cast<int64_t>(shown), "other part") + " of the model differ");
  }
}

void compare_machines(const Plan& plan, const Machine& machine, Texts& changes) {
  if (plan.machine.devices != machine.devices || plan.machine.threads != machine.threads) {
    changes.push_back("plan " + plan.id + " is for " + std::to_string(plan.machine.devices) + " devices with " +
                      std::to_string(plan.machine.threads) + " threads, this machine has " +
                      std::to_string(machine.devices) + " with " + std::to_string(machine.threads));
    return;
  }
  for (const Program* program : {&plan.training, &plan.inference}) {
    for (int device = 0; device < machine.devices; ++device) {
      if (const int threads = program->threads[static_cast<size_t>(device)]; threads != machine.threads_of(device)) {
        changes.push_back("plan " + plan.id + " gives device " + std::to_string(device) + " " +
                          std::to_string(threads) + " threads, this machine has " +
                          std::to_string(machine.threads_of(device)) + " for it");
        return;
      }
    }
  }
}

}  // namespace

std::vector<std::string> list_changes(const Plan& plan, const Module& training, const KernelFacts& facts,
                                      const Machine& machine) {
  Texts changes;
  compare_sources(plan, training, changes);
  if (plan.math_digest != training.math_digest) {
    changes.push_back("the mathematics of `" + training.model + "` is not that of plan " + plan.id);
  }
  if (plan.kept && !changes.empty()) {
    compare_parts(plan.kept->module.graph, training.graph, changes);
  }
  if (plan.isa != facts.isa) {
    changes.push_back("plan " + plan.id + " is for " + plan.isa + ", this processor runs " + facts.isa);
  } else if (changes.empty() && plan.facts_digest != facts.digest) {
    changes.push_back("the kernels of this xrun are not those that plan " + plan.id + " was made for");
  }
  compare_machines(plan, machine, changes);
  return changes;
}

}  // namespace xrun::planner
