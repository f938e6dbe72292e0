// The check of the memory plan during execution: sound plans pass it, and each kind of damage is found.
#include "runtime/executor/arena_check.h"

#include <cstring>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/exchanges.h"
#include "runtime/executor/executor.h"
#include "runtime/train/session/session.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"
#include "tests/support/instruction_backend.h"

namespace xrun::runtime {
namespace {

using planner::BufferId;
using planner::Instruction;
using planner::InstructionId;
using planner::Program;
using ::testing::HasSubstr;

// Two buffers of 128 bytes use the same memory in turn: instruction 0 writes the first, 1 reads it, 2 writes the
// second, and 3 reads that one. A third buffer, of 64 bytes after them, is alive all the time.
Program take_turns() {
  Program program;
  program.devices = 1;
  program.threads = {1};
  for (int i = 0; i < 3; ++i) {
    planner::Buffer buffer;
    buffer.id = BufferId(i);
    buffer.bytes = i == 2 ? 64 : 128;
    buffer.offset = i == 2 ? 128 : 0;
    buffer.first_use = i == 1 ? 2 : 0;
    buffer.last_use = i == 0 ? 1 : 3;
    buffer.name = std::string(1, static_cast<char>('a' + i));
    program.buffers.push_back(buffer);
  }
  for (int i = 0; i < 4; ++i) {
    Instruction one;
    one.id = InstructionId(i);
    (i % 2 == 0 ? one.writes : one.reads).push_back(BufferId(i / 2));
    (i == 0 ? one.writes : one.reads).push_back(BufferId(2));
    program.instructions.push_back(std::move(one));
  }
  program.arenas = {{.device = planner::kHost}, {.device = 0, .bytes = 256, .live_max = 192}};
  return program;
}

class Writes final : public testing::InstructionBackend {
 public:
  std::function<void(int32_t)> body = [](int32_t) {};
  Status compute(const Instruction& instruction, ops::Workers&) override {
    body(instruction.id.index);
    return {};
  }
};

// Returns the message of the check for a step. Both executors must give the same message.
std::string verdict(const Program& program, const std::function<void(int32_t, const BoundMemory&)>& body = nullptr) {
  std::string said;
  for (const bool parallel : {false, true}) {
    const auto devices = make_cpu_devices(program.threads);
    auto memory = BoundMemory::map(program, *devices);
    EXPECT_TRUE(memory.ok());
    ArenaCheck check(program, *memory);
    Writes runner;
    if (body) {
      runner.body = [&](int32_t instruction) { body(instruction, *memory); };
    }
    runner.set_devices(*devices, program);
    LocalCommunicator communicator(*devices, exchanges_of(program, *memory));
    auto executor = make_parallel_executor(program, runner, communicator, &check);
    if (!parallel) {
      executor = std::move(make_sequential_executor(program, runner, {}, &check)).value();
    }
    for (int step = 0; step < 2; ++step) {
      const Status status = executor->step();
      const std::string now = status.ok() ? "" : status.error().code + " " + status.error().message;
      EXPECT_TRUE((!parallel && step == 0) || now == said) << now << " after " << said;
      said = now;
    }
  }
  return said;
}

TEST(ArenaCheck, BuffersMayUseTheSameMemoryInTurn) { EXPECT_EQ(verdict(take_turns()), ""); }

TEST(ArenaCheck, AnAccessOutsideOfTheLiveRangeIsDetected) {
  Program early = take_turns();
  early.buffers[1].first_use = 3;
  EXPECT_THAT(verdict(early), HasSubstr("instruction 2 on device 0 touches buffer 1 (b), which lives from 3 to 3"));
  Program late = take_turns();
  late.buffers[0].last_use = 0;
  EXPECT_THAT(verdict(late), HasSubstr("instruction 1 on device 0 touches buffer 0 (a), which lives from 0 to 0"));
}

TEST(ArenaCheck, OverlappingLiveBuffersAreDetected) {
  Program program = take_turns();
  program.buffers[2].offset = 64;
  EXPECT_THAT(verdict(program), HasSubstr("takes the bytes of buffer 0 (a), which is still in use, for buffer 2 (c)"));
  Program longer = take_turns();  // the first buffer is read again while the second is alive
  longer.buffers[0].last_use = 3;
  longer.instructions[3].reads.push_back(BufferId(0));
  EXPECT_THAT(verdict(longer), HasSubstr("takes the bytes of buffer 0 (a), which is still in use, for buffer 1 (b)"));
}

TEST(ArenaCheck, AReadBeforeTheFirstWriteIsDetected) {
  Program program = take_turns();
  std::swap(program.instructions[2].writes, program.instructions[2].reads);
  EXPECT_THAT(verdict(program), HasSubstr("XG0626"));
}

TEST(ArenaCheck, AWriteOutsideOfAllLiveBuffersIsDetected) {
  const auto at = [](int32_t when, Bytes where) {
    return [=](int32_t instruction, const BoundMemory& memory) {
      if (instruction == when) {
        memory.arena(0).fill(where, 1, std::byte{1});
      }
    };
  };
  EXPECT_THAT(verdict(take_turns(), at(1, 200)), HasSubstr("byte 200 of device 0, which no buffer has"));
  Program apart = take_turns();
  apart.buffers[1].offset = 192;
  apart.arenas[1].bytes = 320;
  EXPECT_THAT(
      verdict(apart, at(1, 192 + 70)),
      HasSubstr("before instruction 2 on device 0 begins with buffer 1 (b), something has written to its byte 70"));
  EXPECT_THAT(verdict(apart, at(2, 5)), HasSubstr("byte 5 of device 0, which no buffer has"));
  EXPECT_EQ(verdict(take_turns(), at(2, 5)), "");
}

TEST(ArenaCheck, EverySmallPlanKeepsToItsMemoryPlan) {
  using testing::PlanChoice;
  testing::ModelOptions options{.layers = 4, .classes = 333, .head = true, .skips = true, .dropout = 0.2};
  options.clip = {.kind = ClipSpec::kNorm, .limit = 1, .heads = true};
  const testing::Prepared prepared = testing::prepare_for(testing::make_module(options));
  for (const bool training : {true, false}) {
    for (const bool deterministic : {true, false}) {
      for (PlanChoice choice : std::vector<PlanChoice>{
               {},
               {.threads = 3, .micro_batches = 4, .recompute = true},
               {.devices = 2, .threads = 4, .stages = 2, .micro_batches = 4, .shards = 2},
               {.devices = 2, .threads = 2, .replicas = 2, .micro_batches = 4, .pipeline = PipelineKind::kOneFOneB},
               {.devices = 4, .threads = 4, .stages = 4, .micro_batches = 6, .recompute = true, .shards = 3},
               {.devices = 4, .threads = 5, .stages = 2, .replicas = 2, .micro_batches = 12, .shards = 7},
               {.devices = 3, .threads = 3, .stages = 3, .micro_batches = 6, .shards = 4, .overlap = false}}) {
        choice.deterministic = deterministic;
        if (!testing::is_legal(prepared.module, choice)) {
          continue;
        }
        const auto program = testing::make_program(prepared, choice, training);
        ASSERT_TRUE(program.ok()) << choice.text() << ": " << program.error().message;
        const auto devices = make_cpu_devices(program->threads);
        const Module& module = training ? prepared.module : prepared.inference;
        auto session = Session::create(module, *program, *devices, {.isa = prepared.isa, .check_memory = true});
        ASSERT_TRUE(session.ok()) << session.error().message;
        (*session)->state().initialise(1);
        ASSERT_TRUE((*session)->weights_changed().ok());
        testing::SyntheticRows rows(module.graph, options, 100);
        ASSERT_TRUE(rows.start(0, (*session)->ring()).ok());
        for (int step = 0; step < 2; ++step) {
          ASSERT_TRUE(rows.wait(step).ok());
          const int slot = step % static_cast<int>((*session)->ring().size());
          const Status status = (*session)->step(step, 0.1, slot);
          ASSERT_TRUE(status.ok()) << choice.text() << (training ? "" : ", inference") << ": "
                                   << status.error().message;
        }
      }
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
