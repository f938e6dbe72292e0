// The times that a setting needs besides passes, before a program exists: transfers between stages, exchanges of heads,
// sums of gradients over replicas, and updates. All are computed as planner/cost/durations.cpp does for instructions.
#pragma once

#include <vector>

#include "planner/program/replica_sums.h"
#include "planner/search/heads.h"
#include "planner/search/search.h"

namespace xrun::planner {

// Index of the lists: stage.
struct UpdateTimes {
  std::vector<Seconds> zeroing;  // time in which the first backward pass sets gradients to zero
  std::vector<Seconds> stages;   // after the last backward pass: the sums of gradients, and the update of weights
  Seconds network = 0;           // more time that the sums of all stages take on the links between nodes
  Seconds first = 0;             // exchanges of the first stage with gradients, on the links between nodes
};

class UpdateCosts {
 public:
  // Both arguments must outlive the object.
  UpdateCosts(const SearchInput& input, const Setting& setting);

  UpdateTimes times(const Partition& cuts) const;
  // Returns the least time that a layer adds to the update of its stage.
  Seconds of_layer(size_t layer) const;

 private:
  struct StageBytes {
    Bytes gradients = 0;
    Bytes pairs = 0;
    Bytes whole = 0;
    Seconds update = 0;
  };
  StageBytes sum_up(const PartitionStage& stage) const;
  Seconds exchanges(const StageBytes& bytes) const;

  const SearchInput& input_;
  const Setting& setting_;
  std::vector<std::vector<int>> devices_;  // index: stage
  ReplicaSums sums_;
  int run_;  // replicas that send compressed gradients together
  Bytes partials_;
  int workers_;
};

// Returns the time that the values of a micro-batch of all replicas take from the previous stage to stage `s`; for the
// first stage, the time of a copy.
Seconds hop_time(const SearchInput& input, const Setting& setting, const PartitionRequest& request,
                 const Partition& cuts, size_t s);

// Seconds of all heads together. `gather`, `scatter` and `sum` are for one micro-batch of every replica, of which a
// head pass may have several.
struct HeadExchanges {
  Seconds gather = 0;      // the gather of features
  Seconds statistics = 0;  // the gather and the combination of all statistics, in a pass
  Seconds scatter = 0;     // the exchange of the partials of dX
  // The parts of `gather` and `scatter` on the links between nodes, which successive micro-batches share.
  Seconds gather_links = 0;
  Seconds scatter_links = 0;
  Seconds sum = 0;     // the sum of these partials
  Seconds copies = 0;  // the copies of rows that are not contiguous in the batch, in a pass
  Seconds starts = 0;  // the hand-overs of a pass
  // The time of a pass without its computations: until its last features have arrived, and from its end until dX of
  // its first micro-batch has arrived.
  Seconds of_pass() const { return gather + statistics + scatter + copies + starts; }
};

// `makers` are the devices that make the features, and `rows` is the number of rows of one micro-batch of every
// replica.
HeadExchanges head_exchanges(const std::vector<HeadPlan>& heads, const CostModel& cost, const TrainingHeads& training,
                             const std::vector<int>& makers, int64_t rows);

}  // namespace xrun::planner
