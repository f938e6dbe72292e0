// The parallel executor. The counter of an instruction holds its dependencies and its predecessor in the stream; the
// thread that brings it to zero starts the instruction:
//   - an exchange is posted at once, on any device, because the other side may be idle until then;
//   - a computation of the same device continues on this thread if the device has nothing queued; otherwise a received
//     value would wait for it;
//   - any other computation is submitted to its device.
#include "runtime/executor/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "graph/base/check.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/arena_check.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using Clock = std::chrono::steady_clock;

class ParallelExecutor final : public Executor {
 public:
  ParallelExecutor(const planner::Program& program, InstructionRunner& runner, const DeviceSet& devices,
                   Communicator& communicator, ArenaCheck* check)
      : program_(program),
        runner_(runner),
        devices_(devices),
        communicator_(communicator),
        check_(check),
        nodes_(program.instructions.size()),
        counters_(program.instructions.size()),
        postings_(program.instructions.size()),
        post_queues_(static_cast<size_t>(program.devices)),
        timings_(program.instructions.size()) {
    derive_order();
    form_groups();
  }

  Status step() override {
    if (nodes_.empty()) {
      return {};
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      counters_[i].store(nodes_[i].dependencies, std::memory_order_relaxed);
    }
    left_.store(static_cast<int32_t>(nodes_.size()), std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    finished_ = false;
    if (check_ != nullptr) {
      check_->begin_step();
    }
    start_ = Clock::now();
    for (const int32_t root : roots_) {
      submit(root);
    }
    {
      std::unique_lock lock(mutex_);
      all_done_.wait(lock, [this] { return finished_; });
    }
    // The thread that ended the step may still be inside of post_next.
    for (const PostQueue& queue : post_queues_) {
      while (queue.calls.load(std::memory_order_acquire) != 0) {
        std::this_thread::yield();
      }
    }
    if (check_ != nullptr && first_error_.ok()) {
      return check_->end_step();
    }
    return std::exchange(first_error_, Status());
  }

  std::span<const Timing> timings() const override { return timings_; }

 private:
  struct Node {
    int32_t dependencies = 0;
    std::vector<int32_t> dependents;
  };
  struct Posting {
    ParallelExecutor* self = nullptr;
    Exchange exchange;
  };

  // Exchanges of one device are posted one at a time; a second thread leaves its exchange to the first, so that
  // completions do not nest. The stream is in order, so at most one exchange waits here.
  struct PostQueue {
    std::atomic<int32_t> ready{-1};
    std::atomic<int32_t> calls{0};
  };

  void derive_order() {
    std::vector<int32_t> last(static_cast<size_t>(program_.devices) * 2, -1);
    for (const Instruction& instruction : program_.instructions) {
      std::vector<int32_t> before;
      for (const InstructionId dep : instruction.deps) {
        before.push_back(dep.index);
      }
      int32_t& previous = last[static_cast<size_t>(instruction.device) * 2 + static_cast<size_t>(instruction.stream)];
      if (previous >= 0) {
        before.push_back(previous);
      }
      previous = instruction.id.index;
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
      nodes_[static_cast<size_t>(instruction.id.index)].dependencies = static_cast<int32_t>(before.size());
      for (const int32_t dep : before) {
        nodes_[static_cast<size_t>(dep)].dependents.push_back(instruction.id.index);
      }
      if (before.empty()) {
        roots_.push_back(instruction.id.index);
      }
    }
  }

  void form_groups() {
    const auto groups = groups_of(program_);
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t m = 0; m < groups[g].size(); ++m) {
        Exchange& exchange = postings_[static_cast<size_t>(groups[g][m].index)].exchange;
        exchange.group = static_cast<int>(g);
        exchange.member = static_cast<int>(m);
        exchange.members = static_cast<int>(groups[g].size());
        exchange.device = program_.instruction(groups[g][m]).device;
      }
    }
  }

  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void submit(int32_t id) {
    const Instruction& instruction = program_.instructions[static_cast<size_t>(id)];
    devices_.device(instruction.device).submit({&ParallelExecutor::enter, this, id});
  }

  static void enter(void* self, int32_t id) { static_cast<ParallelExecutor*>(self)->run_chain(id); }

  // Runs an instruction and then those that it has made runnable on the same device; others go to their devices.
  void run_chain(int32_t id) {
    const int device = program_.instructions[static_cast<size_t>(id)].device;
    while (id >= 0) {
      const Instruction& instruction = program_.instructions[static_cast<size_t>(id)];
      if (communicates(instruction.kind)) {
        post_next(id);
        return;
      }
      timings_[static_cast<size_t>(id)].begin = now();
      if (enter_memory(instruction)) {
        XRUN_DCHECK(has_compute_modes(), "an instruction runs without the floating-point modes");
        note(run_within_memory(instruction, devices_.device(device)));
        leave_memory(instruction);
      }
      id = complete(id, device);
      if (id >= 0 && devices_.device(device).has_waiting()) {
        submit(id);
        return;
      }
    }
  }

  // Nothing may leave a task that was enqueued.
  Status run_within_memory(const Instruction& instruction, Device& device) {
    try {
      return runner_.run(instruction, device);
    } catch (const std::bad_alloc&) {
      return Error{ErrorKind::kWorld, "", "out of memory in a step",
                   "close other programs, or use fewer devices and threads"};
    }
  }

  // Whether the instruction is to be done.
  bool enter_memory(const Instruction& instruction) {
    if (check_ != nullptr && !failed_.load(std::memory_order_relaxed)) {
      note(check_->begin(instruction));
    }
    return !failed_.load(std::memory_order_relaxed);
  }

  void leave_memory(const Instruction& instruction) {
    if (check_ != nullptr && !failed_.load(std::memory_order_relaxed)) {
      note(check_->end(instruction));
    }
  }

  void post_next(int32_t id) {
    PostQueue& queue = post_queues_[static_cast<size_t>(program_.instructions[static_cast<size_t>(id)].device)];
    queue.ready.store(id, std::memory_order_relaxed);
    if (queue.calls.fetch_add(1, std::memory_order_acq_rel) != 0) {
      return;
    }
    do {
      post(program_.instructions[static_cast<size_t>(queue.ready.load(std::memory_order_relaxed))]);
    } while (queue.calls.fetch_sub(1, std::memory_order_acq_rel) != 1);
  }

  // A failed step still posts, so that no member of a group is left alone; it only moves nothing.
  void post(const Instruction& instruction) {
    Posting& posting = postings_[static_cast<size_t>(instruction.id.index)];
    posting.self = this;
    timings_[static_cast<size_t>(instruction.id.index)].begin = now();
    if (enter_memory(instruction)) {
      note(runner_.prepare(instruction, posting.exchange));
    }
    Exchange guarded = posting.exchange;
    if (guarded.combine != nullptr) {
      guarded.combine = &ParallelExecutor::combine;
    }
    guarded.context = &posting;
    communicator_.post(guarded, {&ParallelExecutor::posted, this, instruction.id.index});
  }

  static Status combine(void* context, const Exchange& /*exchange*/, Published parts) {
    const Posting& posting = *static_cast<Posting*>(context);
    ParallelExecutor& self = *posting.self;
    Timing& timing = self.timings_[static_cast<size_t>(&posting - self.postings_.data())];
    timing.moving = self.now();
    Status status;
    if (!self.failed_.load(std::memory_order_relaxed)) {
      status = posting.exchange.combine(posting.exchange.context, posting.exchange, parts);
    }
    timing.moved = self.now();
    return status;
  }

  static void posted(void* self, int32_t id, Status status) {
    auto& executor = *static_cast<ParallelExecutor*>(self);
    if (executor.postings_[static_cast<size_t>(id)].exchange.combine == nullptr) {
      Timing& timing = executor.timings_[static_cast<size_t>(id)];
      timing.moving = timing.moved = executor.now();
    }
    executor.note(std::move(status));
    executor.leave_memory(executor.program_.instructions[static_cast<size_t>(id)]);
    executor.complete(id, -1);
  }

  // Ends an instruction; gives one that now can compute on `device`, or -1.
  int32_t complete(int32_t id, int device) {
    timings_[static_cast<size_t>(id)].end = now();
    int32_t next = -1;
    for (const int32_t dependent : nodes_[static_cast<size_t>(id)].dependents) {
      if (counters_[static_cast<size_t>(dependent)].fetch_sub(1, std::memory_order_acq_rel) != 1) {
        continue;
      }
      const Instruction& runnable = program_.instructions[static_cast<size_t>(dependent)];
      if (communicates(runnable.kind)) {
        post_next(dependent);
      } else if (next < 0 && runnable.device == device) {
        next = dependent;
      } else {
        submit(dependent);
      }
    }
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const std::lock_guard lock(mutex_);
      finished_ = true;
      all_done_.notify_one();
    }
    return next;
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
  InstructionRunner& runner_;
  const DeviceSet& devices_;
  Communicator& communicator_;
  ArenaCheck* check_;
  std::vector<Node> nodes_;
  std::vector<int32_t> roots_;
  std::vector<std::atomic<int32_t>> counters_;
  std::vector<Posting> postings_;
  std::vector<PostQueue> post_queues_;  // by device
  std::vector<Timing> timings_;
  Clock::time_point start_;
  std::atomic<int32_t> left_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable all_done_;
  bool finished_ = false;  // guarded by mutex_
  Status first_error_;     // guarded by mutex_ until the step has finished
};

}  // namespace

std::unique_ptr<Executor> make_parallel_executor(const planner::Program& program, InstructionRunner& runner,
                                                 const DeviceSet& devices, Communicator& communicator,
                                                 ArenaCheck* check) {
  return std::make_unique<ParallelExecutor>(program, runner, devices, communicator, check);
}

std::vector<int> group_sizes(const planner::Program& program) {
  std::vector<int> sizes;
  for (const auto& group : groups_of(program)) {
    sizes.push_back(static_cast<int>(group.size()));
  }
  return sizes;
}

std::vector<std::vector<InstructionId>> groups_of(const planner::Program& program) {
  std::vector<std::vector<InstructionId>> groups;
  for (const Instruction& instruction : program.instructions) {
    if (!communicates(instruction.kind)) {
      continue;
    }
    const auto at = static_cast<size_t>(instruction.group);
    if (groups.size() <= at) {
      groups.resize(at + 1);
    }
    // Members are numbered in instruction order, a sender before its receiver.
    if (instruction.kind == Kind::kSend) {
      groups[at].insert(groups[at].begin(), instruction.id);
    } else {
      groups[at].push_back(instruction.id);
    }
  }
  return groups;
}

}  // namespace xrun::runtime
