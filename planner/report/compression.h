// Reports on compressed gradients of a plan: the bytes that a step sends, the bytes that it would send without
// compression, and whether senders match the nodes of the machine.
#pragma once

#include <optional>
#include <string>

#include "graph/base/diagnostic.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// The figures of a plan with compressed gradients. Bytes are those that one sender (a replica or a node) sends in a
// step to all other senders together. For gradients that are sent whole, a reduction over S senders sends 2 (S - 1) / S
// of their bytes.
struct CompressSummary {
  int senders = 1;
  int replicas = 1;         // replicas of one sender, which sum their gradients before compression
  bool by_node = false;     // whether each node that has replicas is one sender
  int64_t elements = 0;     // elements of the compressed weights
  int64_t pairs = 0;        // number of these elements that are sent in a step, after the warm-up
  Bytes sent = 0;           // bytes of the pairs, after the warm-up
  Bytes sent_at_first = 0;  // bytes of the pairs in the first step
  Bytes dense = 0;          // bytes if these gradients were sent whole
  Bytes others = 0;         // bytes of the other gradients, which are sent whole
  Bytes inside = 0;         // bytes that replicas send to the replica of their sender that compresses
};
// Returns these figures for a plan; nullopt if the run does not compress gradients.
std::optional<CompressSummary> compression_of(const Plan& plan, const Module& module);

// Returns the line about compressed gradients for the page of a plan; empty without compression.
std::string compression_text(const Plan& plan, const Module& module);

// Warns with XG0630 if `per_node = true` does not make each node a sender: either all replicas are one sender, so that
// nothing is compressed for the network, or senders are parts of a node because nodes have different numbers of
// replicas.
std::optional<Diagnostic> unlike_nodes(const Plan& plan, const Module& module);

}  // namespace xrun::planner
