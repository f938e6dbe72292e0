// Sums of gradients over replicas, in one round or two. In a round, each replica is responsible for a slice of every
// gradient: it receives this slice from the other members of the round and sums it. After the last round, each element
// of a gradient has been summed over all replicas on exactly one replica, which sends the sum to all others.
//
// Usually there is one round, whose members are all replicas. If every group of g consecutive replicas is on one node,
// there are two rounds. In the first round, the g replicas of a group divide each gradient into g slices and sum them.
// In the second round, the replicas that have the same slice in all groups divide it among them and sum over the
// groups. The network then carries one term per element and group, instead of one per replica
// (docs/internals/algorithms.md, "Collective costs").
#pragma once

#include <span>
#include <vector>

#include "graph/base/units.h"
#include "planner/program/program.h"

namespace xrun::planner {

// A range of a gradient, which is f32, in bytes.
struct Slice {
  Bytes offset = 0;
  Bytes bytes = 0;
};

class ReplicaSums {
 public:
  explicit ReplicaSums(const Program& program) : ReplicaSums(program.replicas, program.node_replicas) {}
  // REQUIRES: `node_replicas` divides `replicas`.
  ReplicaSums(int replicas, int node_replicas) : replicas_(replicas), node_replicas_(node_replicas) {}
  // Returns sums over each group of `run` consecutive replicas, in one round: the replica at position `owner` of each
  // group receives the whole gradients from the other replicas of its group. REQUIRES: `run` divides `replicas`.
  static ReplicaSums over_runs(int replicas, int run, int owner) {
    ReplicaSums sums(replicas, run);
    sums.owner_ = owner;
    return sums;
  }

  int rounds() const { return owner_ < 0 && node_replicas_ > 1 && node_replicas_ < replicas_ ? 2 : 1; }
  // Returns the replicas that sum together with `replica` in a round, including `replica`, in ascending order.
  std::vector<int> members(int round, int replica) const;
  // Returns the slice of a gradient of `count` elements that a replica sums in a round. After the last round, the
  // replica sends its slice of that round to all replicas.
  Slice slice(int64_t count, int round, int replica) const;
  // Returns the slice that the members of a round divide among them: the whole gradient in the first round.
  Slice shared(int64_t count, int round, int replica) const;
  // Returns the largest number of bytes that a replica receives for one gradient in a round.
  Bytes terms(int64_t count, int replica) const;

 private:
  int replicas_;
  int node_replicas_;
  int owner_ = -1;  // argument of over_runs; -1 otherwise
};

// Returns the largest n such that every group of n consecutive replicas that begins at a multiple of n is on one node.
// `device_nodes` has the node of each device, or is empty if there is one node; `stages` has the devices of each stage,
// by replica.
int longest_runs(std::span<const int> device_nodes, std::span<const std::vector<int>> stages);
// Returns Program::node_replicas for these devices.
int replicas_of_node(std::span<const int> device_nodes, std::span<const std::vector<int>> stages);

}  // namespace xrun::planner
