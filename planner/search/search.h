// Search: finds the best decision for every legal setting. Partition finds cuts for the setting, and a simulation of
// the schedule selects the fastest of them.
#pragma once

#include <functional>
#include <tuple>
#include <vector>

#include "planner/program/decision.h"
#include "planner/program/plan.h"
#include "planner/search/layer_hints.h"
#include "planner/search/mesh.h"
#include "planner/search/options.h"
#include "planner/search/space.h"

namespace xrun::planner {

// The input of a search. All of it must outlive the calls.
struct SearchInput {
  const Module& module;  // prepared with its backward part
  const Chain& chain;
  const CostModel& cost;
  const Machine& machine;
  LayerHints hints;
  bool deterministic = false;
  Progress progress = nullptr;
  std::function<bool()> in_time = nullptr;  // if given and false, the search ends with what it has found

  bool is_over() const { return in_time && !in_time(); }
  void begin(const std::string& what) const {
    if (progress) {
      progress(what);
    }
  }
};

// A setting with its best decision, before programs are made. Its times and memory are estimates.
struct Candidate {
  Setting setting;
  Recompute recompute = Recompute::kNone;
  Decision decision;
  Prediction predicted;
  Seconds early = 0;         // the most that gradients sent during the last backward pass save; not in `predicted`
  Bytes largest_stage = 0;   // memory of the largest stage, as estimated by the partition
  Bytes all_stages = 0;      // memory of all stages of all replicas together
  std::vector<Bytes> nodes;  // memory of the stages on each node, in a cluster
  bool rough = false;        // cuts and times are quick estimates, and `decision` has neither stages nor a schedule
  bool proven = false;       // no cuts with chosen layers to run again have a smaller objective within the limits
  Bytes largest_node() const;
  Seconds least_step() const { return predicted.step - early; }
};

// Returns a key that orders plans by their setting and step: first the time rounded to thousandths, since smaller
// differences are below the accuracy of a prediction; then whether the pipeline is another one than GPipe and 1F1B, and
// the numbers of stages, micro-batches and replicas.
using PlanOrder = std::tuple<int64_t, bool, int, int, int>;
PlanOrder order_of(const Setting& setting, Seconds step);

// The memory that the stages of a pipeline may hold; 0: no limit. The limits of several stages together are only for
// Recompute::kAuto.
struct StageLimits {
  Bytes stage = 0;           // limit of each stage
  Bytes total = 0;           // limit of all stages of one replica
  std::vector<Bytes> nodes;  // limits of the stages of all replicas on each node; empty: no limits
};

// Returns the best decision for a setting as a list of one candidate. The list is empty if no cuts satisfy the limits
// and the pins. Errors: those of plan_heads.
Result<std::vector<Candidate>> decide(const SearchInput& input, const Setting& setting, Recompute recompute,
                                      const StageLimits& limits = {});

// Returns one candidate for each setting that has a decision, fastest first. If there are very many layers and
// settings, the slow candidates are rough; so are those with other pipelines than GPipe and 1F1B that are estimated to
// be slower than the best one with these. Equally fast candidates are ordered by order_of. If the search is over early,
// the settings that were not reached have no candidate or a rough one; the first ones that have a decision are always
// reached.
Result<std::vector<Candidate>> search(const SearchInput& input, const std::vector<Setting>& settings);

// Returns the decision for inference, whose graph has no loss and no backward part, with the cuts, devices and shards
// of `decision`. `training` is the graph of `decision`. Errors: those of plan_heads.
Result<Decision> decide_inference(const Module& inference, const Chain& chain, const CostModel& cost,
                                  const Graph& training, const Decision& decision);

// The row blocks of a micro-batch, the times of the passes over it in units of the times of a row block on one worker,
// and the number of gradient partials of a replica (exchange_times.cpp).
struct PassFactors {
  int64_t blocks = 1;
  double forward = 1;
  double backward = 1;
  int partials = 1;
};
PassFactors pass_factors(const SearchInput& input, const Setting& setting);

// Returns the number of rows of a head pass.
int64_t rows_of_head_pass(const SearchInput& input, const Setting& setting);
// Returns the plans of the heads of a setting. Errors: those of plan_heads.
Result<std::vector<HeadPlan>> heads_of(const SearchInput& input, const Setting& setting);

Mesh mesh_of(const SearchInput& input, const Setting& setting);
// Returns the request for the schedule of a setting: its micro-batches, ranks and warm-up, without times and heads.
ScheduleRequest schedule_request(const Setting& setting);
// Returns the devices of a stage; index: replica.
std::vector<int> devices_of(const SearchInput& input, const Setting& setting, int stage);

}  // namespace xrun::planner
