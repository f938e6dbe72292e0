// A backend whose devices order instructions themselves, like the streams of a GPU: it queues each instruction, and
// runs it and reports its end later. Another backend computes.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/check.h"
#include "ops/workers.h"
#include "planner/program/program.h"
#include "runtime/device/backend.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/late_work.h"

namespace xrun::runtime::testing {

// Each device has two queues: one of instructions that the executor has started and the host has not queued yet, and
// one of instructions that the device has not run. The ends of a device are reported in the order in which its
// instructions ran. After an error, the device runs no instruction that is in its queues, and all of these end with the
// error. Values that are not finite are noted and reported by end_step; no instruction computes with them.
class LateBackend final : public Backend, private InstructionEvents {
 public:
  // All arguments outlive the backend.
  LateBackend(const planner::Program& program, LateWork& late, Backend& computes)
      : program_(program), late_(late), computes_(computes), entries_(program.instructions.size()) {
    for (const planner::Instruction& one : program.instructions) {
      Entry& entry = entries_[static_cast<size_t>(one.id.index)];
      for (const planner::InstructionId dep : one.deps) {
        if (!communicates(program.instruction(dep).kind) && !communicates(one.kind)) {
          entry.after.push_back(dep.index);
        }
      }
    }
    failed_.resize(static_cast<size_t>(program.devices));
  }
  // Also owns the backend that computes.
  LateBackend(const planner::Program& program, LateWork& late, std::unique_ptr<Backend> computes)
      : LateBackend(program, late, *computes) {
    owned_ = std::move(computes);
  }

  // From now on kCopy instructions run while the memory of this guard, which outlives the backend, is open.
  void open_for_copies(Guard& guard) { copied_ = &guard; }

  // The largest number of instructions that one device had queued and not run.
  int64_t longest_queue() const { return longest_; }

  bool orders() const override { return true; }
  void begin_step(const StepContext& step) override {
    guard_ = step.guard;
    StepContext inner = step;
    rows_.guard = step.guard;
    inner.guard = step.guard == nullptr ? nullptr : &rows_;
    not_finite_.reset();
    computes_.begin_step(inner);
  }
  void start(const planner::Instruction& instruction, InstructionEvents& events) override {
    late_.add({LateWork::Kind::kQueues, instruction.device},
              [this, &instruction, &events] { queue(instruction, events); });
  }
  Status run(const planner::Instruction& instruction) override { return computes_.run(instruction); }
  Status end_step() override {
    if (not_finite_) {
      return *std::exchange(not_finite_, std::nullopt);
    }
    return computes_.end_step();
  }
  Status prepare_weights() override { return computes_.prepare_weights(); }
  double grad_norm() const override { return computes_.grad_norm(); }
  bool skipped() const override { return computes_.skipped(); }

 private:
  struct Entry {
    std::vector<int32_t> after;  // computations of the same device that it depends on
    int64_t queued = 0;          // how often it was queued
  };
  // Passes on only the rows that an instruction changes: `before` was called when the instruction was queued.
  struct RowGuard final : ChangeGuard {
    ChangeGuard* guard = nullptr;
    void before(const planner::Instruction&, ops::Workers&) override {}
    void before_rows(const planner::Instruction& instruction, std::span<const int32_t> rows,
                     ops::Workers& workers) override {
      guard->before_rows(instruction, rows, workers);
    }
  };

  Entry& entry(int32_t id) { return entries_[static_cast<size_t>(id)]; }

  // Queues an instruction on its device. Like all functions below, runs on the thread of `late_`.
  void queue(const planner::Instruction& instruction, InstructionEvents& events) {
    Entry& mine = entry(instruction.id.index);
    const bool runs = events.begins(instruction);
    for (const int32_t dep : mine.after) {
      XRUN_CHECK(entry(dep).queued > mine.queued, "an instruction is started before one that it depends on is queued");
    }
    const bool by_rows =
        is_of_head(instruction.kind) && program_.heads[static_cast<size_t>(instruction.head)].active > 0;
    if (runs && guard_ != nullptr && !by_rows) {
      ops::InlineWorkers workers;
      guard_->before(instruction, workers);
    }
    ++mine.queued;
    int64_t& waiting = waiting_[instruction.device];
    longest_ = std::max(longest_, ++waiting);
    late_.add({LateWork::Kind::kRuns, instruction.device},
              [this, &instruction, &events, runs] { execute(instruction, events, runs); });
    events.queued(instruction);
  }

  void execute(const planner::Instruction& instruction, InstructionEvents& events, bool runs) {
    Failure& failure = failed_[static_cast<size_t>(instruction.device)];
    Entry& mine = entry(instruction.id.index);
    Status status;
    if (runs && failure.step == mine.queued) {
      status = failure.error;
    } else if (runs && !not_finite_) {
      status = compute(instruction);
    }
    if (!status.ok() && status.error().code == "XG0810") {
      not_finite_ = std::exchange(status, Status()).error();
    } else if (!status.ok()) {
      failure = {mine.queued, status.error()};
    }
    --waiting_[instruction.device];
    late_.add({LateWork::Kind::kEnds, instruction.device},
              [&instruction, &events, status = std::move(status)] { events.ended(instruction, status); });
  }

  // Runs an instruction, and waits for its end.
  Status compute(const planner::Instruction& instruction) {
    Guard* const guard = instruction.kind == planner::Kind::kCopy ? copied_ : nullptr;
    if (guard != nullptr) {
      guard->begin();
    }
    std::unique_lock lock(mutex_);
    over_ = false;
    lock.unlock();
    computes_.start(instruction, *this);
    lock.lock();
    ended_.wait(lock, [this] { return over_; });
    if (guard != nullptr) {
      guard->end();
    }
    return std::exchange(status_, Status());
  }
  bool begins(const planner::Instruction&) override { return true; }
  void queued(const planner::Instruction&) override {}
  void ended(const planner::Instruction&, Status status) override {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    over_ = true;
    ended_.notify_one();
  }

  // The error of a device, in the step in which its instructions were queued for the n-th time.
  struct Failure {
    int64_t step = -1;
    Error error;
  };

  const planner::Program& program_;
  LateWork& late_;
  Backend& computes_;
  std::unique_ptr<Backend> owned_;
  std::vector<Entry> entries_;      // index: instruction
  std::vector<Failure> failed_;     // index: device
  std::map<int, int64_t> waiting_;  // key: device; the number of instructions that it has queued and not run
  int64_t longest_ = 0;
  std::optional<Error> not_finite_;
  ChangeGuard* guard_ = nullptr;
  RowGuard rows_;
  Guard* copied_ = nullptr;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;  // guarded by mutex_
  Status status_;      // guarded by mutex_
};

}  // namespace xrun::runtime::testing
