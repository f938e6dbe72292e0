#include "planner/cost/simulate.h"

#include <gtest/gtest.h>

#include "tests/planner/cost/link_programs.h"

namespace xrun::planner {
namespace {

Instruction instruction(int id, int device, Stream stream, Seconds time, std::vector<int> deps, int group = -1) {
  Instruction made{.id = InstructionId(id), .device = device, .stream = stream, .group = group, .predicted = time};
  for (const int dep : deps) {
    made.deps.push_back(InstructionId(dep));
  }
  return made;
}

Program program_of(int devices, std::vector<Instruction> instructions) {
  Program program;
  program.devices = devices;
  program.instructions = std::move(instructions);
  Stage stage;
  for (int d = 0; d < devices; ++d) {
    stage.devices.push_back(d);
  }
  program.stages.push_back(stage);
  return program;
}

TEST(SimulateProgram, StreamsRunInOrderAndDependenciesWait) {
  const Program program =
      program_of(2, {instruction(0, 0, Stream::kCompute, 2, {}), instruction(1, 0, Stream::kCompute, 1, {}),
                     instruction(2, 1, Stream::kCompute, 3, {0}), instruction(3, 1, Stream::kCompute, 1, {})});
  const auto times = simulate(program);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->instructions[1].start, 2);
  EXPECT_EQ(times->instructions[2].start, 2);
  EXPECT_EQ(times->instructions[3].start, 5);
  EXPECT_EQ(times->makespan, 6);
  EXPECT_DOUBLE_EQ(times->bubble, 1 - 7.0 / 12.0);
}

TEST(SimulateProgram, MembersOfACollectiveStartAndEndTogether) {
  const Program program =
      program_of(2, {instruction(0, 0, Stream::kCompute, 4, {}), instruction(1, 0, Stream::kComm, 1, {0}, 7),
                     instruction(2, 1, Stream::kComm, 2, {}, 7), instruction(3, 1, Stream::kCompute, 1, {2})});
  const auto times = simulate(program);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->instructions[2].start, 4);
  EXPECT_EQ(times->instructions[1].end, 6);
  EXPECT_EQ(times->instructions[3].start, 6);
}

TEST(SimulateProgram, CommunicationDuringComputationIsNotExposed) {
  const Program hidden =
      program_of(1, {instruction(0, 0, Stream::kCompute, 4, {}), instruction(1, 0, Stream::kComm, 3, {})});
  EXPECT_EQ(simulate(hidden)->exposed_comm, 0);
  const Program open =
      program_of(1, {instruction(0, 0, Stream::kCompute, 4, {}), instruction(1, 0, Stream::kComm, 3, {0})});
  EXPECT_EQ(simulate(open)->exposed_comm, 3);
}

TEST(SimulateProgram, MoreWorkersThanCoresShareTheCores) {
  Program program =
      program_of(3, {instruction(0, 0, Stream::kCompute, 4, {}), instruction(1, 1, Stream::kCompute, 4, {}),
                     instruction(2, 2, Stream::kCompute, 6, {}), instruction(3, 0, Stream::kComm, 1, {0})});
  program.threads = {1, 1, 1};
  EXPECT_EQ(simulate(program)->makespan, 6);
  EXPECT_EQ(simulate(program, 3)->makespan, 6);
  // Three instructions share two cores until the two short ones have done their work of 4; then the long one runs
  // alone for the last 2.
  const auto times = simulate(program, 2);
  ASSERT_TRUE(times.ok());
  EXPECT_DOUBLE_EQ(times->instructions[0].end, 6);
  EXPECT_DOUBLE_EQ(times->instructions[3].start, 6);
  EXPECT_DOUBLE_EQ(times->makespan, 8);
  // An idle device leaves its core to the others. In a chain of three, no two devices compute at the same time.
  Program chain =
      program_of(3, {instruction(0, 0, Stream::kCompute, 4, {}), instruction(1, 1, Stream::kCompute, 4, {0}),
                     instruction(2, 2, Stream::kCompute, 6, {1})});
  chain.threads = {1, 1, 1};
  EXPECT_EQ(simulate(chain, 1)->makespan, 14);
}

TEST(SimulateProgram, AnExchangeDoesNotWaitForTheOneBeforeItToEnd) {
  // Device 1 joins group 1 late and group 2 at once.
  const Program program =
      program_of(3, {instruction(0, 1, Stream::kCompute, 5, {}), instruction(1, 0, Stream::kComm, 1, {}, 1),
                     instruction(2, 1, Stream::kComm, 1, {0}, 1), instruction(3, 0, Stream::kComm, 1, {}, 2),
                     instruction(4, 2, Stream::kComm, 1, {}, 2), instruction(5, 2, Stream::kCompute, 1, {4})});
  const auto times = simulate(program);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->instructions[3].start, 0);
  EXPECT_EQ(times->instructions[5].end, 2);
  EXPECT_EQ(times->instructions[1].end, 6);
}

TEST(SimulateProgram, ACircleOfWaitsIsAnErrorThatNamesInstructions) {
  const Program program =
      program_of(2, {instruction(0, 0, Stream::kComm, 1, {}, 1), instruction(1, 0, Stream::kComm, 1, {0}, 2),
                     instruction(2, 1, Stream::kComm, 1, {}, 2), instruction(3, 1, Stream::kComm, 1, {2}, 1)});
  const auto times = simulate(program);
  ASSERT_FALSE(times.ok());
  EXPECT_NE(times.error().message.find("wait for one another"), std::string::npos);
}

TEST(SimulateProgram, ExchangesShareALinkAndTheRestOfTheTimeIsThatOfOneAlone) {
  const Machine machine = testing::link_machine(4);
  testing::LinkProgram made(machine);
  const int longer = made.send(0, 1, 1);
  const int shorter = made.send(0, 2, 0.5);
  const int other = made.send(1, 0, 1);
  const auto times = simulate(made.program(), machine);
  ASSERT_TRUE(times.ok());
  const auto end = [&](int of) { return times->instructions[static_cast<size_t>(of)].end; };
  EXPECT_DOUBLE_EQ(end(shorter), 1);
  EXPECT_DOUBLE_EQ(end(longer), 1.5);
  EXPECT_DOUBLE_EQ(end(other), 1) << "the other direction of the links is free";
  EXPECT_DOUBLE_EQ(simulate(made.program())->makespan, 1) << "without a network nothing is shared";
}

TEST(SimulateProgram, RateOfAnExchangeIsThatOfItsFullestLink) {
  const Machine machine = testing::link_machine(5);
  testing::LinkProgram made(machine);
  const int narrow = made.send(0, 1, 1);
  const int full = made.send(0, 2, 1);
  made.send(3, 2, 1);
  made.send(4, 2, 1);
  const auto times = simulate(made.program(), machine);
  ASSERT_TRUE(times.ok());
  // Three exchanges share the link to node 2, so that the link of node 0 has two thirds left for the fourth one.
  EXPECT_DOUBLE_EQ(times->instructions[static_cast<size_t>(narrow)].end, 1.5);
  EXPECT_DOUBLE_EQ(times->instructions[static_cast<size_t>(full)].end, 3);
}

TEST(SimulateProgram, ExchangesOfOneRouteRunInTheOrderOfTheirPosting) {
  const Machine machine = testing::link_machine(2, 0.25);
  testing::LinkProgram made(machine);
  const int first = made.send(0, 1, 1);
  const int second = made.send(0, 1, 1);
  const auto times = simulate(made.program(), machine);
  ASSERT_TRUE(times.ok());
  EXPECT_DOUBLE_EQ(times->instructions[static_cast<size_t>(first)].end, 1.25);
  EXPECT_DOUBLE_EQ(times->instructions[static_cast<size_t>(second)].end, 2.25) << "the link is free during a latency";
}

}  // namespace
}  // namespace xrun::planner
