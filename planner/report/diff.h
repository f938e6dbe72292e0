// Reports the differences between two plans (`xrun plan --diff`) and the reasons for one decision (`--why`).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/program/plan.h"

namespace xrun::planner {

// One fact of a plan. Facts are found without the graph, since the sources of an old plan may not exist any more. The
// free memory of the machine is not among them, since it changes from minute to minute.
struct PlanRow {
  std::string name;                                          // "micro_batches", "cpu 0 memory"
  std::string value;                                         // empty: the plan has no such row
  std::vector<std::pair<std::string, double>> numbers = {};  // the numbers in `value`: {"bytes", 1024}
};
std::vector<PlanRow> plan_rows(const Plan& plan);

// A row that differs between two plans.
struct PlanChange {
  PlanRow before;
  PlanRow after;
};
std::vector<PlanChange> diff_plans(const Plan& before, const Plan& after);

// Return the changes as text, and as a JSON document {v, model, before, after, changed: [{row, before, after}]}. In a
// changed row, `before` and `after` are objects with the text and the numbers of the row, or null if the plan has no
// such row.
std::string report_diff(const Plan& before, const Plan& after);
std::string diff_json(const Plan& before, const Plan& after);

// Returns the names of the decisions for which a plan has reasons: "stages", "shards id", ...
std::vector<std::string> why_keys(const Plan& plan);

// Return the reasons for one decision, and the compared plans in which this decision is different. The key "shards"
// stands for the shards of all heads. The result is empty if there is no such decision.
std::string report_why(const Plan& plan, std::string_view key);
std::string why_json(const Plan& plan, std::string_view key);

}  // namespace xrun::planner
