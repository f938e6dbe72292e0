// The differences between two plans, and the reasons of one decision: `xrun plan --diff`, `--why`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/plan.h"

namespace xrun::planner {

// One fact of a plan. Rows need no graph, since the graph of an old plan may be gone; the free memory of the machine is
// left out, since it changes from minute to minute.
struct PlanRow {
  std::string name;                                          // "micro_batches", "cpu 0 memory"
  std::string value;                                         // empty: the plan has no such row
  std::vector<std::pair<std::string, double>> numbers = {};  // in the text: {"bytes", 1024}
};
std::vector<PlanRow> plan_rows(const Plan& plan);

// A row that differs between two plans.
struct PlanChange {
  PlanRow before;
  PlanRow after;
};
std::vector<PlanChange> diff_plans(const Plan& before, const Plan& after);

// The changes as text, and as one JSON document {v, model, before, after, changed: [{row, before, after}]}, where each
// side is null or {text, and its numbers}.
std::string report_diff(const Plan& before, const Plan& after);
std::string diff_json(const Plan& before, const Plan& after);

// The decisions for which a plan has reasons: "stages", "shards id", ...
std::vector<std::string> why_keys(const Plan& plan);

// The reasons of one decision, and the compared plans that decide it differently. `shards` stands for the shards of all
// heads. Empty if there is no such decision.
std::string report_why(const Plan& plan, std::string_view key);
std::string why_json(const Plan& plan, std::string_view key);

}  // namespace xrun::planner
