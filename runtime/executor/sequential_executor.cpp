// The sequential executor. When it is created, it computes an order of all instructions that respects every dependency,
// stream and group; each step follows this order. It shares no code with the parallel executor, so that it can serve as
// reference for that one.
// Tests: tests/runtime/executor/executor_test.cpp
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/comm/block_copies.h"
#include "runtime/executor/arena_check.h"
#include "runtime/executor/exchanges.h"
#include "runtime/executor/executor.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::InstructionId;
using Clock = std::chrono::steady_clock;

// An instruction, or all members of a group of exchanges.
struct Item {
  std::vector<InstructionId> members;
  std::vector<BlockCopy> copies;  // the block copies of a group
};

Result<std::vector<Item>> find_order(const planner::Program& program) {
  const auto groups = groups_of(program);
  const size_t count = program.instructions.size();
  std::vector<bool> done(count, false);
  std::vector<int32_t> before(count, -1);  // the previous instruction in the stream
  std::vector<int32_t> last(static_cast<size_t>(program.devices) * 2, -1);
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    int32_t& previous = last[static_cast<size_t>(instruction.device) * 2 + static_cast<size_t>(instruction.stream)];
    before[i] = previous;
    previous = static_cast<int32_t>(i);
  }
  const auto ready = [&](InstructionId id) {
    const auto at = static_cast<size_t>(id.index);
    if (before[at] >= 0 && !done[static_cast<size_t>(before[at])]) {
      return false;
    }
    const auto ended = [&](InstructionId dep) { return bool{done[static_cast<size_t>(dep.index)]}; };
    return std::ranges::all_of(program.instructions[at].deps, ended) &&
           std::ranges::all_of(program.instructions[at].releases, ended);
  };

  std::vector<Item> order;
  size_t left = count;
  while (left > 0) {
    const size_t left_before = left;
    for (size_t i = 0; i < count; ++i) {
      const Instruction& instruction = program.instructions[i];
      if (done[i]) {
        continue;
      }
      std::vector<InstructionId> members{instruction.id};
      if (communicates(instruction.kind)) {
        members = groups[static_cast<size_t>(instruction.group)];
      }
      bool all_ready = true;
      for (const InstructionId member : members) {
        all_ready = all_ready && ready(member);
      }
      if (!all_ready) {
        continue;
      }
      for (const InstructionId member : members) {
        done[static_cast<size_t>(member.index)] = true;
      }
      left -= members.size();
      order.push_back({std::move(members), {}});
    }
    if (left == left_before) {
      return Error{ErrorKind::kContent, "XG0622", "the instructions of the plan wait for each other",
                   "make the plan again with `xrun plan`"};
    }
  }
  return order;
}

// Waits for copies.
class Copies {
 public:
  // Copies blocks, and returns when the last copy has ended, with the first error.
  Status run(std::span<const BlockCopy> copies) {
    left_ = std::ssize(copies);
    for (const BlockCopy& copy : copies) {
      copy.to.memory->copy_from(*copy.from.memory, copy.from.offset, copy.to.offset, copy.to.bytes,
                                {&Copies::ended, this});
    }
    std::unique_lock lock(mutex_);
    all_ended_.wait(lock, [this] { return left_ == 0; });
    return std::exchange(error_, Status());
  }

 private:
  static void ended(void* context, Status status) {
    auto& self = *static_cast<Copies*>(context);
    const std::lock_guard lock(self.mutex_);
    if (self.error_.ok()) {
      self.error_ = std::move(status);
    }
    if (--self.left_ == 0) {
      self.all_ended_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable all_ended_;
  int64_t left_ = 0;  // guarded by mutex_ while copies run
  Status error_;      // likewise
};

class SequentialExecutor final : public Executor {
 public:
  SequentialExecutor(const planner::Program& program, Backend& backend, std::vector<Item> order, ArenaCheck* check)
      : program_(program),
        backend_(backend),
        order_(std::move(order)),
        check_(check),
        timings_(program.instructions.size()) {}

  Status step() override {
    if (check_ != nullptr) {
      check_->begin_step();
    }
    const auto start = Clock::now();
    const auto now = [&] { return measured_ ? std::chrono::duration<double>(Clock::now() - start).count() : 0.0; };
    for (const Item& item : order_) {
      const double begin = now();
      for (size_t m = 0; check_ != nullptr && m < item.members.size(); ++m) {
        XRUN_TRY(check_->begin(program_.instruction(item.members[m])));
      }
      const Instruction& first = program_.instruction(item.members[0]);
      if (!communicates(first.kind)) {
        XRUN_TRY(backend_.run(first));
      }
      XRUN_TRY(copies_.run(item.copies));
      for (size_t m = 0; check_ != nullptr && m < item.members.size(); ++m) {
        XRUN_TRY(check_->end(program_.instruction(item.members[m]), AccessEnd::kBoth));
      }
      if (measured_) {
        const double end = now();
        for (const InstructionId member : item.members) {
          timings_[static_cast<size_t>(member.index)] = {.begin = begin, .end = end, .moving = begin, .moved = end};
        }
      }
    }
    return check_ == nullptr ? Status() : check_->end_step();
  }

  void resize(std::span<const Exchange> exchanges) override {
    std::map<int, std::vector<Exchange>> groups;
    for (const Exchange& exchange : exchanges) {
      groups[exchange.group].push_back(exchange);
    }
    for (Item& item : order_) {
      const std::vector<Exchange>& group = groups[program_.instruction(item.members[0]).group];
      item.copies.clear();
      for (const Exchange& member : group) {
        const std::vector<BlockCopy> copies = copies_to(group, member);
        item.copies.insert(item.copies.end(), copies.begin(), copies.end());
      }
    }
  }

  void measure(bool wanted) override { measured_ = wanted; }
  std::span<const Timing> timings() const override { return timings_; }

 private:
  const planner::Program& program_;
  Backend& backend_;
  std::vector<Item> order_;
  ArenaCheck* check_;
  Copies copies_;
  bool measured_ = true;
  std::vector<Timing> timings_;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_sequential_executor(const planner::Program& program, Backend& backend,
                                                           std::vector<Exchange> exchanges, ArenaCheck* check) {
  XRUN_ASSIGN(std::vector<Item> order, find_order(program));
  auto executor = std::make_unique<SequentialExecutor>(program, backend, std::move(order), check);
  executor->resize(exchanges);
  return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace xrun::runtime
