// Compares the parallel executor with the sequential one, over programs whose instructions do arithmetic on a few
// numbers.
#include "runtime/executor/executor.h"

#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>

#include "ops/compute_modes.h"
#include "planner/verify/verify_program.h"
#include "tests/runtime/executor/number_programs.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using planner::Program;
using testing::Arithmetic;
using testing::Builder;
using testing::kNumbers;
using testing::Machine;
using testing::random_program;

TEST(Executor, RandomProgramsGiveTheSequentialResult) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const Program program = random_program(seed, 1 + static_cast<int>(seed % 4), 6);
    ASSERT_TRUE(planner::verify_order(program).ok()) << "seed " << seed;
    Machine<> expected(program, 1, true);
    Machine<> got(program, 1 + static_cast<int>(seed % 3), false);
    for (int step = 0; step < 5; ++step) {
      ASSERT_TRUE(expected.executor->step().ok());
      ASSERT_TRUE(got.executor->step().ok());
      ASSERT_EQ(expected.runner.all(), got.runner.all()) << "seed " << seed << " step " << step;
    }
  }
}

TEST(Executor, TheFirstErrorIsReturnedAndLaterInstructionsDoNotRun) {
  Builder builder(2, 4);
  for (int i = 0; i < 20; ++i) {
    builder.compute(0, {0}, {0});
  }
  builder.send(0, 1, 0);
  for (int i = 0; i < 20; ++i) {
    builder.compute(1, {1}, {1});
  }
  planner::derive_dependences(builder.program);
  for (const bool sequential : {false, true}) {
    Machine<> setup(builder.program, 2, sequential);
    setup.runner.fails = InstructionId(5);
    const Status status = setup.executor->step();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "planned failure");
    EXPECT_EQ(setup.runner.runs, 5);
    setup.runner.fails = InstructionId();
    setup.runner.runs = 0;
    EXPECT_TRUE(setup.executor->step().ok()) << "an executor may go on after an error";
    EXPECT_EQ(setup.runner.runs, 40);
  }
}

// Holds one instruction back until another one has run, or until a timeout.
class Meeting final : public Arithmetic {
 public:
  using Arithmetic::Arithmetic;

  Status compute(const Instruction& instruction, ops::Workers& workers) override {
    std::unique_lock lock(mutex_);
    if (instruction.id == comes) {
      here_ = true;
      came_.notify_all();
    } else if (instruction.id == waits && !came_.wait_for(lock, std::chrono::seconds(20), [this] { return here_; })) {
      return Error{ErrorKind::kNonFinite, "", "nobody came"};
    }
    lock.unlock();
    return Arithmetic::compute(instruction, workers);
  }

  InstructionId waits;
  InstructionId comes;

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  bool here_ = false;  // guarded by mutex_
};

// Expects that instruction `comes` runs while instruction `waits` is held back.
void expect_meeting(Builder& builder, InstructionId waits, InstructionId comes) {
  planner::derive_dependences(builder.program);
  Machine<Meeting> setup(builder.program, 1, false);
  setup.runner.waits = waits;
  setup.runner.comes = comes;
  const Status status = setup.executor->step();
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(Executor, ABusyDeviceDoesNotDelayItsSends) {
  Builder builder(2, 6);
  builder.compute(0, {}, {0, 2});
  builder.send(0, 1, 0);
  builder.send(2, 3, 1);
  const InstructionId busy = builder.compute(0, {0}, {4});
  const InstructionId next = builder.compute(1, {3}, {5});
  expect_meeting(builder, busy, next);
}

TEST(Executor, AReceiveDoesNotWaitForAnEarlierExchange) {
  Builder builder(3, 9);
  const InstructionId slow = builder.compute(0, {}, {0});
  builder.send(0, 1, 0);
  builder.compute(2, {}, {2});
  builder.send(2, 4, 1);
  const InstructionId next = builder.compute(1, {4}, {7});
  expect_meeting(builder, slow, next);
}

TEST(Executor, ASendIsNotDelayedByAnEarlierUnreceivedSend) {
  Builder builder(3, 9);
  const InstructionId busy = builder.compute(1, {}, {1});
  builder.compute(0, {}, {0, 3});
  builder.send(0, 1, 0);  // into a buffer that device 1 is using
  builder.send(3, 2, 1);
  const InstructionId next = builder.compute(2, {2}, {5});
  expect_meeting(builder, busy, next);
}

TEST(Executor, AProgramWithADeadlockIsRefused) {
  Builder builder(2, 4);
  // Each device receives before it sends, so all would wait for each other.
  const auto add = [&](Kind kind, int device, int group) {
    Instruction& one = builder.add(kind, device, group);
    one.operands = {Builder::block(kind == Kind::kSend, device, 1 - device, 0, kNumbers)};
    derive_accesses(one);
  };
  add(Kind::kRecv, 0, 0);
  add(Kind::kSend, 0, 1);
  add(Kind::kRecv, 1, 1);
  add(Kind::kSend, 1, 0);
  const auto devices = make_cpu_devices(std::vector<int>{1, 1});
  const BoundMemory memory = BoundMemory::map(builder.program, *devices).value();
  Arithmetic runner(builder.program, memory);
  EXPECT_FALSE(make_sequential_executor(builder.program, runner, exchanges_of(builder.program, memory)).ok());
}

TEST(CpuDevice, EveryItemRunsOnceOnAWorkerOfItsOwn) {
  const std::vector<int> threads{3};
  const auto set = make_cpu_devices(threads);
  std::vector<std::atomic<int>> seen(1000);
  std::vector<std::atomic<int>> busy(3);
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;  // guarded by mutex
  std::atomic<int> clashes{0};
  std::atomic<int> bad_modes{0};
  struct Context {
    std::function<void()> body;
  } context{[&] {
    static_cast<CpuDevice&>(set->device(0)).for_each(1000, [&](int64_t item, int worker) {
      clashes += busy[static_cast<size_t>(worker)].fetch_add(1) != 0 ? 1 : 0;
      bad_modes += ops::has_compute_modes() ? 0 : 1;
      ++seen[static_cast<size_t>(item)];
      --busy[static_cast<size_t>(worker)];
    });
    // The lock is held to the end, because the waiting thread then destroys all of these variables.
    const std::lock_guard lock(mutex);
    done = true;
    finished.notify_one();
  }};
  set->device(0).start(DeviceStream::kCompute,
                       {[](void* c, int32_t) { static_cast<Context*>(c)->body(); }, &context, 0});
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return done; });
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(bad_modes, 0);
  for (const auto& count : seen) {
    EXPECT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace xrun::runtime
