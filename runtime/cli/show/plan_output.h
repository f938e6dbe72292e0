// The output of `xrun show` for a plan, in the asked form.
#pragma once

#include <optional>
#include <string>

#include "graph/module.h"
#include "planner/program/plan.h"
#include "planner/report/page/measured_times.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/options.h"

namespace xrun::cli {

// Whether `--format` asks for a file about a plan: html, csv or perfetto.
bool is_plan_format(const std::string& format);

// Reads the file of --measured; nullopt if the flag is not given. Errors: kContent or kWorld for a file that cannot be
// read; XG0638.
Result<std::optional<planner::MeasuredTimes>> measured_of(const planner::Plan& plan, const ShowArgs& args);

// Prints the plan, or the part of it that the flags ask for. `module` is the prepared training module, or the part of
// it that the plan keeps.
Status print_plan(const planner::Plan& plan, const Module& module, const GlobalOptions& options, const ShowArgs& args,
                  const Console& console);

}  // namespace xrun::cli
