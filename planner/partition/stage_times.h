// The times of every possible stage of a chain of layers.
#pragma once

#include <map>
#include <vector>

#include "planner/partition/partition.h"

namespace xrun::planner {

// Times by the first layer, the end, and the number of micro-batches that the stage holds. Each time is that of the
// cheapest choice of layers to run again with which the stage fits into its memory, and infinite for stages that are
// too long for the best cuts. Without a limit of memory, times are differences of sums; otherwise there is a table.
class StageTimes {
 public:
  // The request must outlive this object.
  explicit StageTimes(const PartitionRequest& request);

  // Whether there is no limit of memory, so that all stages take as long for the same layers.
  bool free() const { return by_stage_.empty(); }

  // Returns the time of stage `s` with the layers begin .. end - 1; infinite if it does not fit.
  Seconds time(int s, int begin, int end) const {
    return free() ? sums_[static_cast<size_t>(end)] - sums_[static_cast<size_t>(begin)] : times(s, begin)[end];
  }

  // Returns the times of stage `s` if it begins at layer `begin`; index: end. REQUIRES: there is a limit of memory.
  const Seconds* times(int s, int begin) const {
    return by_stage_[static_cast<size_t>(s)]->data() + static_cast<size_t>(begin) * size_;
  }

  // Returns the largest end of a stage up to `last` with which it takes at most `limit`; `begin` if there is none.
  int end_within(Seconds limit, int s, int begin, int last) const;

  // Whether each time is the least one; false: a search for layers to run again was given up.
  bool proven() const { return proven_; }

  // Return the smallest time of a stage that is larger than `time`, and the largest one that is at most `time`;
  // infinite and 0 if there is none.
  Seconds above(Seconds time) const;
  Seconds upto(Seconds time) const;

 private:
  void fill(int held, std::vector<Seconds>& times);

  const PartitionRequest& request_;
  size_t size_;
  std::vector<Seconds> sums_;  // without a limit, sums over the layers before a layer
  std::map<int, std::vector<Seconds>> by_held_;
  std::vector<const std::vector<Seconds>*> by_stage_;
  std::vector<Seconds> distinct_;  // with a limit, all finite times, ascending
  Seconds longest_ = 0;            // stages that take longer are left out of the table
  bool proven_ = true;
};

}  // namespace xrun::planner
