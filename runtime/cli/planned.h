// From FILE or PLAN on the command line to a plan with everything that a session needs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/cli/load.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/train/events.h"
#include "runtime/train/session.h"

namespace xrun::cli {

struct PlannedModel {
  LoadedModel model;
  PreparedModel prepared;
  planner::Plan plan;
  int rank = 0;  // of this process, where several run the plan

  // Of the devices of this process.
  int workers() const;
};

// FILE: loads, prepares and plans. PLAN: loads the plan, makes its module again from its sources and refuses it when
// anything has changed (XG06xx). Nothing after an error, which has been printed.
std::optional<PlannedModel> plan_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                      bool needs_training, int& exit);

// The plan that rank 0 of a run has made, as a plan file has it (planner/plan_file.h), with its module made again from
// the sources that this rank sees: plan_from for all other ranks.
std::optional<PlannedModel> plan_received(const std::string& bytes, const GlobalOptions& options,
                                          const Console& console, int& exit);

// FILE without a plan: what a planner is given of it.
std::optional<PlannedModel> model_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                       int& exit);

// The same as plan_from for files that lie in memory, by path.
std::optional<PlannedModel> plan_texts(const std::string& path, const lang::Texts& texts, const GlobalOptions& options,
                                       const Console& console, int& exit);

// Adds to the plan which row block would use devices that now are idle, and what other choices for a large head cost
// (planner/planner.h). For commands that print them.
Status explain_choices(PlannedModel& planned);

// A plan or a checkpoint may be used in another directory than the one that it was made in, so that it keeps absolute
// paths of its sources.
std::string source_path(const std::string& path);

// The flags that a plan or a checkpoint was made with, below those that are given now, and the model's file. Costs have
// done their work: who runs a plan measures no kernels.
GlobalOptions with_plan_options(GlobalOptions options, const std::vector<std::pair<std::string, std::string>>& pairs,
                                std::string& file);

// The first flag that decides what is computed or how, and so has no effect on what was decided; empty without one.
std::string deciding_flag(const GlobalOptions& options);

bool is_plan_file(const std::string& path);

// When each instruction of a step of training is predicted to run, as an executor would time it.
std::vector<runtime::Timing> predicted_timings(const planner::Plan& plan);

// Those of `rank`. `neighbours`: the ranks of this host in order, which share its processors; empty: there is one rank.
Result<std::unique_ptr<runtime::DeviceSet>> start_devices(const planner::Program& program, int rank = 0,
                                                          const std::vector<int>& neighbours = {});

// A session of the plan's inference program with the weights of a checkpoint.
Result<std::unique_ptr<runtime::Session>> open_session(const PlannedModel& planned, runtime::DeviceSet& devices,
                                                       const runtime::CheckpointInfo& info, runtime::EventSink& events);

}  // namespace xrun::cli
