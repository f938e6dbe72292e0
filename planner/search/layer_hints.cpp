// Tests: tests/planner/planner_test.cpp, tests/planner/search/choose_test.cpp
#include "planner/search/layer_hints.h"

#include "graph/layouts/head_shape.h"
#include "planner/program/layer_paths.h"

namespace xrun::planner {
namespace {

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

}  // namespace

Result<LayerHints> layer_hints(const Module& module, const Chain& chain) {
  XRUN_TRY(check_shards(module));
  XRUN_ASSIGN(std::vector<int> pinned, pinned_stages(module, chain.nodes));
  XRUN_ASSIGN(std::vector<bool> again, named_to_run_again(module, chain.nodes));
  LayerHints hints{.pinned = std::move(pinned), .again = std::move(again)};
  if (module.schedule.recompute) {
    const RecomputeHint& wish = module.schedule.recompute->value;
    hints.hinted = true;
    hints.recompute = wish.mode == RecomputeHint::kNone  ? Recompute::kNone
                      : wish.mode == RecomputeHint::kAll ? Recompute::kAll
                                                         : Recompute::kChosen;
  }
  return hints;
}

}  // namespace xrun::planner
