// Determines how dX partials get from a head's shards to the device that sums the gradient of a micro-batch's features.
//
// Usually each shard sends its own partials, one for each subtree of its class blocks. If a node other than the
// receiver's has several neighbouring shards, one of its devices may first sum their partials (Kind::kSumDx). The
// result has one partial for each subtree of the class blocks of all these shards together. The planner does this if
// the result has fewer partials than the shards, since the network then carries less (docs/internals/algorithms.md,
// "Collective costs"). The sum keeps the order of the tree over class blocks.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "planner/program/program.h"

namespace xrun::planner {

// The dX partials that one device sends for a sum: those of one shard, or the sums over several shards.
struct DxTerm {
  std::vector<int> shards;  // neighbouring shards with rows, in ascending order
  int device = 0;           // device that sends the term: the device of the shard, or the one that summed the shards
  ClassRange classes;

  bool is_summed() const { return shards.size() > 1; }
};

// The terms of a head's shards. Immutable.
class DxTerms {
 public:
  // `device_nodes` has the node of each device; empty: all devices are on one node. Both arguments must outlive the
  // object. REQUIRES: shards are numbered in order and aligned to class blocks; each device has a node.
  DxTerms(const HeadPlan& head, std::span<const int> device_nodes);
  DxTerms(HeadPlan&&, std::span<const int>) = delete;

  // Returns all terms of a sum on device `receiver`, in the order of their classes. If a node sums its shards first,
  // `turn` selects the device of the node that does it, so that calls with successive turns distribute the work.
  std::vector<DxTerm> of_sum(int receiver, int turn) const;
  // Returns the term for the shards of a node, the first of which is `first`, that the node sums for other nodes; null
  // if no such term exists. The device of the term is the device of one of these shards.
  const DxTerm* on_node(int first) const;
  // Returns a term for each of the shards of a summed term.
  std::vector<DxTerm> shards_of(const DxTerm& summed) const;
  // Returns the devices of the shards of a summed term.
  std::set<int> devices_of(const DxTerm& summed) const;
  // Returns the number of partials that each node sends for a sum on another node; key: node.
  std::map<int, int64_t> partials_by_node() const;

 private:
  int node_of(int device) const { return device_nodes_.empty() ? 0 : device_nodes_[static_cast<size_t>(device)]; }
  int64_t partials(const DxTerm& term) const;

  const HeadPlan& head_;
  std::span<const int> device_nodes_;
  std::vector<DxTerm> terms_;  // for a receiver on a separate node
};

// A sum of dX partials for a replica's micro-batch.
struct DxSum {
  int replica = 0;
  int device = 0;
  DxTerm result;  // the term that a sum on a node makes; empty for a sum on a device that made the features
  std::vector<DxTerm> terms;
};

// Returns all sums of dX for micro-batch `gather` of each replica; `stage` is the stage that makes the features. Each
// entry has one sum per replica. Key -1 has the sums on the devices that made the features. Key s >= 0 has the sums on
// the node whose first summed shard is s; they are computed before the sums of key -1, which read them.
std::map<int, std::vector<DxSum>> dx_sums(const Program& program, const HeadPlan& head, int stage, int gather);

// Returns the devices that send terms of these sums to other devices, or receive terms from them.
std::set<int> members_of(std::span<const DxSum> sums);

// Returns the place of the rows of micro-batch `gather` of a replica in the partials of a term.
HeadGradientRows dx_rows(const Program& program, const Graph& graph, const HeadPlan& head, const DxTerm& term,
                         int replica, int gather);

}  // namespace xrun::planner
