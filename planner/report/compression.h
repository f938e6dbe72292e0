// Compressed gradients in reports of a plan: what a step sends of them, what whole gradients would take, and whether
// compression by node follows the nodes of the machine.
#pragma once

#include <optional>
#include <string>

#include "graph/base/diagnostic.h"
#include "planner/plan.h"

namespace xrun::planner {

// Compressed gradients: their number, and the bytes that one sender, a replica or a node, sends in a step to all
// others. Reductions of whole gradients over S senders send 2 (S - 1) / S of their bytes.
struct CompressSummary {
  int senders = 1;
  int replicas = 1;         // of a sender, which sum their gradients whole
  bool by_node = false;     // whether each node that has replicas is one sender
  int64_t elements = 0;     // of the weights that are compressed
  int64_t pairs = 0;        // of these, after the warm-up
  Bytes sent = 0;           // pairs, after the warm-up
  Bytes sent_at_first = 0;  // pairs of the first step
  Bytes dense = 0;          // if these gradients were sent whole
  Bytes others = 0;         // gradients that are sent whole
  Bytes inside = 0;         // by all replicas of a sender to those that compress
};
// None where the run does not compress.
std::optional<CompressSummary> compression_of(const Plan& plan, const Module& module);

// The line of a plan's page; empty without compression.
std::string compression_text(const Plan& plan, const Module& module);

// XG0630, a warning, where `per_node = true` has one sender for several replicas, so that no node sends anything to
// another, or where senders are parts of a node, because nodes have different numbers of replicas.
std::optional<Diagnostic> unlike_nodes(const Plan& plan, const Module& module);

}  // namespace xrun::planner
