// The times of every possible stage of a chain of layers.
#pragma once

#include <map>
#include <vector>

#include "planner/partition/partition.h"

namespace xrun::planner {

// Times by the first layer, the end, and the number of micro-batches that the stage holds. Each time is that of the
// cheapest choice of layers to run again with which the stage fits into its memory.
class StageTimes {
 public:
  // The request must outlive this object.
  explicit StageTimes(const PartitionRequest& request);

  // Returns the times of stage `s` if it begins at layer `begin`; index: end. A time is infinite if the stage does not
  // fit.
  const Seconds* times(int s, int begin) const {
    return by_stage_[static_cast<size_t>(s)]->data() + static_cast<size_t>(begin) * size_;
  }

  // Whether each time is the least one; false: a search for layers to run again was given up.
  bool proven() const { return proven_; }

  // All finite times, ascending.
  std::vector<Seconds> distinct_times() const;

 private:
  void fill(int held, std::vector<Seconds>& times);

  const PartitionRequest& request_;
  size_t size_;
  std::map<int, std::vector<Seconds>> by_held_;
  std::vector<const std::vector<Seconds>*> by_stage_;
  bool proven_ = true;
};

}  // namespace xrun::planner
