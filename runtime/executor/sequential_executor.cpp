// The sequential executor: an order of all instructions in which every dependency, every stream and every group is
// respected is found once; a step walks it. It shares no code with the parallel executor, of which it is the oracle.
#include <chrono>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/arena_check.h"
#include "runtime/executor/executor.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::InstructionId;
using Clock = std::chrono::steady_clock;

// Either one instruction or all members of a group.
struct Item {
  std::vector<InstructionId> members;
};

Result<std::vector<Item>> find_order(const planner::Program& program) {
  const auto groups = groups_of(program);
  const size_t count = program.instructions.size();
  std::vector<bool> done(count, false);
  std::vector<int32_t> before(count, -1);  // the previous one in the stream
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
    for (const InstructionId dep : program.instructions[at].deps) {
      if (!done[static_cast<size_t>(dep.index)]) {
        return false;
      }
    }
    return true;
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
      order.push_back({std::move(members)});
    }
    if (left == left_before) {
      return Error{ErrorKind::kContent, "XG0622", "the instructions of the plan wait for each other",
                   "make the plan again with `xrun plan`"};
    }
  }
  return order;
}

class SequentialExecutor final : public Executor {
 public:
  SequentialExecutor(const planner::Program& program, InstructionRunner& runner, std::vector<Item> order,
                     ArenaCheck* check)
      : program_(program),
        runner_(runner),
        order_(std::move(order)),
        check_(check),
        timings_(program.instructions.size()) {
    size_t largest = 1;
    for (const Item& item : order_) {
      largest = std::max(largest, item.members.size());
    }
    exchanges_.resize(largest);
    published_.resize(largest);
  }

  Status step() override {
    const ComputeModes modes;
    if (check_ != nullptr) {
      check_->begin_step();
    }
    const auto start = Clock::now();
    const auto now = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    for (const Item& item : order_) {
      const double begin = now();
      for (size_t m = 0; check_ != nullptr && m < item.members.size(); ++m) {
        XRUN_TRY(check_->begin(program_.instruction(item.members[m])));
      }
      const Instruction& first = program_.instruction(item.members[0]);
      if (communicates(first.kind)) {
        XRUN_TRY(exchange(item));
      } else {
        XRUN_TRY(runner_.run(first, workers_));
      }
      if (check_ != nullptr) {
        XRUN_TRY(check_->end(first));
      }
      const double end = now();
      for (const InstructionId member : item.members) {
        timings_[static_cast<size_t>(member.index)] = {.begin = begin, .end = end, .moving = begin, .moved = end};
      }
    }
    return check_ == nullptr ? Status() : check_->end_step();
  }

  std::span<const Timing> timings() const override { return timings_; }

 private:
  Status exchange(const Item& item) {
    const size_t count = item.members.size();
    for (size_t m = 0; m < count; ++m) {
      const Instruction& instruction = program_.instruction(item.members[m]);
      Exchange& one = exchanges_[m];
      one = {};
      one.group = instruction.group;
      one.member = static_cast<int>(m);
      one.members = static_cast<int>(count);
      one.device = instruction.device;
      XRUN_TRY(runner_.prepare(instruction, one));
      published_[m] = one.send;
    }
    for (size_t m = 0; m < count; ++m) {
      if (exchanges_[m].combine != nullptr) {
        XRUN_TRY(exchanges_[m].combine(exchanges_[m].context, exchanges_[m], Published(published_.data(), count)));
      }
    }
    return {};
  }

  const planner::Program& program_;
  InstructionRunner& runner_;
  std::vector<Item> order_;
  ArenaCheck* check_;
  std::vector<Timing> timings_;
  std::vector<Exchange> exchanges_;
  std::vector<Pieces> published_;
  ops::InlineWorkers workers_;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_sequential_executor(const planner::Program& program, InstructionRunner& runner,
                                                           ArenaCheck* check) {
  XRUN_ASSIGN(std::vector<Item> order, find_order(program));
  return std::unique_ptr<Executor>(std::make_unique<SequentialExecutor>(program, runner, std::move(order), check));
}

}  // namespace xrun::runtime
