#include "planner/cost/deadlock.h"

#include <gtest/gtest.h>

#include "graph/base/random.h"
#include "planner/cost/simulate.h"

namespace xrun::planner {
namespace {

// Adds an instruction to the end of the stream kCompute of its device.
void add(Program& program, Kind kind, int device, int group, int stage, int micro_batch) {
  program.instructions.push_back({.id = InstructionId(program.instructions.size()),
                                  .kind = kind,
                                  .device = device,
                                  .stream = Stream::kCompute,
                                  .stage = stage,
                                  .micro_batch = micro_batch,
                                  .group = group,
                                  .predicted = 1});
}

TEST(Deadlock, NamesTheCircleAndNotTheInstructionsThatWaitForIt) {
  // Both stages send before they receive, as with blocking sends, and a third device waits for the first one.
  Program program;
  program.devices = 3;
  add(program, Kind::kUpdate, 2, -1, 2, -1);
  add(program, Kind::kSend, 0, 1, 0, 0);
  add(program, Kind::kSend, 1, 2, 1, 3);
  add(program, Kind::kRecv, 1, 1, 1, 0);
  add(program, Kind::kRecv, 0, 2, 0, 3);
  program.instructions[0].deps = {InstructionId(1)};
  const auto times = simulate(program);
  ASSERT_FALSE(times.ok());
  EXPECT_EQ(times.error().message,
            "program: instructions wait for one another: "
            "#1 send of micro-batch 0, stage 0, device 0 waits for #3 recv of micro-batch 0, stage 1, device 1, "
            "which waits for #2 send of micro-batch 3, stage 1, device 1, "
            "which waits for #4 recv of micro-batch 3, stage 0, device 0, which waits for #1");
}

TEST(Deadlock, NamesAtMostTenInstructions) {
  // Device d first takes part in exchange d and then in exchange d + 1, and all of them form one circle.
  constexpr int kDevices = 9;
  Program program;
  program.devices = kDevices;
  for (int d = 0; d < kDevices; ++d) {
    add(program, Kind::kSend, d, d, d, -1);
    add(program, Kind::kRecv, d, (d + 1) % kDevices, d, -1);
  }
  const auto times = simulate(program);
  ASSERT_FALSE(times.ok());
  const std::string& message = times.error().message;
  int named = 0;
  for (size_t at = message.find(", device "); at != std::string::npos; at = message.find(", device ", at + 1)) {
    ++named;
  }
  EXPECT_EQ(named, 10) << message;
  EXPECT_NE(message.find("which waits for 8 more, the last of which waits for #0"), std::string::npos) << message;
}

// Each instruction that a message names must really wait, so the circle is followed in random programs.
TEST(Deadlock, EachNamedInstructionWaitsForTheNextOne) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomStream stream(seed, 62);
    uint64_t at = 0;
    Program program;
    program.devices = 3;
    for (int i = 0; i < 12; ++i) {
      const bool exchanges = stream.below(at++, 2) == 0;
      const auto device = static_cast<int>(stream.below(at++, 3));
      const int group = exchanges ? static_cast<int>(stream.below(at++, 4)) : -1;
      add(program, exchanges ? Kind::kAllGather : Kind::kForward, device, group, 0, i);
    }
    const auto times = simulate(program);
    if (times.ok()) {
      continue;
    }
    ++found;
    const std::string& message = times.error().message;
    std::vector<int> circle;
    for (size_t place = message.find('#'); place != std::string::npos; place = message.find('#', place + 1)) {
      circle.push_back(std::stoi(message.substr(place + 1)));
    }
    ASSERT_GE(circle.size(), 2U) << "seed " << seed << ": " << message;
    EXPECT_EQ(circle.front(), circle.back()) << "seed " << seed << ": " << message;
    for (size_t i = 0; i + 1 < circle.size(); ++i) {
      const Instruction& one = program.instructions[static_cast<size_t>(circle[i])];
      const Instruction& next = program.instructions[static_cast<size_t>(circle[i + 1])];
      const bool earlier = one.device == next.device && next.id.index < one.id.index;
      EXPECT_TRUE(earlier || (one.group >= 0 && one.group == next.group)) << "seed " << seed << ": " << message;
    }
  }
  EXPECT_GT(found, 50);
}

}  // namespace
}  // namespace xrun::planner
