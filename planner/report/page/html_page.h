// The page of a plan for browsers: one file with its style, its scripts and its data, which makes no request
// (docs/guide/reading_a_plan.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "planner/program/plan.h"
#include "planner/report/page/measured_times.h"

namespace xrun::planner {

// A text that is part of the page: "frame", "markup", "style", or the name of a script.
struct PageText {
  std::string_view name;
  std::string_view text;
};
// The texts in the order of planner/CMakeLists.txt, in which scripts are executed.
std::vector<PageText> page_texts();

// The parts of a page, joined.
struct PageParts {
  std::string_view frame;   // the document without title, style, body, data and scripts
  std::string_view markup;  // the body
  std::string style;
  std::string scripts;
};
// The parts of the page of a plan. Other pages have the same frame and style.
PageParts page_parts();
// Returns a page with its data, which its scripts read.
std::string join_page(const PageParts& parts, const std::string& title, const nlohmann::ordered_json& data);

// Returns the page of a plan. `measured`: the times of a run, which are laid over the plan; null: there are none.
std::string html_page(const Plan& plan, const Module& module, const MeasuredTimes* measured = nullptr);

}  // namespace xrun::planner
