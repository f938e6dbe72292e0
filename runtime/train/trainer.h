// The loop of training: batches, rate, steps, evaluation, checkpoints, events, and how a run ends.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "graph/module.h"
#include "graph/run_spec.h"
#include "planner/program.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/train/batch_source.h"
#include "runtime/train/checkpoint_store.h"
#include "runtime/train/events.h"
#include "runtime/train/session.h"

namespace xrun::runtime {

struct StepPrediction {
  Seconds step = 0;                  // 0: not known
  std::vector<Timing> instructions;  // of the program; empty: not known
};

// The program of steps that are smaller than those of TrainRequest::training, where the batch grows.
struct SmallerStep {
  int64_t units = 1;  // of samples (graph/step_sizes.h)
  const planner::Program* program = nullptr;
  StepPrediction predicted;
};

struct TrainRequest {
  const Module& module;  // prepared for training
  const planner::Program& training;
  RunSpec run = {};
  // Evaluation on the way; null: none. The inference program belongs to a module of its own, prepared for inference:
  // values have other ids there, parameters the same names.
  const Module* inference_module = nullptr;
  const planner::Program* inference = nullptr;
  const DeviceSet& devices;
  BatchSource& batches;
  std::vector<RowSource*> eval_sources;
  CheckpointStore* checkpoints = nullptr;  // null: none are kept; REQUIRED where the module begins from one
  EventSink& events;

  SessionOptions session;
  std::string plan_id;
  StepPrediction predicted;
  std::vector<SmallerStep> smaller;  // by units, from one on, without a gap
  Bytes memory_planned = 0;          // StartEvent has both
  Bytes memory_usable = 0;
  std::string hosts;                        // of several ranks, as StartEvent has it
  bool resume = true;                       // from `checkpoints`, if there is something
  std::string leave_out;                    // EndEvent has it
  int64_t profile = -1;                     // a ProfileEvent after as many steps of warm-up; -1: none
  int64_t steps = -1;                       // stop once the run has done that many; -1: the whole run
  const std::atomic<bool>* stop = nullptr;  // finish the step, save, end with 75
};

struct TrainOutcome {
  int64_t step = 0;     // steps done
  double loss = 0;      // of the last step; NaN where none was done
  std::string weights;  // digest
  bool interrupted = false;
};

// Runs until the end of the run, `steps`, or `stop`. Saves at the end. The `end` event comes with failures, too.
// Errors: kNonFinite (XG0810), those of the batch source, of the session, and of checkpoints.
Result<TrainOutcome> train(const TrainRequest& request);

}  // namespace xrun::runtime
