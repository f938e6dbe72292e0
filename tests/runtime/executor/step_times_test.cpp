// The parts of the time of a step: made-up times, and a run whose stages sleep.
#include "runtime/executor/step_times.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/exchanges.h"
#include "tests/support/instruction_backend.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using planner::Program;
using planner::Stream;

InstructionId add(Program& program, Kind kind, int device, std::vector<InstructionId> deps = {}, int group = -1) {
  Instruction one;
  one.id = InstructionId(program.instructions.size());
  one.kind = kind;
  one.device = device;
  one.stream = group < 0 ? Stream::kCompute : Stream::kComm;
  one.group = group;
  one.deps = std::move(deps);
  program.instructions.push_back(one);
  return one.id;
}

// Returns a program in which device 0 computes and sends, and device 1 receives and computes.
Program two_stages() {
  Program program;
  program.devices = 2;
  const InstructionId first = add(program, Kind::kForward, 0);
  const InstructionId send = add(program, Kind::kSend, 0, {first}, 0);
  const InstructionId recv = add(program, Kind::kRecv, 1, {}, 0);
  for (const InstructionId id : {send, recv}) {
    const int device = program.instruction(id).device;
    program.buffers.push_back({.id = planner::BufferId(device), .device = device, .bytes = 64, .persistent = true});
    program.arenas.push_back({.device = device, .bytes = 64});
    program.instructions[static_cast<size_t>(id.index)].operands = {
        {.role = id == send ? planner::Role::kSent : planner::Role::kReceived,
         .access = id == send ? planner::Access::kRead : planner::Access::kWrite,
         .buffer = planner::BufferId(device),
         .index = 1 - device,
         .bytes = 64}};
  }
  add(program, Kind::kForward, 1, {recv});
  return program;
}

void expect_sums(const StepTimes& times) {
  for (const DeviceTimes& one : times.devices) {
    EXPECT_NEAR(one.busy + one.exposed_comm + one.idle, times.seconds, 1e-9);
  }
}

TEST(StepTimes, OnlyTheTransferIsCommunicationAndWaitingForTheSenderIsIdle) {
  const Program program = two_stages();
  TimeTable table(program, {0, program.devices});
  const std::vector<Timing> timings{{.begin = 0, .end = 3},
                                    {.begin = 3, .end = 4, .moving = 3, .moved = 3},
                                    {.begin = 0, .end = 4, .moving = 3, .moved = 4},
                                    {.begin = 4, .end = 6}};
  const StepTimes& times = table.measure(timings);
  EXPECT_DOUBLE_EQ(times.seconds, 6);
  EXPECT_DOUBLE_EQ(times.devices[1].busy, 2);
  EXPECT_DOUBLE_EQ(times.devices[1].exposed_comm, 1);
  EXPECT_DOUBLE_EQ(times.devices[1].idle, 3);
  EXPECT_DOUBLE_EQ(times.devices[0].busy, 3);
  EXPECT_DOUBLE_EQ(times.devices[0].exposed_comm, 1) << "the sender waits for the data to be taken";
  EXPECT_DOUBLE_EQ(times.devices[0].idle, 2);
  expect_sums(times);
}

TEST(StepTimes, DevicesOfOtherRanksHaveNoTimes) {
  const Program program = two_stages();
  TimeTable table(program, {.first = 0, .count = 1});
  const std::vector<Timing> timings{{.begin = 0, .end = 3}, {.begin = 3, .end = 4, .moving = 3, .moved = 4}, {}, {}};
  const StepTimes& times = table.measure(timings);
  EXPECT_DOUBLE_EQ(times.devices[0].busy, 3);
  EXPECT_DOUBLE_EQ(times.devices[0].exposed_comm, 1);
  EXPECT_DOUBLE_EQ(times.devices[0].idle, 0);
  EXPECT_DOUBLE_EQ(times.devices[1].idle, 0) << "it is not idle: nothing is known of it";
}

TEST(StepTimes, ATransferDelayedByABusyReceiverIsNotCommunicationOfTheSender) {
  Program program = two_stages();
  add(program, Kind::kForward, 1);
  TimeTable table(program, {0, program.devices});
  // The data is sent at 1, but the receiver computes until 5 before it takes the data.
  const std::vector<Timing> timings{{.begin = 0, .end = 1},
                                    {.begin = 1, .end = 6, .moving = 1, .moved = 1},
                                    {.begin = 0, .end = 6, .moving = 5, .moved = 6},
                                    {.begin = 6, .end = 7},
                                    {.begin = 0, .end = 5}};
  const StepTimes& times = table.measure(timings);
  EXPECT_DOUBLE_EQ(times.devices[0].exposed_comm, 1);
  EXPECT_DOUBLE_EQ(times.devices[0].idle, 5);
  EXPECT_DOUBLE_EQ(times.devices[1].exposed_comm, 1);
  EXPECT_DOUBLE_EQ(times.devices[1].idle, 0);
  expect_sums(times);
}

TEST(StepTimes, CommunicationDuringComputationIsNotExposed) {
  Program program;
  program.devices = 2;
  for (int d = 0; d < 2; ++d) {
    add(program, Kind::kAllGather, d, {}, 0);
    add(program, Kind::kForward, d);
  }
  TimeTable table(program, {0, program.devices});
  const std::vector<Timing> timings{{.begin = 0, .end = 3, .moving = 1, .moved = 2},
                                    {.begin = 0, .end = 4},
                                    {.begin = 1, .end = 3, .moving = 1, .moved = 3},
                                    {.begin = 2.5, .end = 4}};
  const StepTimes& times = table.measure(timings);
  EXPECT_DOUBLE_EQ(times.devices[0].exposed_comm, 0);
  EXPECT_DOUBLE_EQ(times.devices[1].exposed_comm, 1.5);
  EXPECT_DOUBLE_EQ(times.devices[1].idle, 1);
  expect_sums(times);
}

// A backend whose instructions sleep, so a run takes as long as they sleep.
class Sleeper final : public testing::InstructionBackend {
 public:
  Status compute(const Instruction& instruction, ops::Workers&) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(instruction.device == 0 ? 40 : 10));
    return {};
  }
};

TEST(StepTimes, TheSecondStageOfARunIsIdleWhileTheFirstComputes) {
  const Program program = two_stages();
  TimeTable table(program, {0, program.devices});
  Sleeper runner;
  const std::vector<int> threads{1, 1};
  const auto devices = make_cpu_devices(threads);
  runner.set_devices(*devices, program);
  const BoundMemory memory = BoundMemory::map(program, *devices).value();
  LocalCommunicator communicator(*devices, exchanges_of(program, memory));
  const auto executor = make_parallel_executor(program, runner, communicator);
  ASSERT_TRUE(executor->step().ok());
  const StepTimes& times = table.measure(executor->timings());
  EXPECT_GE(times.devices[0].busy, 0.039);
  EXPECT_GE(times.devices[1].busy, 0.009);
  EXPECT_GE(times.devices[1].idle, 0.035);
  EXPECT_LT(times.devices[1].exposed_comm, times.devices[1].idle);
  expect_sums(times);
}

}  // namespace
}  // namespace xrun::runtime
