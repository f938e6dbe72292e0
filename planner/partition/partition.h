// Partition: finds the best cuts of a chain of layers into contiguous stages, under limits of memory
// (docs/internals/algorithms.md, "Partition").
#pragma once

#include <optional>
#include <vector>

#include "graph/base/units.h"
#include "graph/settings/specs.h"

namespace xrun::planner {

struct PartitionLayer {
  Seconds forward = 0;  // time for one micro-batch
  Seconds backward = 0;
  Seconds weight_gradient = 0;  // the part of `backward` in nodes that only compute gradients of weights
  Bytes resident = 0;           // weights with all their states
  Bytes saved = 0;              // bytes kept for the backward pass of one micro-batch unless the layer runs again
  Bytes incoming = 0;           // bytes of one micro-batch that cross a cut before this layer
  bool again = false;           // runs again under Recompute::kChosen
  int pinned = -1;              // the stage that must have this layer; -1: any
  bool joined = false;          // no cut before this layer is allowed
  // If the layer is chosen to run again: the time of the layers that run again before it since nothing keeps their
  // results.
  Seconds inputs_again = 0;
  Seconds again_time() const { return forward + inputs_again; }
};

// Determines which layers run again in the backward pass. kChosen: the layers marked `again`. kAuto: no layers if the
// stage fits into its memory, else the cheapest set with which it fits.
enum class Recompute { kNone, kAll, kChosen, kAuto };

struct Partition;

// The limit of the memory of a node of a cluster, on which some replicas of stages are.
struct NodeLimit {
  Bytes limit = 0;
  std::vector<int> replicas;  // index: stage; the number of its replicas on the node
  // Returns the bytes that the stages of a partition leave unused; negative if they exceed the limit.
  Bytes space(const Partition& partition) const;
};

struct PartitionRequest {
  std::vector<PartitionLayer> layers;
  int stages = 1;
  int micro_batches = 1;  // per replica
  PipelineKind pipeline = PipelineKind::kGpipe;
  int warm_up = 0;         // PipelineHint::warm_up
  bool in_phases = false;  // all forward passes come before all backward passes
  Recompute recompute = Recompute::kNone;
  Bytes cap = 0;                 // memory limit of each stage; 0: no limit
  Bytes total = 0;               // memory limit of all stages together, only with kAuto; 0: no limit
  std::vector<NodeLimit> nodes;  // memory limits of stages on one node, only with kAuto
  bool shares_memory() const { return recompute == Recompute::kAuto && (total > 0 || !nodes.empty()); }
  double seconds_per_boundary_byte = 0;
  int last_cut = 0;    // the last position where a cut is allowed; 0: any
  int candidates = 1;  // number of partitions wanted
};

struct PartitionStage {
  int begin = 0;
  int end = 0;
  std::vector<int> recomputed;  // layers that run again, ascending
  Seconds forward = 0;
  Seconds backward = 0;  // recomputation included
  Bytes memory = 0;
  Seconds time() const { return forward + backward; }
};

struct Partition {
  std::vector<PartitionStage> stages;
  Seconds objective = 0;  // sum of stage times and hops + (M - 1) x largest stage time
  Seconds bound = 0;      // no partition of the request has a smaller objective than this; 0: unknown
  bool proven() const { return objective <= bound * (1 + 2e-6); }
  Bytes memory() const;  // total of all stages
};

// Returns the number of micro-batches whose saved values a stage holds at the same time: all of them under GPipe; under
// 1F1B at most the number of stages from this one to the last, and the further warm-up. For other schedules it is an
// upper bound: kZeroBubble may hold twice as many as 1F1B, and with several stages on a device each stage holds at
// most as many as there are stages.
int micro_batches_held(const PartitionRequest& request, int stage);

// Returns the best partitions, best first; empty if no partition fits. The first partition has a bound, and is optimal
// for the objective, up to a few millionths under a limit that stages share, with two exceptions. With more than 2,048
// layers (256 if layers to run again are chosen), neighbouring layers are merged into groups first, and the result is
// optimal among the cuts between groups. The choice of layers to run again gives up after many steps, and takes the
// best one found. The other partitions are optima under other bounds of the largest stage; a simulated schedule may be
// faster with one of them. Limits that several stages share are handled by planner/partition/shared_limits.h.
std::vector<Partition> partition(const PartitionRequest& request);

// Returns cuts with the smallest largest stage, in time that is nearly proportional to the layers. With limits of
// memory or pins, returns the first result of `partition`; nothing if there are no cuts.
std::optional<Partition> balanced_partition(const PartitionRequest& request);

// Returns the sum of stage times and hops + (M - 1) x largest stage time. The times of the stages are set.
Seconds objective_of(const PartitionRequest& request, const Partition& partition);

// Adds up the times and the memory of a stage, layer by layer. Layers that the request marks run again.
class StageSums {
 public:
  // `held`: micro-batches that the stage holds. The request must outlive this object.
  StageSums(const PartitionRequest& request, int held, int begin);
  void add_layer();

  Seconds forward() const { return forward_; }
  Seconds backward() const { return backward_ + repeated_; }
  Bytes memory() const { return memory_; }
  bool fits() const { return request_.cap == 0 || memory_ <= request_.cap; }

 private:
  const PartitionRequest& request_;
  int held_;
  int end_;
  Seconds forward_ = 0;
  Seconds backward_ = 0;
  Seconds repeated_ = 0;
  Bytes memory_;
};

struct Recomputation {
  bool fits = false;
  bool proven = true;  // no cheaper set of layers fits; false: the search for one was given up
};

// Chooses the cheapest set of layers of `stage` to run again, by branch and bound, so that the memory fits the cap:
// resident bytes + held x (incoming bytes + saved bytes of the layers that do not run again). Adds the cost to `stage`.
Recomputation choose_recompute(const PartitionRequest& request, int held, PartitionStage& stage);

}  // namespace xrun::planner
