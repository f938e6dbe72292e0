// Starts what a plan needs to run: its devices, a session with the weights of a checkpoint, and the predicted times
// with which the run is compared.
#pragma once

#include <memory>
#include <vector>

#include "planner/program/plan.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/cli/model/planned.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/train/events/events.h"
#include "runtime/train/session/session.h"
#include "runtime/train/trainer.h"

namespace xrun::cli {

// The predicted times of a training step and of its instructions, in the form in which an executor measures them.
runtime::StepPrediction predicted_step(const planner::Plan& plan);
// Predictions for the smaller steps of a growing batch: the steps before it reaches its final size.
std::vector<runtime::SmallerStep> smaller_steps(const planner::Plan& plan);

// Starts the devices of `rank` for a program of the plan. `neighbours`: the ranks that share this host's processors, in
// order; empty: the rank has them to itself. Errors: also those of start_gpus.
Result<std::unique_ptr<runtime::DeviceSet>> start_devices(const PlannedModel& planned, const planner::Program& program,
                                                          int rank = 0, const std::vector<int>& neighbours = {});

// Opens a session of the plan's inference program with the weights of a checkpoint.
Result<std::unique_ptr<runtime::Session>> open_session(const PlannedModel& planned, runtime::DeviceSet& devices,
                                                       const runtime::CheckpointInfo& info, runtime::EventSink& events);

}  // namespace xrun::cli
