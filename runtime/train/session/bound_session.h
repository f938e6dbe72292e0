// A session with its arenas, backend and executor. session.cpp creates it and runs steps; session_results.cpp reads the
// results of a step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/base/check.h"
#include "ops/head/catch_up.h"
#include "runtime/device/backend.h"
#include "runtime/executor/arena_check.h"
#include "runtime/executor/step_times.h"
#include "runtime/train/session/session.h"
#include "runtime/train/session/shared_results.h"

namespace xrun::runtime {

class BoundSession final : public Session {
 public:
  BoundSession(const Module& module, const planner::Program& program, const DeviceSet& devices, BoundMemory memory);

  // Takes over the state of `before`. REQUIRES: `memory_` is shared with `before`.
  Status take_over(Session& before);
  // Creates the parts that need a backend: the communicator and the executor.
  Status bind(const DeviceSet& devices, const SessionOptions& options);

  TrainState& state() override { return state_; }
  const BoundMemory& bound() const override { return memory_; }

  Status weights_changed() override { return backend_->prepare_weights(); }
  std::span<const BatchView> ring() const override { return ring_; }
  void follow(std::function<double(int64_t step)> rate, int64_t done) override;
  void compress_by(std::function<double(int64_t step)> density) override { density_of_ = std::move(density); }
  Status step(int64_t step, double rate, int slot, const std::atomic<bool>* stop) override;
  Status agree(Status mine) override { return peers_ == nullptr ? std::move(mine) : peers_->agree(std::move(mine)); }

  void share(std::span<const ValueId> values) override {
    if (shared_ != nullptr) {
      shared_->share(values);
    }
  }

  Result<std::string> weights_digest() const override {
    return peers_ == nullptr ? Result<std::string>(state_.weights_digest())
                             : gather_digest(*peers_, state_.range_digests());
  }

  void guard(ChangeGuard* guard) override { guard_ = guard; }
  bool stops() const override { return stops_; }

  int rank() const override { return rank_; }
  Peers* peers() override { return peers_; }
  Communicator* communicator() override { return communicator_.get(); }

  std::byte* host_memory(planner::BufferId buffer) override { return memory_.host_at(program_.buffer(buffer)); }
  bool has_rows(ValueId value) const override;
  Status read_rows(ValueId value, std::span<std::byte> out) const override;
  Status read_best(ValueId logits, std::span<int32_t> classes, std::span<float> scores) const override;
  Status read_softmax(int head, std::span<ops::RowSoftmax> rows) const override;

  double grad_norm() const override { return backend_->grad_norm(); }
  void measure(bool on) override {
    measured_ = on;
    executor_->measure(on);
  }

  DeviceRange own_devices() const override { return own_devices_; }
  const StepTimes& times() override { return times_.measure(timings()); }
  std::span<const Timing> timings() const override {
    XRUN_CHECK(measured_, "times of a step that was not timed");
    return executor_->timings();
  }

  void measure_mass(bool on) override { measures_mass_ = on; }
  ActiveReport active(int head) const override;

  Bytes memory() const override { return memory_.bytes(); }
  Bytes peak_before() const override { return memory_.peak_before(); }
  const planner::Program& program() const override { return program_; }
  const Module& module() const override { return module_; }

 private:
  // Whether this rank can read the start of a buffer: the buffer is on this rank, or other ranks share it.
  bool has(const planner::Buffer& buffer) const {
    return buffer.device == planner::kHost || memory_.has(buffer.device) ||
           (shared_ != nullptr && shared_->find(buffer.id) != nullptr);
  }

  void read(const planner::Buffer& buffer, std::span<std::byte> out) const;
  void set_density_of(int64_t step);

  const Module& module_;
  const planner::Program& program_;
  BoundMemory memory_;
  TrainState state_;
  std::vector<BatchView> ring_;
  std::vector<std::vector<std::byte*>> inputs_;  // index: slot of the ring, input; the addresses for instructions
  bool measured_ = false;
  bool measures_mass_ = false;
  std::unique_ptr<ops::IdleSteps> idle_;  // null: no class rows catch up
  std::function<double(int64_t)> rate_;
  std::function<double(int64_t)> density_of_;
  double density_ = 0;               // density of the last step; 0 before the first step
  std::vector<Exchange> exchanges_;  // exchanges whose sizes depend on the density
  DeviceRange own_devices_;
  TimeTable times_;
  std::unique_ptr<ArenaCheck> check_;  // null: the memory is not checked
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> communicator_;  // null with the sequential executor
  std::unique_ptr<Executor> executor_;
  int rank_ = 0;
  Peers* peers_ = nullptr;                 // null: one process
  std::unique_ptr<SharedResults> shared_;  // null: one process
  bool stops_ = false;                     // the result of `stops` for the last step
  ChangeGuard* guard_ = nullptr;
};

}  // namespace xrun::runtime
