// A lower bound of the time of a step, over all cuts of a chain into contiguous stages
// (docs/internals/algorithms.md, "The bound of a step").
#pragma once

#include <limits>
#include <vector>

#include "graph/settings/specs.h"
#include "planner/partition/pass_paths.h"

namespace xrun::planner {

// A chain of layers. The times are those of one row block on one worker.
struct BoundChain {
  ChainPasses forward;
  ChainPasses backward;
  std::vector<Seconds>
      weight_gradients;          // index: layer; the part of `backward` that only computes gradients of weights
  std::vector<bool> returns;     // index: layer; whether it has a backward pass
  std::vector<Bytes> gradients;  // bytes of one partial of the gradients that the layer's stage updates alone
  std::vector<Bytes> states;     // bytes of their weights with all optimizer states
  std::vector<bool> joined;      // no cut before this layer is allowed
  int last_cut = 0;              // the last position where a cut is allowed
};

// One setting of the search. Lists have an entry for each stage.
struct BoundSetting {
  int stages = 1;
  int ranks = 1;          // devices of a replica, which share the stages equally
  int micro_batches = 1;  // per replica
  PipelineKind pipeline = PipelineKind::kGpipe;
  int warm_up = 0;     // PipelineHint::warm_up
  double forward = 1;  // the time of a pass over a micro-batch, in units of the chain's times
  double backward = 1;
  Seconds hand_over = 0;      // added to each pass of a stage
  int head_passes = 0;        // 1: all forward passes come before all backward passes, unless the pipeline is 1F1B
  std::vector<Seconds> head;  // least time of a head pass on a device of the stage
  std::vector<Seconds> head_update;      // least time of the updates of heads on that device after the passes
  double seconds_per_gradient_byte = 0;  // in the updates after the last pass
  double seconds_per_state_byte = 0;
  double seconds_per_zeroed_byte = 0;  // in the first backward pass
};

class StepBound {
 public:
  // Takes O(n²) time for n layers; chains of more than 8,192 layers have weaker bounds.
  explicit StepBound(const BoundChain& chain);

  // Returns a time below which no step of this setting is, by the durations of its instructions: passes of stages and
  // of heads, and updates, without transfers and sums over replicas. It is within a millionth of the smallest bound of
  // any cuts. Infinite if the chain has fewer legal cuts than the setting needs. If the bound is more than `enough`,
  // `enough` is returned, which is faster. O(stages · log² n).
  Seconds least(const BoundSetting& setting, Seconds enough = std::numeric_limits<Seconds>::infinity()) const;

  // Returns the least seconds of all passes over one micro-batch.
  Seconds all_passes(const BoundSetting& setting) const;
  // Returns a time that is never more than the bound, and quickly found: the passes of a stage if all are equally long.
  Seconds even_share(const BoundSetting& setting) const;

 private:
  struct StageTimes {
    Seconds forward = 0;
    Seconds backward = 0;
    Seconds input = 0;   // the part of `backward` for which earlier stages wait
    Seconds before = 0;  // least time before the first pass of the stage
    Seconds rest = 0;    // least time of all its backward passes, with the passes and updates after them
    // Least times of a micro-batch on later stages, in both directions; negative: unknown.
    Seconds there = -1;
    Seconds back = -1;
  };
  StageTimes times(const BoundSetting& setting, int stage, int begin, int end) const;
  // The paths of the passes for which earlier stages wait: backward passes or, if these are split, input gradients.
  const PassPaths& returning(const BoundSetting& setting) const;
  // The time of a device's share of all work if devices have several stages.
  Seconds shared_work(const BoundSetting& setting) const;
  Seconds load(const BoundSetting& setting, int stage, int begin, int end) const;
  Seconds forward_phase(const BoundSetting& setting, int stage, int begin, int end) const;
  Seconds backward_phase(const BoundSetting& setting, int stage, int begin, int end) const;

  // Returns whether there are cuts for which `load` is at most `limit` for every stage.
  template <typename Load>
  bool possible(const BoundSetting& setting, Seconds limit, const Load& load) const;
  template <typename Load>
  Seconds least_largest(const BoundSetting& setting, const Load& load, Seconds enough) const;

  int layers_;
  CutPositions cuts_;
  PassPaths forward_;
  PassPaths backward_;
  PassPaths input_;                   // without gradients of weights
  std::vector<int> passes_back_{0};   // layers with a backward pass before a position
  std::vector<double> gradients_{0};  // bytes of the layers before a position
  std::vector<double> states_{0};
};

}  // namespace xrun::planner
