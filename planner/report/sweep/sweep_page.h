// Sweeps as JSON, and as a page for browsers: one file that makes no request, with charts and the table of points.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/report/page/html_page.h"
#include "planner/report/sweep/sweep.h"

namespace xrun::planner {

// The version in the key `v` of the document. Minor changes only add keys.
inline constexpr int kSweepVersion = 1;

// Returns the document {v, model, modelled, costs, keys, points: [{values, plan or error}], fastest, winners, not_run,
// and for --fit fit}. Bytes and seconds are plain numbers.
nlohmann::ordered_json sweep_document(const Sweep& sweep);
// The document as text, indented, ending in a newline.
std::string sweep_json(const Sweep& sweep);

// The markup and the script of the page, in the order of planner/CMakeLists.txt. Its style and its other scripts are
// those of the page of a plan.
std::vector<PageText> sweep_texts();
std::string sweep_page(const Sweep& sweep);

}  // namespace xrun::planner
