// Sums of gradients over replicas, in rounds. In a round each replica receives the terms of a slice of every gradient
// from the other members of the round and sums them; after the last round every element is summed over all replicas, on
// one of them.
//
// Usually there is one round with all replicas as members. If runs of g replicas are on one node each, there are two
// rounds: in the first, the replicas of a run sum g slices; in the second, the replicas with the same slice in all runs
// divide it among them. A run then sends one term of an element, its sum, instead of one for each replica
// (docs/internals/algorithms.md, "Collective costs").
#pragma once

#include <span>
#include <vector>

#include "graph/base/units.h"
#include "planner/machine.h"
#include "planner/program.h"

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
  // Sums only over runs of `run` replicas, in one round: the owner, which is replica `owner` of each run, receives
  // whole gradients from the others of the run. REQUIRES: `run` divides `replicas`.
  static ReplicaSums over_runs(int replicas, int run, int owner) {
    ReplicaSums sums(replicas, run);
    sums.owner_ = owner;
    return sums;
  }

  int rounds() const { return owner_ < 0 && node_replicas_ > 1 && node_replicas_ < replicas_ ? 2 : 1; }
  // The replicas that sum together with `replica`, including it, in ascending order.
  std::vector<int> members(int round, int replica) const;
  // The slice of a gradient of `count` elements that a replica sums in a round; in round `rounds() - 1`, the slice that
  // it sends to all replicas afterwards.
  Slice slice(int64_t count, int round, int replica) const;
  // The slice that the members of a round divide among them: all of the gradient in the first one.
  Slice shared(int64_t count, int round, int replica) const;
  // The most terms of other replicas that a replica holds of one gradient.
  Bytes terms(int64_t count, int replica) const;

 private:
  int replicas_;
  int node_replicas_;
  int owner_ = -1;  // argument of over_runs; -1 otherwise
};

// The most consecutive replicas, in runs of equal length, that are on one node each. `stages` has the devices of each
// stage, by replica.
int longest_runs(const Machine& machine, std::span<const std::vector<int>> stages);
// Program::node_replicas on this machine.
int replicas_of_node(const Machine& machine, std::span<const std::vector<int>> stages);

}  // namespace xrun::planner
