// Makes a plan, with everything else that a session needs, from FILE or PLAN on the command line.
#pragma once

#include <functional>
#include <string>

#include "planner/program/plan.h"
#include "runtime/cli/model/load.h"

namespace xrun::cli {

struct PlannedModel {
  LoadedModel model;
  PreparedModel prepared;
  planner::Plan plan;
  int rank = 0;  // rank of this process, if several processes run the plan

  // The number of workers of this process for data: those of its devices, or with GPUs one per core.
  int workers() const;
};

// Returns the plan of a model (FILE) or of a plan file (PLAN). A model is loaded, prepared and planned. For a plan
// file, the module is made again from the sources, and the plan is rejected if anything has changed (XG06xx). Warnings
// are printed.
Outcome<PlannedModel> plan_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                bool needs_training);

// Returns the function that says whether --search-time has not passed since this call; null without a limit.
std::function<bool()> in_time_of(const GlobalOptions& options);

// Rejects flags that have no effect on the plan file `path`. Errors: kUsage XG0620.
Status check_plan_flags(const std::string& path, const GlobalOptions& options);

// Does the work of plan_from on ranks other than 0: loads rank 0's plan from the bytes of a plan file
// (planner/plan_file.h), and makes its module again from the sources that this rank sees.
Outcome<PlannedModel> plan_received(const std::string& bytes, const GlobalOptions& options, const Console& console);

// Loads and prepares FILE without planning.
Outcome<PlannedModel> model_from(const std::string& path, const GlobalOptions& options, const Console& console);

// Does the work of plan_from for files in memory; `texts` holds their contents by path.
Outcome<PlannedModel> plan_texts(const std::string& path, const lang::Texts& texts, const GlobalOptions& options,
                                 const Console& console);

// Adds two things to the plan for commands that print them (planner/planner.h): a row block that would use idle
// devices, and the costs of other choices for a large head. Adds nothing if --search-time has ended the search.
Status explain_choices(PlannedModel& planned);

}  // namespace xrun::cli
