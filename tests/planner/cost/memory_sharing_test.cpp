#include "planner/cost/memory_sharing.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "planner/cost/simulate.h"

namespace xrun::planner {
namespace {

// Devices of one worker each, which all run an instruction of one second.
Program program_of(int devices, Kind kind) {
  Program program;
  program.devices = devices;
  program.stages.emplace_back();
  for (int d = 0; d < devices; ++d) {
    program.threads.push_back(1);
    program.stages[0].devices.push_back(d);
    program.instructions.push_back({.id = InstructionId(d), .kind = kind, .device = d, .predicted = 1});
  }
  return program;
}

Machine machine_of(int64_t nodes, int64_t cores) {
  return make_machine({.nodes = nodes, .cores = cores, .memory = kGiB, .reserve = 0}, {}, 1, kGiB);
}

Seconds makespan(const Program& program, const Machine& machine) { return simulate(program, machine)->makespan; }

TEST(MemorySharing, UpdatesOfOneNodeShareItsMemory) {
  EXPECT_DOUBLE_EQ(makespan(program_of(8, Kind::kUpdate), machine_of(1, 8)), 1);
  EXPECT_DOUBLE_EQ(makespan(program_of(12, Kind::kUpdate), machine_of(1, 12)), 1.5);
  EXPECT_DOUBLE_EQ(makespan(program_of(16, Kind::kSumReplicas), machine_of(1, 16)), 2);
  EXPECT_DOUBLE_EQ(makespan(program_of(16, Kind::kForward), machine_of(1, 16)), 1) << "bound by arithmetic";
  EXPECT_DOUBLE_EQ(makespan(program_of(16, Kind::kUpdate), machine_of(2, 8)), 1) << "each node has its own memory";
}

TEST(MemorySharing, AnInstructionIsSlowOnlyWhileTheOthersStream) {
  Program program = program_of(12, Kind::kUpdate);
  program.instructions[0].predicted = 3;
  program.instructions[1].kind = Kind::kForward;
  const auto times = simulate(program, machine_of(1, 12));
  ASSERT_TRUE(times.ok());
  // Eleven workers stream until 11 / 8 s, and then one has two seconds left.
  EXPECT_DOUBLE_EQ(times->instructions[2].end, 11.0 / 8);
  EXPECT_DOUBLE_EQ(times->instructions[0].end, 11.0 / 8 + 2);
  EXPECT_DOUBLE_EQ(times->instructions[1].end, 1);
}

TEST(MemorySharing, WorkersThatWaitForCoresUseLessBandwidth) {
  // On four cores, sixteen workers stream as fast as four, which the memory serves.
  Machine machine = machine_of(1, 4);
  machine.devices = machine.threads = 16;
  EXPECT_DOUBLE_EQ(makespan(program_of(16, Kind::kUpdate), machine), 4);
}

// The predicted time is that of a worker alone. If all workers stream, they get the rate that was measured with all of
// them, and it is not divided once more.
TEST(MemorySharing, AMeasuredNumberOfWorkersFillsTheMemory) {
  for (const double filling : {1.5, 4.0, 11.5, 20.0}) {
    Machine machine = machine_of(1, 12);
    machine.filling_workers = filling;
    EXPECT_DOUBLE_EQ(makespan(program_of(12, Kind::kUpdate), machine), std::max(1.0, 12 / filling));
    EXPECT_DOUBLE_EQ(makespan(program_of(1, Kind::kUpdate), machine), 1);
    EXPECT_DOUBLE_EQ(makespan(program_of(12, Kind::kForward), machine), 1) << "its time was measured with all workers";
  }
}

TEST(MemorySharing, GpusHaveMemoryOfTheirOwn) {
  Machine machine = machine_of(1, 4);
  machine.gpu = "h100";
  machine.devices = machine.threads = 16;
  EXPECT_DOUBLE_EQ(makespan(program_of(16, Kind::kUpdate), machine), 1);
}

}  // namespace
}  // namespace xrun::planner
