// Checks the nodes of stages: those of the forward pass, those that run again, and those of the backward pass.
// Tests: tests/planner/verify/verify_module_test.cpp
#include <algorithm>
#include <set>

#include "planner/verify/verify_parts.h"

namespace xrun::planner {

Status verify_nodes(const Program& program, const Graph& graph) {
  std::set<NodeId> seen;
  int32_t last = -1;
  for (const Stage& stage : program.stages) {
    for (const NodeId id : stage.forward) {
      if (id.index <= last || graph.node(id).phase != Phase::kForward) {
        return wrong("node {} of stage {} is out of order", id.index, stage.index);
      }
      last = id.index;
    }
    for (const NodeId id : stage.recomputed) {
      if (std::find(stage.forward.begin(), stage.forward.end(), id) == stage.forward.end()) {
        return wrong("stage {} runs node {} again, which is not its own", stage.index, id.index);
      }
    }
    for (const NodeId id : stage.backward) {
      if (!seen.insert(id).second || graph.node(id).phase != Phase::kBackward) {
        return wrong("node {} of stage {} is not a backward node, or is in two stages", id.index, stage.index);
      }
    }
  }
  for (size_t i = 0; program.training && i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].phase == Phase::kBackward && !seen.contains(NodeId(i))) {
      return wrong("backward node {} is in no stage", i);
    }
  }
  return {};
}

}  // namespace xrun::planner
