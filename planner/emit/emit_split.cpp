// Cuts backward passes into two parts: the nodes on which earlier stages wait, and the nodes that only compute
// gradients of weights (planner/program/weight_gradients.h). A schedule with kInputGradient and kWeightGradient actions
// runs them apart. Values that the second part reads and that only the backward pass makes have buffers with the rows
// of the micro-batch; in a whole pass they would be in the slices of workers. Tests: tests/planner/emit/split_test.cpp
#include <algorithm>

#include "planner/emit/emitter.h"
#include "planner/emit/local_uses.h"
#include "planner/program/weight_gradients.h"

namespace xrun::planner {

// Makes the two parts of the backward pass of each stage whose passes the schedule splits. The nodes of the second part
// move to the end of the stage's backward nodes. A part may be empty.
void Emitter::split_passes() {
  std::vector<bool> splits(program_.stages.size(), false);
  for (const auto& order : decision_.schedule.orders) {
    for (const Action& action : order) {
      if (action.kind == ActionKind::kInputGradient) {
        splits[static_cast<size_t>(action.stage)] = true;
      }
    }
  }
  if (std::ranges::find(splits, true) == splits.end()) {
    return;
  }
  const std::vector<bool> for_weights = weight_gradient_nodes(graph_);
  split_.resize(program_.stages.size());
  for (Stage& stage : program_.stages) {
    if (!splits[static_cast<size_t>(stage.index)]) {
      continue;
    }
    std::ranges::stable_partition(stage.backward,
                                  [&](NodeId id) { return !for_weights[static_cast<size_t>(id.index)]; });
    split_pass(stage, for_weights);
  }
}

void Emitter::split_pass(const Stage& stage, const std::vector<bool>& for_weights) {
  const StageFlow& flow = flow_.stages[static_cast<size_t>(stage.index)];
  std::vector<NodeId> nodes = stage.recomputed;
  nodes.insert(nodes.end(), stage.backward.begin(), stage.backward.end());
  const std::vector<LocalUse> uses = local_uses(graph_, nodes, flow.backward_locals);
  const auto second =
      std::ranges::count_if(stage.backward, [&](NodeId id) { return for_weights[static_cast<size_t>(id.index)]; });
  const size_t cut = nodes.size() - static_cast<size_t>(second);
  auto& parts = split_[static_cast<size_t>(stage.index)];
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t begin = i == 0 ? 0 : cut;
    const size_t end = i == 0 ? cut : nodes.size();
    Segment& part = parts[i];
    part.nodes.assign(nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                      nodes.begin() + static_cast<std::ptrdiff_t>(end));
    RangeValues values = values_of_range(uses, begin, end);
    part.kept = std::move(values.kept);
    part.layout = layout_block(graph_, request_.facts, part.nodes, values.locals, local_rows(), program_.norm_rows);
  }
  parts[0].kept.insert(parts[0].kept.end(), flow.sent_gradients.begin(), flow.sent_gradients.end());
  divide_time(stage.backward_time, parts);
}

}  // namespace xrun::planner
