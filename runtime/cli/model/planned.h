// Makes a plan, with everything else that a session needs, from FILE or PLAN on the command line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/program/plan.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/cli/model/load.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/train/events/events.h"
#include "runtime/train/session/session.h"
#include "runtime/train/trainer.h"

namespace xrun::cli {

struct PlannedModel {
  LoadedModel model;
  PreparedModel prepared;
  planner::Plan plan;
  int rank = 0;  // rank of this process, if several run the plan

  // The number of workers of all devices of this process.
  int workers() const;
};

// Returns the plan of a model (FILE) or of a plan file (PLAN). A model is loaded, prepared and planned. For a plan
// file, the module is made again from the sources, and the plan is rejected if anything has changed (XG06xx). After an
// error, which it prints, it returns nullopt and sets `exit` to the exit code.
std::optional<PlannedModel> plan_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                      bool needs_training, int& exit);

// Does the work of plan_from on ranks other than 0: loads rank 0's plan from the bytes of a plan file
// (planner/plan_file.h), and makes its module again from the sources that this rank sees.
std::optional<PlannedModel> plan_received(const std::string& bytes, const GlobalOptions& options,
                                          const Console& console, int& exit);

// Loads and prepares FILE without planning.
std::optional<PlannedModel> model_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                       int& exit);

// Does the work of plan_from for files in memory; `texts` holds their contents by path.
std::optional<PlannedModel> plan_texts(const std::string& path, const lang::Texts& texts, const GlobalOptions& options,
                                       const Console& console, int& exit);

// Adds two things to the plan for commands that print them (planner/planner.h): a row block that would use idle
// devices, and the costs of other choices for a large head.
Status explain_choices(PlannedModel& planned);

// The absolute path of a source. A plan or a checkpoint keeps it, since it may be used in another directory.
std::string source_path(const std::string& path);

// Adds the flags that a plan or a checkpoint was made with. Given flags take precedence, except that stored devices and
// threads replace given ones. --cost is not added, since running a plan measures no kernels. Sets `file` to the model's
// file.
GlobalOptions with_plan_options(GlobalOptions options, const std::vector<std::pair<std::string, std::string>>& pairs,
                                std::string& file);

// The first given flag that decides what is computed or how, so that it has no effect on an existing plan; empty if
// there is no such flag.
std::string deciding_flag(const GlobalOptions& options);

bool is_plan_file(const std::string& path);

// The predicted times of a training step and of its instructions, in the form in which an executor measures them.
runtime::StepPrediction predicted_step(const planner::Plan& plan);
// Predictions for the smaller steps of a batch that grows: those before it has its last size.
std::vector<runtime::SmallerStep> smaller_steps(const planner::Plan& plan);

// Starts the devices of `rank`. `neighbours`: the ranks that share this host's processors, in order; empty: the rank
// has them to itself.
Result<std::unique_ptr<runtime::DeviceSet>> start_devices(const planner::Program& program, int rank = 0,
                                                          const std::vector<int>& neighbours = {});

// Opens a session of the plan's inference program with the weights of a checkpoint.
Result<std::unique_ptr<runtime::Session>> open_session(const PlannedModel& planned, runtime::DeviceSet& devices,
                                                       const runtime::CheckpointInfo& info, runtime::EventSink& events);

}  // namespace xrun::cli
