// The choice of layers to run again for stages that begin at one layer and grow layer by layer.
#pragma once

#include <vector>

#include "planner/partition/partition.h"

namespace xrun::planner {

class GrowingStage {
 public:
  // A layer that may run again, with the bytes that this frees for one micro-batch, and the time that it costs.
  struct Item {
    int layer;
    Bytes bytes;
    Seconds seconds;
  };

  // `held`: micro-batches that the stage holds. The request must outlive this object.
  GrowingStage(const PartitionRequest& request, int held, int begin);
  void add_layer();

  const StageSums& sums() const { return sums_; }
  // Chooses the cheapest set of layers to run again (see choose_recompute), and sets the times and the memory of
  // `stage`, which has the layers that were added.
  Recomputation choose(PartitionStage& stage);

 private:
  void sort_items();

  const PartitionRequest& request_;
  int held_;
  int end_;
  StageSums sums_;
  std::vector<int> recomputed_;  // layers that run again without a limit of memory
  std::vector<Item> items_;
  size_t sorted_ = 0;  // the first items, which are in order of their seconds per byte
};

}  // namespace xrun::planner
