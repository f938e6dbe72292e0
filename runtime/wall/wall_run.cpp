#include "runtime/wall/wall_run.h"

#include <algorithm>
#include <utility>

namespace xrun::runtime {

WallRun::WallRun(const planner::Program& program, WallModel model) : program_(program), model_(std::move(model)) {
  for (const double rate : model_.rates) {
    buckets_.emplace_back(rate);
  }
}

Result<std::unique_ptr<WallRun>> WallRun::start(const planner::Program& program, WallModel model) {
  std::unique_ptr<WallRun> run(new WallRun(program, std::move(model)));
  XRUN_ASSIGN(run->backend_, SleepingBackend::start(program.devices, run->model_.work, run->buckets_));
  XRUN_ASSIGN(run->communicator_, BucketCommunicator::start(run->model_, run->buckets_));
  run->executor_ = make_parallel_executor(program, *run->backend_, *run->communicator_);
  return run;
}

Result<WallStep> WallRun::step(std::span<const double> factors) {
  backend_->set_factors(factors);
  XRUN_TRY(executor_->step());
  WallStep step{.time = 0, .busy = std::vector<Seconds>(static_cast<size_t>(program_.devices), 0)};
  for (const planner::Instruction& one : program_.instructions) {
    const Timing& timing = timings()[static_cast<size_t>(one.id.index)];
    step.time = std::max(step.time, timing.end);
    if (!communicates(one.kind)) {
      step.busy[static_cast<size_t>(one.device)] += timing.end - timing.begin;
    }
  }
  return step;
}

}  // namespace xrun::runtime
