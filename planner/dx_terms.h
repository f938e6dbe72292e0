// The way of dX partials from a head's shards to the device that sums the gradient of a micro-batch's features.
//
// Usually each shard sends its own, one partial for each subtree of its class blocks. If a node other than the
// receiver's has several neighbouring shards, one of its devices may first sum theirs to the subtrees of all their
// blocks together (Kind::kSumDx). This is done if there are fewer of these subtrees: then the network carries less
// (docs/internals/algorithms.md, "Collective costs"). The sum keeps the order of the tree over class blocks.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "planner/program.h"

namespace xrun::planner {

// The dX partials that one device sends for a sum: those of one shard, or of several that were summed before.
struct DxTerm {
  std::vector<int> shards;  // shards with rows, ascending neighbours
  int device = 0;           // sending device: the shard's, or the one that sums
  ClassRange classes;

  bool is_summed() const { return shards.size() > 1; }
};

// The terms of a head's shards. Immutable.
class DxTerms {
 public:
  // `device_nodes` has the node of each device; empty: all are on one. Both outlive the object. REQUIRES: shards are
  // numbered in order and aligned to class blocks; each device has a node.
  DxTerms(const HeadPlan& head, std::span<const int> device_nodes);
  DxTerms(HeadPlan&&, std::span<const int>) = delete;

  // All terms of a sum on device `receiver`, in the order of their classes. The devices of a node take turns to sum
  // theirs: `turn` selects one.
  std::vector<DxTerm> of_sum(int receiver, int turn) const;
  // The shards of a node that are summed there for other nodes, of which `first` is the first; null if none are. Its
  // device is one of theirs.
  const DxTerm* on_node(int first) const;
  // These shards, each as a term of its own.
  std::vector<DxTerm> shards_of(const DxTerm& summed) const;
  std::set<int> devices_of(const DxTerm& summed) const;
  // Number of partials that a node sends for each sum on another node.
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
  DxTerm result;  // term that a sum on a node makes; empty on the devices that made the features
  std::vector<DxTerm> terms;
};

// All sums of micro-batch `gather`, one for each replica of `stage`, which makes the features. Key -1: the sums on the
// devices that made the features. Key s >= 0: the sums on the node whose first shard is s; they come before those of
// -1.
std::map<int, std::vector<DxSum>> dx_sums(const Program& program, const HeadPlan& head, int stage, int gather);

// The devices that send terms to others or receive them.
std::set<int> members_of(std::span<const DxSum> sums);

// The rows of a replica's micro-batch `gather` in the partials of a term.
HeadGradientRows dx_rows(const Program& program, const Graph& graph, const HeadPlan& head, const DxTerm& term,
                         int replica, int gather);

}  // namespace xrun::planner
