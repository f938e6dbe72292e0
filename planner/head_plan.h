// What a module's graph says about one head: the search decides only its rows and shards, and the verifier derives the
// rest again.
#pragma once

#include <span>

#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

// Classes that `predict` names for a sample; a metric that counts more of them has its own k.
inline constexpr int64_t kShownClasses = 5;

// Head `head` of the module's graph, all but its shards; the verifier holds plans to it. `head_nodes` has the nodes
// that read logits (and perhaps others). Errors: kContent XG0198 where two losses or labels share the head.
Result<HeadPlan> plan_head(const Module& module, std::span<const NodeId> head_nodes, size_t head, int64_t rows);

}  // namespace xrun::planner
