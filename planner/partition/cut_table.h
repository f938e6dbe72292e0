// The least sum of the times of all stages if no stage takes more than a limit, by dynamic programming.
#pragma once

#include <vector>

#include "planner/partition/cut_rules.h"
#include "planner/partition/stage_times.h"

namespace xrun::planner {

class CutTable {
 public:
  // All arguments must outlive this object.
  CutTable(const PartitionRequest& request, const StageTimes& times);

  // Whether there are cuts with no stage above `limit`.
  bool possible(Seconds limit) const;

  // Whether there is neither a limit of memory nor a pin.
  bool is_plain() const { return is_plain_; }

  // Returns stages each of which ends at the last possible cut; empty if there are no cuts within the limit.
  // REQUIRES: is_plain().
  std::vector<PartitionStage> longest_stages(Seconds limit) const;

  // Returns the smallest limit for which there are cuts; infinite if there is none.
  Seconds least_limit() const;

  // Returns the least sum of the times of all stages and hops for cuts with no stage above `limit`, and keeps the table
  // for `trace`; infinite if there are no such cuts.
  double cheapest(Seconds limit);

  // Returns the stages of the cuts that the last call of `cheapest` found: their first layers and ends. REQUIRES: there
  // are cuts.
  std::vector<PartitionStage> trace() const;

 private:
  // The range of ends of a stage `s` that begins at layer `begin` and takes at most `limit`. The ends form one range,
  // since more layers never take less time. The last stage ends with the last layer.
  struct Ends {
    int first = 0;
    int last = -1;
  };
  Ends ends_within(Seconds limit, int s, int begin) const;

  // Extend the row of stage `s` to the row of the next stage.
  void extend_by_table(Seconds limit, int s);
  void extend_by_window(Seconds limit, int s);

  // Returns the first layer of stage `s` in the best cuts of the layers before `end`.
  int begin_of(int s, int end) const;

  double* row(int s) { return best_.data() + static_cast<size_t>(s) * (static_cast<size_t>(n_) + 1); }
  const double* row(int s) const { return best_.data() + static_cast<size_t>(s) * (static_cast<size_t>(n_) + 1); }

  const PartitionRequest& request_;
  const StageTimes& times_;
  int n_;
  CutRules rules_;
  bool is_plain_ = true;
  std::vector<int> cuts_;      // positions of legal cuts, ascending
  std::vector<Seconds> hops_;  // index: position; time of the hop to a stage that begins there
  Seconds limit_ = 0;          // the last argument of `cheapest`
  std::vector<double> best_;   // [stages][position]: the least time of the layers before the position; without a limit
                               // of memory, the hops alone
  std::vector<int> window_;    // candidates for the first layer of a stage, in ascending order of their times
};

}  // namespace xrun::planner
