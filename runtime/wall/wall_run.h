// Runs a program by the clock: the parallel executor on devices that sleep and on links that are token buckets. The
// order of instructions, dependences and exchanges are those of a run; kernels, memory and data are missing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "planner/program/program.h"
#include "runtime/executor/executor.h"
#include "runtime/wall/bucket_communicator.h"
#include "runtime/wall/sleeping_backend.h"
#include "runtime/wall/token_bucket.h"
#include "runtime/wall/wall_model.h"

namespace xrun::runtime {

struct WallStep {
  Seconds time = 0;           // from the start of the step to the end of its last instruction
  std::vector<Seconds> busy;  // time in which a device computes; index: device
};

// Threads: one for each device, and one for the network.
class WallRun {
 public:
  // REQUIRES: the program is verified, and its simulation ends; it outlives the run. Errors: XG0803 the system starts
  // no more threads.
  static Result<std::unique_ptr<WallRun>> start(const planner::Program& program, WallModel model);

  // Runs a step. `factors`: on the times of computations; index: instruction.
  Result<WallStep> step(std::span<const double> factors);
  // The times of the last step; index: instruction.
  std::span<const Timing> timings() const { return executor_->timings(); }

 private:
  WallRun(const planner::Program& program, WallModel model);

  const planner::Program& program_;
  const WallModel model_;
  TokenBuckets buckets_;
  std::unique_ptr<SleepingBackend> backend_;
  std::unique_ptr<BucketCommunicator> communicator_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace xrun::runtime
