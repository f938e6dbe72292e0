// Partition: contiguous cuts of a chain of layers into stages, exactly (docs/internals/algorithms.md, "Partition").
#pragma once

#include <vector>

#include "graph/base/units.h"
#include "graph/specs.h"

namespace xrun::planner {

struct PartitionLayer {
  Seconds forward = 0;  // one micro-batch
  Seconds backward = 0;
  Bytes resident = 0;   // weights with all their states
  Bytes saved = 0;      // kept for the backward pass of one micro-batch unless the layer runs again
  Bytes incoming = 0;   // boundary before this layer, one micro-batch
  bool again = false;   // runs again under Recompute::kChosen
  int pinned = -1;      // the stage that must have it; -1: any
  bool joined = false;  // no cut before this layer
};

// kChosen: the marked layers. kAuto: no layers if the stage fits, else the cheapest set that makes it fit.
enum class Recompute { kNone, kAll, kChosen, kAuto };

struct PartitionRequest {
  std::vector<PartitionLayer> layers;
  int stages = 1;
  int micro_batches = 1;  // per replica
  PipelineKind pipeline = PipelineKind::kGpipe;
  Recompute recompute = Recompute::kNone;
  Bytes cap = 0;                     // per stage; 0: no limit
  Bytes total = 0;                   // for all stages together; 0: no limit; only with kAuto
  double seconds_per_kept_byte = 0;  // kAuto: the price of memory; a layer runs again if that is cheaper
  double seconds_per_boundary_byte = 0;
  int last_cut = 0;    // no cut after this position; 0: any
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
  Bytes memory() const;   // total of all stages
};

// Micro-batches that a stage holds: all (GPipe), or the number of stages from this one to the last (1F1B).
int micro_batches_held(PipelineKind pipeline, int stage, int stages, int micro_batches);

// The best partitions, best first: the first one is optimal for the objective (with more than 48 layers, to 1 / 1000;
// with more than 2,048 layers, or 256 if each stage chooses what to run again, among cuts between groups of
// neighbours). The others are the optima under other bounds of the largest stage, which a simulated schedule may
// prefer. Limits on the total are handled by planner/search/total_memory.h. Empty if no partition fits.
std::vector<Partition> partition(const PartitionRequest& request);

// Times and memory of a stage to which layers are added one by one; layers whose kept bytes cost more than their time,
// or that the request marks, run again.
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

// Chooses the cheapest set of layers begin..end-1 to run again, counting the price of kept bytes, so that resident +
// held x (incoming + saved of the others) fits the cap: exact branch and bound. False if no set fits. Adds the cost to
// `stage`.
bool choose_recompute(const PartitionRequest& request, int held, PartitionStage& stage);

}  // namespace xrun::planner
