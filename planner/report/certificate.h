// The certificate of a plan in reports: the bound of its step, the kinds of plans that the bound is about, and what
// limits the step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "planner/program/plan.h"

namespace xrun::planner {

// Returns by how much the step of a plan is longer than its bound, as a fraction of the bound; 0 without a certificate.
double gap_of(const Plan& plan);

// Returns what makes the step of a plan as long as it is: "stage 1", "head", "cores" or "memory"; empty without a
// certificate.
std::string limit_text(const Plan& plan);

// Return the lines "bound" and, if the search was ended early, "search"; empty for a plan of an earlier version.
std::string bound_line(const Plan& plan);
std::string search_line(const Plan& plan);

// Returns the choices and their reasons, to be printed before those of Plan::why: "step = 63.4 ms" and "limit = stage
// 1". Empty for a plan of an earlier version.
std::vector<std::pair<std::string, std::string>> certificate_rows(const Plan& plan);

// Returns the object `certificate` of JSON documents; null for a plan of an earlier version.
nlohmann::ordered_json certificate_json(const Plan& plan);

}  // namespace xrun::planner
