// Tests: tests/planner/planner_test.cpp, tests/planner/search/choose_test.cpp
#include "planner/program/layer_paths.h"

#include <algorithm>
#include <string>

namespace xrun::planner {
namespace {

bool below(const std::string& path, const std::string& prefix) {
  return path.compare(0, prefix.size(), prefix) == 0 && (path.size() == prefix.size() || path[prefix.size()] == '.');
}

// Whether an operator that was fused into a node belongs to a part of the model.
bool fuses_part(const Node& node, const std::string& part) {
  return std::ranges::any_of(node.fused_paths, [&](const std::string& path) { return below(path, part); });
}

}  // namespace

// A pin for the path of the node itself takes precedence over pins for operators that were fused into it. So if the
// first operator of a block was fused into a node of the previous block, that node stays with its own block.
Result<std::vector<int>> pinned_stages(const Module& module, std::span<const NodeId> nodes) {
  const auto node = [&](size_t i) -> const Node& { return module.graph.node(nodes[i]); };
  std::vector<int> stages(nodes.size(), -1);
  std::vector<bool> own(module.schedule.pins.size());
  for (size_t p = 0; p < own.size(); ++p) {
    const PinHint& pin = module.schedule.pins[p];
    bool any = false;
    for (size_t i = 0; i < stages.size(); ++i) {
      if (below(node(i).path, pin.path)) {
        stages[i] = static_cast<int>(pin.stage);
        own[p] = true;
      }
      any = any || own[p] || fuses_part(node(i), pin.path);
    }
    if (!any) {
      return Error{ErrorKind::kContent, "XG0604", "pin names `" + pin.path + "`, which is not a layer of the model",
                   "give a path as `xrun show --table layers` prints it", pin.span};
    }
    if (pin.stage < 0 || (module.schedule.stages && pin.stage >= module.schedule.stages->value)) {
      return Error{ErrorKind::kContent, "XG0608",
                   "`" + pin.path + "` is pinned to stage " + std::to_string(pin.stage) + ", which is not there",
                   "stages are counted from 0", pin.span};
    }
  }
  for (size_t p = 0; p < own.size(); ++p) {
    const PinHint& pin = module.schedule.pins[p];
    for (size_t i = 0; i < stages.size(); ++i) {
      if (!fuses_part(node(i), pin.path) || stages[i] == pin.stage) {
        continue;
      }
      if (stages[i] >= 0 && !own[p]) {
        return Error{ErrorKind::kContent, "XG0608",
                     "`" + pin.path + "` is computed together with `" + node(i).path + "`, which is pinned to stage " +
                         std::to_string(stages[i]),
                     "pin both to one stage", pin.span};
      }
      stages[i] = stages[i] < 0 ? static_cast<int>(pin.stage) : stages[i];
    }
  }
  return stages;
}

Result<std::vector<bool>> named_to_run_again(const Module& module, std::span<const NodeId> nodes) {
  std::vector<bool> again(nodes.size(), false);
  if (!module.schedule.recompute) {
    return again;
  }
  for (const std::string& path : module.schedule.recompute->value.paths) {
    bool any = false;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = module.graph.node(nodes[i]);
      if (below(node.path, path) || fuses_part(node, path)) {
        again[i] = true;
        any = true;
      }
    }
    if (!any) {
      return Error{ErrorKind::kContent, "XG0604", "recompute names `" + path + "`, which is not a layer of the model",
                   "give a path as `xrun show --table layers` prints it", module.schedule.recompute->span};
    }
  }
  return again;
}

}  // namespace xrun::planner
