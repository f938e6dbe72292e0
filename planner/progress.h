// Progress reports of a search for a plan.
#pragma once

#include <functional>
#include <string>

namespace xrun::planner {

// Called by the searching thread whenever it begins a part of its work: "program 2 of at most 6 (stages = 1)".
using Progress = std::function<void(std::string what)>;

}  // namespace xrun::planner
