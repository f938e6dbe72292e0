// Sweeps as text for people and as CSV.
#pragma once

#include <string>

#include "planner/report/sweep/sweep.h"

namespace xrun::planner {

// Returns the page of `xrun simulate`, ending in a newline: one plan and where its step goes, or a table of points with
// the settings that win. Lines are at most `columns` wide, except for longer words; 0: no limit.
std::string report_sweep(const Sweep& sweep, int columns = 0);

// Returns the points as CSV (RFC 4180, with line feeds), with a header row: whether a row is the fastest, the
// keys, the figures in bytes, seconds and samples a second, then code and reason of a point without a plan.
std::string sweep_csv(const Sweep& sweep);

// Returns the settings of a plan in the words of a table: "2 stages, 4 replicas, 8 micro-batches, gpipe, 8 shards".
std::string settings_text(const SimulatedPlan& plan);

// Returns the sentence about the result of `--fit`: "batch: the largest value with a plan is 8 192".
std::string fit_text(const Sweep& sweep);

}  // namespace xrun::planner
