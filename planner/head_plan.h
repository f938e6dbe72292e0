// The part of a head's plan that follows from the module's graph: the search decides only rows and shards, and the
// verifier derives the rest again.
#pragma once

#include <span>

#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

// Classes that `predict` names for a sample; a metric that counts more of them has its own k.
inline constexpr int64_t kShownClasses = 5;

// The plan of head `head` of the module's graph without its shards; the verifier compares plans with it. `head_nodes`
// has the nodes that read logits (and perhaps others). Errors: kContent XG0198 if two losses or labels share the head.
Result<HeadPlan> plan_head(const Module& module, std::span<const NodeId> head_nodes, size_t head, int64_t rows);

// d(objective) / d(loss of a row) of the head with this loss; for a head without a loss, the value as if it had one.
double row_weight_of(const Module& module, NodeId loss);

// Whether a trained head updates its rows in a separate sweep, after passes of `rows` rows each, and not in the pass
// that makes their gradient: if a pass has only a part of the batch, or clipping needs all gradients first.
bool needs_update_sweep(const TrainSpec& train, int64_t rows);

}  // namespace xrun::planner
