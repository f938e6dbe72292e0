// The least time of the stages of a pipeline if each byte of their memory costs time. It is a lower bound for
// partitions with limits on the memory of several stages together (docs/internals/algorithms.md, "Limits that stages
// share").
#pragma once

#include <vector>

#include "planner/partition/cut_rules.h"

namespace xrun::planner {

// Seconds that a second of stage time, and a byte of the memory of each stage, cost.
struct Prices {
  double second = 1;
  std::vector<double> bytes;  // index: stage
};

// All functions take a request with Recompute::kAuto, which must outlive the object. Limits of stage times count no
// layer twice, and the memory limit of a stage is compared with its memory if all layers run again, so no partition
// that respects the limits costs less than the results. One thread at a time may call the functions of an object.
class PricedStages {
 public:
  explicit PricedStages(const PartitionRequest& request);

  /// Finds the cuts, and the layers to run again, that cost least if no stage takes more than `limit`. Keeps tables for
  /// `rest` and `cheapest`. @return the cost; infinite if there are no such cuts.
  double solve(Seconds limit, Prices prices);

  /// The least cost of the layers from `layer` on, after stage `stage` has taken `used` seconds for the layers before.
  double rest(int stage, int layer, Seconds used) const;

  /// The partition that the last call of `solve` found; stages may take more than its limit, since layers run again.
  /// REQUIRES: there is one.
  Partition cheapest() const;

  const Prices& prices() const { return prices_; }
  const CutRules& rules() const { return rules_; }
  int held(int stage) const { return held_[static_cast<size_t>(stage)]; }
  Seconds hop(int layer) const;

  /// The most that `stages` stages and the hops between them may cost if no stage takes more than `limit`.
  Seconds most(int stages, Seconds limit) const;

 private:
  // The position after the last layer that a stage may have if it has `layer`, for the given seconds and bytes.
  int last_end(int stage, int layer, Seconds time, Bytes memory) const;
  double byte_price(int stage) const { return prices_.bytes[static_cast<size_t>(stage)]; }
  double layer_cost(int stage, int layer) const;
  double entry_cost(int stage, int layer) const;

  const PartitionRequest& request_;
  CutRules rules_;
  int layers_;
  Seconds largest_hop_ = 0;
  std::vector<int> held_;        // micro-batches that a stage holds
  std::vector<Seconds> times_;   // sum of the times of the layers before a layer, none of which runs again
  std::vector<Bytes> resident_;  // sum of the resident bytes of the layers before a layer
  Seconds limit_ = 0;            // arguments of the last call of `solve`
  Prices prices_;
  std::vector<std::vector<double>> before_;    // [stage][layer]: cost of all layers before it, if the stage had them
  std::vector<std::vector<double>> end_cost_;  // [stage][end]: before_ plus the least cost of all stages that follow
};

// Sets times and memory of the stages, whose ranges and recomputed layers are set, and the objective.
void measure(const PartitionRequest& request, Partition& partition);

}  // namespace xrun::planner
