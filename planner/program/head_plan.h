// Makes the part of a head's plan that follows from the module's graph. The search decides only the rows of a pass and
// the shards. The verifier derives the other fields again and compares.
#pragma once

#include <span>

#include "graph/module.h"
#include "planner/program/program.h"

namespace xrun::planner {

// The number of classes that `predict` shows for a sample. A metric that counts more best classes has its own k.
inline constexpr int64_t kShownClasses = 5;

// Returns the plan of head `head` of the module's graph, without shards. `rows` is HeadPlan::rows. `head_nodes` must
// contain the nodes that read logits and may contain others. Errors: kContent XG0198 if two losses or labels share the
// head.
Result<HeadPlan> plan_head(const Module& module, std::span<const NodeId> head_nodes, size_t head, int64_t rows);

// Returns d(objective) / d(loss of a row) for the head with this loss. For a head without a loss (an invalid id), it
// returns the value that a loss would give.
double row_weight_of(const Module& module, NodeId loss);

// Whether a trained head with passes of `rows` rows updates its class rows in a separate sweep after the passes, and
// not in the pass that computes their gradient. This is necessary if a pass has only a part of the batch, or if
// clipping needs all gradients first.
bool needs_update_sweep(const TrainSpec& train, int64_t rows);

}  // namespace xrun::planner
