// A sweep: plans of one model for several values of some keys, as `xrun simulate` makes and prints them
// (docs/reference/command/simulate.md).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/module.h"
#include "planner/program/plan.h"
#include "planner/report/sweep/step_parts.h"

namespace xrun::planner {

// The memory that binds a plan: the limit of which the largest fraction is used.
struct UsedMemory {
  std::string what;  // "each h100", "the machine"
  Bytes used = 0;
  Bytes limit = 0;
  double share() const { return limit > 0 ? static_cast<double>(used) / static_cast<double>(limit) : 0; }
};

// The figures of a plan that the reports of a sweep print.
struct SimulatedPlan {
  std::string id;
  std::string machine;  // Machine::name
  int devices = 0;
  Bytes memory = 0;  // memory of the largest device
  UsedMemory tightest;
  Seconds step = 0;
  double samples_per_second = 0;
  double idle = 0;  // fraction of a step in which devices compute nothing
  // The decisions of the search in a fixed order, as names and values: "stages", "replicas", "micro_batches",
  // "pipeline", "shards", "recompute".
  std::vector<std::pair<std::string, std::string>> settings;
  std::string limit;  // what makes the step as long as it is: "stage 1", "head", "cores", "loader", "memory"
  StepParts parts;
  int64_t samples = 0;               // samples of an epoch; 0: not known
  std::optional<Seconds> epoch;      // nullopt: the number of samples is not known
  std::vector<std::string> not_run;  // what no executor does yet, one text each; planned by cost forms
};

// One combination of values, with its plan or the reason why it has none.
struct SweepPoint {
  std::vector<std::string> values;  // one for each key
  std::optional<SimulatedPlan> plan;
  std::string code = {};  // without a plan: the code and the message of the error
  std::string reason = {};
};

// The result of `--fit KEY`.
struct KeyFit {
  size_t largest = 0;                // index of the point with the largest value that has a plan
  std::optional<size_t> next;        // index of a point with a larger value without a plan; nullopt: there is none
  bool complete = true;              // false: the time ran out, and larger values may have plans
  std::vector<size_t> out_of_order;  // points that show that larger values may have plans although smaller ones do not
};

struct Sweep {
  std::string model;
  std::string costs;              // the source of the times
  std::vector<std::string> keys;  // paths: "cluster.nodes", "devices"; empty: one plan
  std::vector<SweepPoint> points;
  std::optional<KeyFit> fit;

  // Returns the first point with a plan, and the point with most samples a second; nullopt if no point has a plan.
  std::optional<size_t> first() const;
  std::optional<size_t> fastest() const;
  // Returns by which factor the plan of a point is faster than that of `first()`. REQUIRES: the point has a plan.
  double speed_up(const SweepPoint& point) const;
  // Returns what no executor does yet in any of the plans, each text once.
  std::vector<std::string> not_run() const;
};

// A decision of the search, one of its values, and the points at which this value wins.
struct Winner {
  std::string decision;  // "stages"
  std::string value;     // "2"
  std::string where;     // "everywhere", "nodes = 8 and 16", "3 of 12 points: nodes = 8, gpus = 4; ..."
  std::vector<size_t> points;
};

// Returns for each decision the values that win, in the order of the points.
std::vector<Winner> winners(const Sweep& sweep);

// Returns the figures of a plan. `module` is the prepared training module; Plan::samples is set if it is known.
SimulatedPlan simulated_plan(const Plan& plan, const Module& module);

// Returns the last step of a key's path, by which tables name it: "nodes".
std::string short_name(const std::string& key);

}  // namespace xrun::planner
