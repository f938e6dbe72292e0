// Sums of gradients over replicas, in rounds. In a round each replica receives the terms of a slice of every gradient
// from the other members of the round and sums them; after the last round every element is summed over all replicas,
// on one of them.
//
// Usually one round has all replicas as members. Where runs of g replicas lie on one node each there are two: in the
// first, the replicas of a run sum g slices; in the second, the replicas with the same slice in all runs share it out
// among them. A run then sends one term of an element, its sum, where it would send one of each replica
// (docs/internals/algorithms.md, "Collective costs").
#pragma once

#include <span>
#include <vector>

#include "graph/base/units.h"
#include "planner/machine.h"
#include "planner/program.h"

namespace xrun::planner {

// Bytes of a gradient, which is f32.
struct Slice {
  Bytes offset = 0;
  Bytes bytes = 0;
};

class ReplicaSums {
 public:
  explicit ReplicaSums(const Program& program) : ReplicaSums(program.replicas, program.node_replicas) {}
  // REQUIRES: `node_replicas` divides `replicas`.
  ReplicaSums(int replicas, int node_replicas) : replicas_(replicas), node_replicas_(node_replicas) {}
  // Sums over runs of `run` replicas only, in one round: the owner, which is replica `owner` of each run, receives
  // whole gradients from the others of the run. REQUIRES: `run` divides `replicas`.
  static ReplicaSums over_runs(int replicas, int run, int owner) {
    ReplicaSums sums(replicas, run);
    sums.owner_ = owner;
    return sums;
  }

  int rounds() const { return owner_ < 0 && node_replicas_ > 1 && node_replicas_ < replicas_ ? 2 : 1; }
  // The replicas that sum together with `replica`, in ascending order; it is one of them.
  std::vector<int> members(int round, int replica) const;
  // The slice of a gradient of `count` elements that a replica sums in a round; of round `rounds() - 1`: that it sends
  // to all replicas afterwards.
  Slice slice(int64_t count, int round, int replica) const;
  // The slice that the members of a round share out among them: all of the gradient in the first one.
  Slice shared(int64_t count, int round, int replica) const;
  // The most terms of other replicas that a replica holds of one gradient.
  Bytes terms(int64_t count, int replica) const;

 private:
  int replicas_;
  int node_replicas_;
  int owner_ = -1;  // of over_runs
};

// The most consecutive replicas, in runs of equal length, that lie on one node each. `stages` has the devices of each
// stage, by replica.
int longest_runs(const Machine& machine, std::span<const std::vector<int>> stages);
// Program::node_replicas on this machine.
int replicas_of_node(const Machine& machine, std::span<const std::vector<int>> stages);

}  // namespace xrun::planner
