// Tests: tests/planner/planner_test.cpp, tests/planner/search/choose_test.cpp
#include "planner/search/layer_hints.h"

#include <algorithm>

#include "graph/layouts/head_shape.h"
#include "planner/search/space.h"

namespace xrun::planner {
namespace {

bool below(const std::string& path, const std::string& prefix) {
  return path.compare(0, prefix.size(), prefix) == 0 && (path.size() == prefix.size() || path[prefix.size()] == '.');
}

// Rejects hints for more shards of a head than it has class blocks, since a shard has whole class blocks
// (docs/internals/determinism.md, "Class blocks") and a hint must not result in empty shards.
Status check_shards(const Module& module) {
  const Graph& graph = module.graph;
  for (size_t h = 0; h < graph.heads.size(); ++h) {
    const Head& head = graph.heads[h];
    const ClassBlocks blocks = class_blocks(module, h);
    for (const ShardHint& hint : module.schedule.shards) {
      if (hint.head == head.name && hint.shards > blocks.count()) {
        return Error{ErrorKind::kContent, "XG0604",
                     "`shard " + head.name + "` asks for " + format_count(hint.shards) + " shards of " +
                         format_count(blocks.classes) + " classes, which are " + format_count(blocks.count()) +
                         " blocks of " + format_count(blocks.size),
                     "ask for at most " + format_count(blocks.count()), hint.span};
      }
    }
  }
  return {};
}

// Whether an operator that was fused into a node belongs to a part of the model.
bool fuses_part(const Node& node, const std::string& part) {
  return std::ranges::any_of(node.fused_paths, [&](const std::string& path) { return below(path, part); });
}

// Returns the stage to which each node of the chain is pinned, or -1. A pin for the path of the node itself takes
// precedence over pins for operators that were fused into it. So if the first operator of a block was fused into a node
// of the previous block, that node stays with its own block.
Result<std::vector<int>> pinned_stages(const Module& module, const Chain& chain) {
  const auto node = [&](size_t i) -> const Node& { return module.graph.node(chain.nodes[i]); };
  std::vector<int> stages(static_cast<size_t>(chain.size()), -1);
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

}  // namespace

Result<LayerHints> layer_hints(const Module& module, const Chain& chain) {
  XRUN_TRY(check_shards(module));
  const Graph& graph = module.graph;
  const auto n = static_cast<size_t>(chain.size());
  XRUN_ASSIGN(std::vector<int> pinned, pinned_stages(module, chain));
  LayerHints hints{.pinned = std::move(pinned), .again = std::vector<bool>(n, false)};
  if (module.schedule.recompute) {
    const RecomputeHint& wish = module.schedule.recompute->value;
    hints.hinted = true;
    hints.recompute = wish.mode == RecomputeHint::kNone  ? Recompute::kNone
                      : wish.mode == RecomputeHint::kAll ? Recompute::kAll
                                                         : Recompute::kChosen;
    for (const std::string& path : wish.paths) {
      bool any = false;
      for (size_t i = 0; i < n; ++i) {
        const Node& node = graph.node(chain.nodes[i]);
        if (below(node.path, path) || fuses_part(node, path)) {
          hints.again[i] = true;
          any = true;
        }
      }
      if (!any) {
        return Error{ErrorKind::kContent, "XG0604", "recompute names `" + path + "`, which is not a layer of the model",
                     "give a path as `xrun show --table layers` prints it", module.schedule.recompute->span};
      }
    }
  }
  return hints;
}

}  // namespace xrun::planner
