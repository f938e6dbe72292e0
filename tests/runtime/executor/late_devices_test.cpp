// The parallel executor on devices that report the end of work late.
#include <gtest/gtest.h>
#include <optional>

#include "tests/runtime/executor/number_programs.h"
#include "tests/support/guarded_device.h"

namespace xrun::runtime {
namespace {

using planner::Program;
using testing::Builder;
using testing::GuardedDeviceSet;
using testing::Machine;
using testing::random_program;

std::unique_ptr<GuardedDeviceSet> devices_for(const Program& program, uint32_t seed) {
  const std::vector<int> threads(static_cast<size_t>(program.devices), 1 + static_cast<int>(seed % 2));
  return std::make_unique<GuardedDeviceSet>(threads, seed);
}

// Opens the memory of all devices to all threads: the sequential executor computes on the calling thread.
class Opened {
 public:
  explicit Opened(std::shared_ptr<testing::Guard> guard) : guard_(std::move(guard)) { guard_->begin(); }
  ~Opened() { guard_->end(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  std::shared_ptr<testing::Guard> guard_;
};

TEST(LateDevices, ExchangesWaitForTheEndOfTheirCopies) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    const Program program = random_program(seed, 2 + static_cast<int>(seed % 3), 6);
    Machine<> expected(program, 1, true);
    for (const bool sequential : {false, true}) {
      auto devices = devices_for(program, seed);
      std::optional<Opened> opened;
      if (sequential) {
        opened.emplace(devices->guard());
      }
      Machine<> got(program, std::move(devices), sequential);
      for (int step = 0; step < 3; ++step) {
        ASSERT_TRUE(got.executor->step().ok());
        if (!sequential) {
          ASSERT_TRUE(expected.executor->step().ok());
        }
      }
      ASSERT_EQ(expected.runner.all(), got.runner.all()) << "seed " << seed << " sequential " << sequential;
    }
  }
}

// Device 1 computes with the received numbers, so it computes nothing.
TEST(LateDevices, AStepEndsWithTheErrorOfACopy) {
  Builder builder(2, 4);
  builder.compute(0, {}, {0});
  builder.send(0, 1, 0);
  builder.compute(1, {1}, {3});
  planner::derive_dependences(builder.program);
  for (const bool sequential : {false, true}) {
    auto devices = devices_for(builder.program, 0);
    const auto guard = devices->guard();
    std::optional<Opened> opened;
    if (sequential) {
      opened.emplace(guard);
    }
    Machine<> setup(builder.program, std::move(devices), sequential);
    guard->fail_copy(1);
    const Status status = setup.executor->step();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "a planned failure of a copy");
    EXPECT_EQ(setup.runner.runs, 1);
    EXPECT_TRUE(setup.executor->step().ok());
    EXPECT_EQ(setup.runner.runs, 3);
  }
}

// Devices that order instructions, with a backend and an executor.
struct LateMachine {
  LateMachine(const Program& program, uint32_t seed)
      : devices(devices_for(program, seed)),
        memory(BoundMemory::map(program, *devices).value()),
        runner(program, memory),
        backend(program, devices->late(), runner),
        exchanges(exchanges_of(program, memory)),
        communicator(*devices, exchanges) {
    runner.set_devices(*devices, program);
    executor = make_parallel_executor(program, backend, communicator);
  }
  std::unique_ptr<GuardedDeviceSet> devices;
  BoundMemory memory;
  testing::Arithmetic runner;
  testing::LateBackend backend;
  std::vector<Exchange> exchanges;
  LocalCommunicator communicator;
  std::unique_ptr<Executor> executor;
};

// Seeds whose remainder by 3 is 0 run all work as late as possible.
TEST(LateDevices, DevicesThatOrderGiveTheSequentialResult) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    const Program program = random_program(seed, 1 + static_cast<int>(seed % 4), 6);
    Machine<> expected(program, 1, true);
    LateMachine got(program, seed);
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(expected.executor->step().ok());
      ASSERT_TRUE(got.executor->step().ok());
      ASSERT_EQ(expected.runner.all(), got.runner.all()) << "seed " << seed << " step " << step;
    }
  }
}

TEST(LateDevices, InstructionsThatDependOnEachOtherAreQueuedBeforeTheFirstHasRun) {
  Builder builder(1, 2);
  for (int i = 0; i < 10; ++i) {
    builder.compute(0, {0}, {0});
  }
  planner::derive_dependences(builder.program);
  LateMachine late(builder.program, 0);
  ASSERT_TRUE(late.executor->step().ok());
  EXPECT_EQ(late.backend.longest_queue(), 10);
}

TEST(LateDevices, ALateErrorNamesItsInstructionAndNoLaterInstructionComputes) {
  Builder builder(2, 4);
  for (int i = 0; i < 20; ++i) {
    builder.compute(0, {0}, {0});
    builder.program.instructions.back().micro_batch = i;
  }
  builder.send(0, 1, 0);
  for (int i = 0; i < 20; ++i) {
    builder.compute(1, {1}, {1});
  }
  planner::derive_dependences(builder.program);
  for (uint32_t seed = 0; seed < 6; ++seed) {
    LateMachine late(builder.program, seed);
    late.runner.fails = planner::InstructionId(5);
    const Status status = late.executor->step();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "`forward` of micro-batch 5 on device 0: planned failure") << "seed " << seed;
    EXPECT_EQ(late.runner.runs, 5) << "seed " << seed;
    late.runner.fails = planner::InstructionId();
    late.runner.runs = 0;
    EXPECT_TRUE(late.executor->step().ok()) << "seed " << seed;
    EXPECT_EQ(late.runner.runs, 40) << "seed " << seed;
  }
}

}  // namespace
}  // namespace xrun::runtime
