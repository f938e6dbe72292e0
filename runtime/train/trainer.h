// The training loop: runs the steps of a run with their learning rates, evaluates, saves checkpoints and reports
// events.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "graph/module.h"
#include "graph/settings/run_spec.h"
#include "planner/program/program.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/train/events/events.h"
#include "runtime/train/session/batch_source.h"
#include "runtime/train/session/session.h"
#include "runtime/train/state/checkpoint_store.h"

namespace xrun::runtime {

struct StepPrediction {
  Seconds step = 0;                  // predicted duration of a step; 0: unknown
  std::vector<Timing> instructions;  // index: instruction of the program; empty: unknown
};

// If the batch grows: a program for steps that are smaller than those of TrainRequest::training.
struct SmallerStep {
  int64_t units = 1;  // number of units of samples in a step (graph/settings/step_sizes.h)
  const planner::Program* program = nullptr;
  StepPrediction predicted;
};

struct TrainRequest {
  const Module& module;  // the model, prepared for training
  const planner::Program& training;
  RunSpec run = {};
  // For evaluation during the run; null: no evaluation. The inference program belongs to a module of its own, prepared
  // for inference, in which values have other ids but parameters have the same names.
  const Module* inference_module = nullptr;
  const planner::Program* inference = nullptr;
  const DeviceSet& devices;
  BatchSource& batches;
  std::vector<RowSource*> eval_sources;
  CheckpointStore* checkpoints = nullptr;  // null: no checkpoints; REQUIRED if the run starts from a checkpoint
  EventSink& events;

  SessionOptions session;
  std::string plan_id;
  StepPrediction predicted;
  std::vector<SmallerStep> smaller;  // index: units - 1; empty if the batch does not grow
  Bytes memory_planned = 0;          // value for StartEvent, like memory_usable
  Bytes memory_usable = 0;
  std::string hosts;                        // value of StartEvent::hosts if there are several ranks
  bool resume = true;                       // whether to resume from `checkpoints` if it has a checkpoint
  std::string leave_out;                    // value of EndEvent::leave_out
  int64_t profile = -1;                     // number of warm-up steps before a ProfileEvent is reported; -1: no profile
  int64_t steps = -1;                       // stop once the run has done this number of steps; -1: do all steps
  const std::atomic<bool>* stop = nullptr;  // once set: finish the step, save, and end with exit status 75
};

struct TrainOutcome {
  int64_t step = 0;     // number of steps done
  double loss = 0;      // loss of the last step; NaN if no step was done
  std::string weights;  // digest of the weights
  bool interrupted = false;
};

// Trains until the run ends, `steps` steps are done, or `stop` is set; then saves. Reports the EndEvent even after
// failures. Errors: kNonFinite (XG0810), and those of the batch source, of the session and of checkpoints.
Result<TrainOutcome> train(const TrainRequest& request);

}  // namespace xrun::runtime
