// Compressed gradients in reports of a plan: the bytes that a step sends, the bytes of whole gradients, and whether
// compression by node matches the nodes of the machine.
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
  int replicas = 1;         // replicas of a sender, which sum their gradients whole
  bool by_node = false;     // whether each node that has replicas is one sender
  int64_t elements = 0;     // elements of the compressed weights
  int64_t pairs = 0;        // number that is sent of these, after the warm-up
  Bytes sent = 0;           // pairs, after the warm-up
  Bytes sent_at_first = 0;  // pairs of the first step
  Bytes dense = 0;          // if these gradients were sent whole
  Bytes others = 0;         // gradients that are sent whole
  Bytes inside = 0;         // sent by all replicas of a sender to those that compress
};
// Nullopt if the run does not compress.
std::optional<CompressSummary> compression_of(const Plan& plan, const Module& module);

// The line of a plan's page; empty without compression.
std::string compression_text(const Plan& plan, const Module& module);

// Warns with XG0630 if `per_node = true` has one sender for several replicas, so that no node sends anything to
// another, or if senders are parts of a node, because nodes have different numbers of replicas.
std::optional<Diagnostic> unlike_nodes(const Plan& plan, const Module& module);

}  // namespace xrun::planner
