// The estimated time of a step with given cuts, before a program exists (docs/internals/algorithms.md, "Cuts for a
// schedule").
#pragma once

#include "planner/partition/schedule_cuts.h"
#include "planner/schedules/simulate_schedule.h"
#include "planner/search/exchange_times.h"
#include "planner/search/heads.h"
#include "planner/search/search.h"

namespace xrun::planner {

// The passes of a schedule, followed by the updates of each stage and of the shards on its devices. If there are more
// threads than cores, all workers slow down while more of them are busy than there are cores, as in the simulation of a
// program.
class StepEstimate {
 public:
  // All arguments except `heads` must outlive the object. `request` has the layers, and `head` the times of `heads`.
  StepEstimate(const SearchInput& input, const Setting& setting, const PartitionRequest& request,
               const std::vector<HeadPlan>& heads, const HeadTimes& head);

  Schedule schedule(const Partition& cuts) const;
  Prediction predict(const Partition& cuts) const;

  // Returns the time of a formula for the passes, which is the objective of the partition for GPipe and 1F1B, with
  // heads and updates; no schedule is simulated.
  Prediction predict_roughly(const Partition& cuts) const;

  // Returns the most time that a step saves if gradients are sent during the last backward pass of the first stage
  // (planner/emit/emit_segments.cpp): 7/8 of the shorter of the pass and the exchange.
  Seconds saved_by_early_buckets(const Partition& cuts) const;

  // Costs for a search of the cuts with the shortest step. The object must outlive them.
  ScheduleCosts costs() const;

 private:
  struct Workers {
    Seconds time = 0;
    int change = 0;  // in the number of busy workers
  };
  struct StepTimes {
    ScheduleTimes schedule;
    Seconds step = 0;
    bool slowed = false;  // whether workers wait for cores
  };

  // `first` has the times that are added to the first backward passes.
  ScheduleRequest passes(const Partition& cuts, std::vector<Seconds> first) const;
  // The time in nodes of a stage that only compute gradients of weights; 0 if the schedule does not split passes.
  Seconds weight_gradient(const PartitionStage& stage) const;
  // The estimated time of the passes of a schedule other than GPipe and 1F1B.
  Seconds passes_roughly(const Partition& cuts) const;
  Seconds head_pass() const { return head_.pass() + exchanges_.of_pass(); }
  // The time by which the selection of active classes delays the first stage.
  Seconds selection() const;
  StepTimes times(const Partition& cuts) const;
  Seconds real_time(const ScheduleTimes& schedule, std::vector<Workers> updates) const;

  const SearchInput& input_;
  const Setting& setting_;
  const PartitionRequest& request_;
  const HeadTimes& head_;
  HeadExchanges exchanges_;
  UpdateCosts updates_;
  int head_passes_;
  bool splits_;                   // whether backward passes are split
  int workers_;                   // the workers of all replicas of a stage
  int head_workers_ = 0;          // the workers of all devices that have shards of heads
  std::vector<int> ranks_;        // index: stage
  std::vector<bool> has_shards_;  // index: rank; whether some of its devices do
  Seconds selection_;             // the selection of active classes
};

}  // namespace xrun::planner
