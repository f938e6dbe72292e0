// The parallel executor. The counter of an instruction holds the number of events that it waits for:
//   - its turn: the previous instruction in its stream has begun, or is posted;
//   - dependencies: instructions that have ended, exchanges that have received, exchanges that have released;
//   - in the stream of computations also the end of a preceding exchange, and for an exchange the end of the preceding
//     instruction.
// If the backend orders the instructions of a device (Backend::orders), a computation waits only until the computations
// of its device that it depends on are queued. Exchanges and the end of the step wait for ends in any case.
// The thread that decrements the counter to zero hands the instruction over to the backend or the communicator. A
// device runs instructions in the order in which they were handed over. The next computation is handed over while one
// runs, unless it waits for an exchange, so the device need not wait between them.
#include "runtime/executor/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "graph/base/check.h"
#include "runtime/executor/arena_check.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::InstructionId;
using planner::Stream;
using Clock = std::chrono::steady_clock;

class ParallelExecutor final : public Executor, private InstructionEvents {
 public:
  ParallelExecutor(const planner::Program& program, Backend& backend, Communicator& communicator, ArenaCheck* check,
                   int rank)
      : program_(program),
        backend_(backend),
        communicator_(communicator),
        check_(check),
        orders_(backend.orders()),
        nodes_(program.instructions.size()),
        counters_(program.instructions.size()),
        timings_(program.instructions.size()),
        ran_(program.instructions.size(), -1) {
    backend_.measure(measured_);
    XRUN_CHECK(check == nullptr || !orders_, "the check needs instructions that begin when they run");
    for (const Instruction& instruction : program.instructions) {
      if (program.rank_of(instruction.device) == rank) {
        add_node(instruction);
      }
    }
    for (const int32_t id : order_) {
      if (nodes_[static_cast<size_t>(id)].waits == 0) {
        roots_.push_back(id);
      }
    }
  }

  void resize(std::span<const Exchange> exchanges) override { communicator_.resize(exchanges); }

  Status step() override {
    if (order_.empty()) {
      return {};
    }
    for (const int32_t id : order_) {
      counters_[static_cast<size_t>(id)].store(nodes_[static_cast<size_t>(id)].waits, std::memory_order_relaxed);
    }
    left_.store(ends_, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    finished_ = false;
    if (check_ != nullptr) {
      check_->begin_step();
    }
    start_ = Clock::now();
    for (const int32_t root : roots_) {
      hand_over(root);
    }
    {
      std::unique_lock lock(mutex_);
      all_done_.wait(lock, [this] { return finished_; });
    }
    if (check_ != nullptr && first_error_.ok()) {
      return check_->end_step();
    }
    return std::exchange(first_error_, Status());
  }

  void measure(bool wanted) override {
    measured_ = wanted;
    backend_.measure(wanted);
  }
  std::span<const Timing> timings() const override { return timings_; }

 private:
  struct Node {
    int32_t waits = 0;
    int32_t next = -1;      // next instruction in its stream
    int32_t exchange = -1;  // index in the communicator; -1: it computes
    bool sends = false;
    bool receives = false;
    std::vector<int32_t> after_queued;   // computations of the device that wait until it is queued
    std::vector<int32_t> after_end;      // instructions that wait for its end; for an exchange, until it has received
    std::vector<int32_t> after_release;  // instructions that wait until its sent blocks are released
  };

  Node& node(int32_t id) { return nodes_[static_cast<size_t>(id)]; }

  void add_node(const Instruction& instruction) {
    const int32_t id = instruction.id.index;
    Node& mine = node(id);
    order_.push_back(id);
    ++ends_;
    if (communicates(instruction.kind)) {
      mine.exchange = exchanges_++;
      for (const planner::Operand& operand : instruction.operands) {
        (operand.role == planner::Role::kSent ? mine.sends : mine.receives) = true;
      }
      ++ends_;
    }
    const auto wait_for = [&](std::vector<int32_t>& list) {
      list.push_back(id);
      ++mine.waits;
    };
    for (const InstructionId dep : instruction.deps) {
      Node& earlier = node(dep.index);
      const bool ordered = orders_ && mine.exchange < 0 && earlier.exchange < 0 &&
                           program_.instruction(dep).device == instruction.device;
      wait_for(ordered ? earlier.after_queued : earlier.after_end);
    }
    for (const InstructionId dep : instruction.releases) {
      wait_for(node(dep.index).after_release);
    }
    last_.resize(static_cast<size_t>(program_.devices) * 2, -1);
    int32_t& before = last_[static_cast<size_t>(instruction.device) * 2 + static_cast<size_t>(instruction.stream)];
    if (before >= 0) {
      Node& previous = node(before);
      previous.next = id;
      ++mine.waits;
      if (instruction.stream == Stream::kCompute && previous.exchange >= 0) {
        wait_for(previous.after_end);
        wait_for(previous.after_release);
      } else if (instruction.stream == Stream::kCompute && mine.exchange >= 0) {
        wait_for(previous.after_end);
      }
    }
    before = id;
  }

  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  bool counts_down(int32_t id) {
    return counters_[static_cast<size_t>(id)].fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // Hands over an instruction that waits for nothing, and exchanges after it that only waited for their turn. After the
  // last one the step may end and destroy the executor.
  void hand_over(int32_t id) {
    while (node(id).exchange >= 0) {
      const int32_t next = node(id).next;
      post(id);
      if (next < 0 || !counts_down(next)) {
        return;
      }
      id = next;
    }
    backend_.start(program_.instructions[static_cast<size_t>(id)], *this);
  }

  // Posts an exchange. Exchanges are posted even if the step has failed, so that no other member waits forever.
  void post(int32_t id) {
    Node& mine = node(id);
    if (measured_) {
      timings_[static_cast<size_t>(id)].begin = now();
    }
    if (check_ != nullptr && !failed_.load(std::memory_order_relaxed)) {
      note(check_->begin(program_.instructions[static_cast<size_t>(id)]));
    }
    const bool sends = mine.sends;
    const bool receives = mine.receives;
    if (!receives) {
      received(this, id, {}, 0);
    }
    if (!sends) {
      released(this, id, {}, 0);
    }
    if (sends || receives) {
      communicator_.post(mine.exchange, {&ParallelExecutor::received, this, id},
                         {&ParallelExecutor::released, this, id});
    }
  }

  bool begins(const Instruction& instruction) override {
    const int32_t next = node(instruction.id.index).next;
    if (next >= 0 && counts_down(next)) {
      hand_over(next);
    }
    if (failed_.load(std::memory_order_relaxed)) {
      return false;
    }
    if (measured_) {
      timings_[static_cast<size_t>(instruction.id.index)].begin = now();
    }
    if (check_ != nullptr) {
      note(check_->begin(instruction));
      return !failed_.load(std::memory_order_relaxed);
    }
    return true;
  }

  void queued(const Instruction& instruction) override { release(node(instruction.id.index).after_queued); }

  void ran(const Instruction& instruction, Seconds time) override {
    ran_[static_cast<size_t>(instruction.id.index)] = time;
  }

  void ended(const Instruction& instruction, Status status) override {
    const int32_t id = instruction.id.index;
    note(orders_ && !status.ok() ? of_instruction(instruction, std::move(status).error()) : std::move(status));
    leave(id, AccessEnd::kBoth);
    if (measured_) {
      Timing& timing = timings_[static_cast<size_t>(id)];
      timing.end = now();
      // An instruction of a device that orders begins later than it is queued.
      const Seconds ran = std::exchange(ran_[static_cast<size_t>(id)], -1);
      timing.begin = ran < 0 ? timing.begin : std::max(0.0, timing.end - ran);
    }
    complete(node(id).after_end);
  }

  // Adds the instruction to an error of a device that reports errors late.
  static Error of_instruction(const Instruction& instruction, Error error) {
    std::string place = std::string("`") + name_of(instruction.kind) + "`";
    place += instruction.micro_batch >= 0 ? " of micro-batch " + std::to_string(instruction.micro_batch) : "";
    error.message = place + " on device " + std::to_string(instruction.device) + ": " + error.message;
    return error;
  }

  static void received(void* self, int32_t id, Status status, Seconds moving) {
    auto& executor = *static_cast<ParallelExecutor*>(self);
    executor.note(std::move(status));
    executor.leave(id, AccessEnd::kReceived);
    if (executor.measured_) {
      Timing& timing = executor.timings_[static_cast<size_t>(id)];
      timing.end = timing.moved = executor.now();
      // Devices of one rank may move data at the same time, so the sum can be longer than the exchange.
      timing.moving = std::max(timing.begin, timing.moved - moving);
    }
    executor.complete(executor.node(id).after_end);
  }

  static void released(void* self, int32_t id, Status status, Seconds /*moving*/) {
    auto& executor = *static_cast<ParallelExecutor*>(self);
    executor.note(std::move(status));
    executor.leave(id, AccessEnd::kReleased);
    executor.complete(executor.node(id).after_release);
  }

  void leave(int32_t id, AccessEnd event) {
    if (check_ != nullptr && !failed_.load(std::memory_order_relaxed)) {
      note(check_->end(program_.instructions[static_cast<size_t>(id)], event));
    }
  }

  // After the last dependent was handed over, the step may end and destroy the executor, so the loop does not access it
  // then.
  void release(const std::vector<int32_t>& dependents) {
    const int32_t* dependent = dependents.data();
    for (const int32_t* const end = dependent + dependents.size(); dependent != end;) {
      const int32_t id = *dependent++;
      if (counts_down(id)) {
        hand_over(id);
      }
    }
  }

  void complete(const std::vector<int32_t>& dependents) {
    release(dependents);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const std::lock_guard lock(mutex_);
      finished_ = true;
      all_done_.notify_one();
    }
  }

  void note(Status status) {
    if (status.ok()) {
      return;
    }
    const std::lock_guard lock(mutex_);
    if (first_error_.ok()) {
      first_error_ = std::move(status);
    }
    failed_.store(true, std::memory_order_relaxed);
  }

  const planner::Program& program_;
  Backend& backend_;
  Communicator& communicator_;
  ArenaCheck* check_;
  const bool orders_;
  std::vector<Node> nodes_;
  std::vector<int32_t> order_;  // instructions of this rank, in program order
  std::vector<int32_t> roots_;
  std::vector<int32_t> last_;  // index: stream; the last instruction so far
  int32_t exchanges_ = 0;
  int32_t ends_ = 0;  // ends in a step: one for a computation, two for an exchange
  std::vector<std::atomic<int32_t>> counters_;
  std::vector<Timing> timings_;
  std::vector<Seconds> ran_;  // index: instruction; its time on a device that measures it, otherwise -1
  bool measured_ = true;
  Clock::time_point start_;
  std::atomic<int32_t> left_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable all_done_;
  bool finished_ = false;  // guarded by mutex_
  Status first_error_;     // guarded by mutex_ until the step has finished
};

}  // namespace

std::unique_ptr<Executor> make_parallel_executor(const planner::Program& program, Backend& backend,
                                                 Communicator& communicator, ArenaCheck* check, int rank) {
  return std::make_unique<ParallelExecutor>(program, backend, communicator, check, rank);
}

}  // namespace xrun::runtime
