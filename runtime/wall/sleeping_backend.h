// A backend whose computations sleep: each device is a thread that sleeps for the time of each instruction. No kernel
// runs, and no memory is mapped.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "graph/base/result.h"
#include "runtime/device/backend.h"
#include "runtime/wall/token_bucket.h"
#include "runtime/wall/wall_model.h"

namespace xrun::runtime {

class SleepingBackend final : public Backend {
 public:
  // Starts a thread for each device. `work`: the computations of the program; index: instruction. `work` and `buckets`
  // outlive the backend. Errors: XG0803 the system starts no more threads.
  static Result<std::unique_ptr<SleepingBackend>> start(int devices, std::span<const WallWork> work,
                                                        TokenBuckets& buckets);
  // REQUIRES: no instruction is queued.
  ~SleepingBackend() override;

  // Sets the factors on the times of the computations of later steps; index: instruction. They outlive those steps.
  // REQUIRES: between steps.
  void set_factors(std::span<const double> factors) { factors_ = factors; }

  void begin_step(const StepContext& /*step*/) override {}
  void start(const planner::Instruction& instruction, InstructionEvents& events) override;
  Status run(const planner::Instruction& instruction) override;
  Status prepare_weights() override { return {}; }
  double grad_norm() const override { return 0; }

 private:
  struct Queued {
    const planner::Instruction* instruction = nullptr;
    InstructionEvents* events = nullptr;
    Seconds at = 0;
  };
  struct Device {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Queued> queue;  // guarded by mutex
    bool stops = false;        // guarded by mutex
    std::thread thread;
  };

  SleepingBackend(std::span<const WallWork> work, TokenBuckets& buckets) : work_(work), buckets_(buckets) {}

  static std::optional<Queued> next(Device& device);
  void run_device(Device& device);
  Seconds sleep_through(const planner::Instruction& instruction, Seconds begin);

  std::span<const WallWork> work_;
  TokenBuckets& buckets_;
  std::span<const double> factors_;  // empty: all factors are 1
  std::deque<Device> devices_;
};

}  // namespace xrun::runtime
