// Runs of blocks in exchanges stand for the single blocks that were appended.
#include "planner/program/instruction.h"

#include <gtest/gtest.h>
#include <iostream>
#include <random>

#include "planner/program/links.h"
#include "tests/planner/verify/concrete_run.h"
#include "tests/planner/verify/mutants.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

std::vector<Operand> blocks_of(const std::vector<Operand>& operands) {
  std::vector<Operand> blocks;
  for (const Operand& operand : operands) {
    for (int k = 0; k < operand.count; ++k) {
      Operand block = operand;
      block.index = operand.device(k);
      block.offset = operand.place(k);
      if (operand.count > 1) {
        block.count = 1;
        block.stride = 0;
        block.step = 0;
      }
      blocks.push_back(block);
    }
  }
  return blocks;
}

std::vector<Operand> runs_of(const std::vector<Operand>& blocks) {
  std::vector<Operand> runs;
  for (const Operand& block : blocks) {
    append_block(runs, block);
  }
  return runs;
}

Operand block(Role role, int device, Bytes offset, Bytes bytes = 8) {
  return {.role = role, .buffer = BufferId(0), .index = device, .offset = offset, .bytes = bytes};
}

TEST(AppendBlock, OneBlockForManyDevicesIsOneRun) {
  std::vector<Operand> runs;
  for (const int device : {2, 4, 6, 8}) {
    append_block(runs, block(Role::kSent, device, 64));
    append_block(runs, block(Role::kReceived, device, 8 * device));
  }
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(std::pair(runs[0].count, runs[0].stride), (std::pair<int16_t, int16_t>(4, 2)));
  EXPECT_EQ(runs[0].step, 0);
  EXPECT_EQ(runs[1].count, 4);
  EXPECT_EQ(runs[1].step, 16);
  EXPECT_EQ(runs[1].device(3), 8);
  EXPECT_EQ(runs[1].place(3), 64);
}

TEST(AppendBlock, BlocksThatDoNotContinueARunBeginAnother) {
  const Operand first = block(Role::kSent, 3, 64);
  for (const Operand& next : {block(Role::kSent, 3, 72), block(Role::kSent, 2, 64), block(Role::kSent, 4, 56),
                              block(Role::kSent, 4, 64, 4)}) {
    EXPECT_EQ(runs_of({first, next}).size(), 2U);
  }
  Operand other = block(Role::kSent, 4, 64);
  other.buffer = BufferId(1);
  EXPECT_EQ(runs_of({first, other}).size(), 2U);
  EXPECT_EQ(runs_of({first, block(Role::kSent, 4, 64), block(Role::kSent, 6, 64)}).size(), 2U) << "another stride";
  EXPECT_EQ(runs_of({first, block(Role::kSent, 4, 72), block(Role::kSent, 5, 96)}).size(), 2U) << "another step";
}

TEST(AppendBlock, RunsKeepTheOrderOfTheBlocksOfEachRole) {
  const uint64_t seed = 51;
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 random(seed);
  size_t joined = 0;
  for (int list = 0; list < 2000; ++list) {
    std::vector<Operand> blocks;
    for (int i = 0; i < 12; ++i) {
      const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
      blocks.push_back(block(pick(2) == 0 ? Role::kSent : Role::kReceived, i + pick(2), 8 * pick(2) * i));
    }
    const std::vector<Operand> runs = runs_of(blocks);
    const std::vector<Operand> again = blocks_of(runs);
    for (const Role role : {Role::kSent, Role::kReceived}) {
      const auto of_role = [&](std::vector<Operand> all) {
        std::erase_if(all, [&](const Operand& one) { return one.role != role; });
        return all;
      };
      ASSERT_EQ(of_role(again), of_role(blocks)) << "list " << list;
    }
    joined += blocks.size() - runs.size();
  }
  EXPECT_GT(joined, 2000U);
}

TEST(AppendOthers, ARunWithoutOneDeviceHasTheOtherBlocks) {
  Operand run = block(Role::kReceived, 3, 64);
  run.count = 5;
  run.stride = 2;
  run.step = 8;
  for (int device = 0; device < 14; ++device) {
    std::vector<Operand> wanted = blocks_of({run});
    std::erase_if(wanted, [&](const Operand& one) { return one.index == device; });
    std::vector<Operand> others;
    append_others(others, run, device);
    EXPECT_EQ(blocks_of(others), wanted) << "device " << device;
    EXPECT_LE(others.size(), 2U);
  }
}

// Returns a program with one stage, which gathers pairs of compressed gradients, sums of squares and statistics.
Case make_replicas(int replicas) {
  Module module = make_module({.layers = 2, .classes = 900, .head = true, .batch = 64, .norm_rows = 2});
  module.train.precision = PrecisionMode::kMixedF16;
  module.train.loss_scale.kind = LossScaleSpec::kDynamic;
  module.train.compress = {.density = 0.01};
  Case made{.module = prepare_training(module), .program = {}};
  const Layout layout{.replicas = replicas, .micro_batches = replicas, .shards = 4, .devices = replicas};
  made.program = emit_layout(made.module, layout).value();
  return made;
}

// The memory and time of a plan for many replicas grow with the operands of its exchanges.
TEST(Runs, OperandsOfExchangesGrowAsTheNumberOfReplicasAndNotAsItsSquare) {
  std::map<int, std::pair<double, double>> sizes;  // key: replicas; operands and blocks of exchanges
  for (const int replicas : {8, 32}) {
    const Case made = make_replicas(replicas);
    ASSERT_EQ(complaint(made), "");
    auto& [operands, blocks] = sizes[replicas];
    for (const Instruction& one : made.program.instructions) {
      operands += communicates(one.kind) ? static_cast<double>(one.operands.size()) : 0;
      blocks += communicates(one.kind) ? static_cast<double>(one.blocks()) : 0;
    }
  }
  EXPECT_LT(sizes[32].first, 5 * sizes[8].first) << "4 times the replicas";
  EXPECT_GT(sizes[32].second, 12 * sizes[8].second);
}

TEST(Runs, AProgramOfSingleBlocksIsAcceptedAndComputesTheSame) {
  std::vector<Case> cases{make_replicas(8)};
  for (const CaseOptions& options : {CaseOptions(),
                                     {.overlap = false},
                                     {.bucket = 512, .replicas = 4, .nodes = 2, .devices = 8},
                                     {.compress = true, .per_node = true, .replicas = 4, .nodes = 2, .devices = 8},
                                     {.training = false}}) {
    cases.push_back(make_case(options));
  }
  int64_t fewer = 0;
  for (const Case& made : cases) {
    Case single = made;
    for (Instruction& one : single.program.instructions) {
      one.operands = communicates(one.kind) ? blocks_of(one.operands) : one.operands;
      fewer += one.blocks() - std::ssize(made.program.instruction(one.id).operands);
    }
    derive_anew(single.program);
    ASSERT_EQ(complaint(single), "");
    EXPECT_EQ(ConcreteRun(made.program, 1).run(), ConcreteRun(single.program, 2).run());
    for (size_t i = 0; i < made.program.instructions.size(); ++i) {
      EXPECT_EQ(made.program.instructions[i].deps, single.program.instructions[i].deps) << "instruction " << i;
    }
    Machine machine = make_test_machine(made.program.devices);
    for (int device = 0; device < machine.devices; ++device) {
      machine.device_nodes.push_back(2 * device / machine.devices);
    }
    const auto loads = link_loads(made.program, machine);
    const auto wanted = link_loads(single.program, machine);
    ASSERT_EQ(loads.size(), wanted.size());
    for (const auto& [group, load] : wanted) {
      EXPECT_EQ(loads.at(group).busiest(), load.busiest()) << "group " << group;
    }
  }
  EXPECT_GT(fewer, 1000);
}

}  // namespace
}  // namespace xrun::planner::testing
