#include "planner/emit/emit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "planner/verify/verify_program.h"
#include "tests/planner/decisions.h"
#include "tests/support/golden.h"

namespace xrun::planner::testing {
namespace {

int count(const Program& program, Kind kind) {
  return static_cast<int>(std::count_if(program.instructions.begin(), program.instructions.end(),
                                        [&](const auto& one) { return one.kind == kind; }));
}

TEST(Emit, AnyLegalLayoutGivesASoundProgram) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    Module module = make_module(random_model(random));
    if (random() % 3 == 0) {
      module.train.clip = {ClipSpec::kNorm, 1.0, random() % 2 == 0};
    }
    const Layout layout = random_layout(random, module.train.batch / module.train.norm_rows);
    if (random() % 3 == 0) {
      module.train.loss_scale.kind = LossScaleSpec::kDynamic;
    }
    if (random() % 4 == 0) {
      module.train.compress = {.density = 0.1, .on = {}, .per_node = random() % 2 == 0};
    }
    module.schedule.bucket = random() % 2 == 0 ? module.schedule.bucket : 1;
    const Module prepared = prepare_training(module);
    const auto program = emit_layout(prepared, layout, true, layout.devices + static_cast<int>(random() % 3));
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << to_text(layout) << ": " << program.error().message;
    const Status sound = verify_program(*program, prepared);
    ASSERT_TRUE(sound.ok()) << "seed " << seed << ": " << to_text(layout) << ": " << sound.error().message << "\n"
                            << print(*program, prepared.graph);
    const Module forward = prepare_inference(module);
    const auto inference = emit_layout(forward, layout, false);
    ASSERT_TRUE(inference.ok()) << "seed " << seed << ": " << inference.error().message;
    const Status also = verify_program(*inference, forward);
    ASSERT_TRUE(also.ok()) << "seed " << seed << ": " << to_text(layout) << ": " << also.error().message << "\n"
                           << print(*inference, forward.graph);
  }
}

TEST(Emit, OneDeviceWithADenseLossIsForwardBackwardUpdate) {
  const Module module = prepare_training(make_module({.layers = 1}));
  const auto program = emit_layout(module, {});
  ASSERT_TRUE(program.ok());
  ASSERT_EQ(program->instructions.size(), 3u);
  EXPECT_EQ(program->instructions[0].kind, Kind::kForward);
  EXPECT_EQ(program->instructions[1].kind, Kind::kBackward);
  EXPECT_EQ(program->instructions[2].kind, Kind::kUpdate);
  for (const Instruction& one : program->instructions) {
    EXPECT_TRUE(one.deps.empty()) << "the order of the stream is enough";
  }
}

TEST(Emit, AHeadOnOneDeviceNeedsNoOtherDevices) {
  const Module module = prepare_training(make_module({.layers = 1, .classes = 1000, .head = true, .head_bias = true}));
  const auto program = emit_layout(module, {.shards = 3});
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(count(*program, Kind::kHeadForward), 3);
  EXPECT_EQ(count(*program, Kind::kHeadBackward), 3);
  EXPECT_EQ(count(*program, Kind::kReduceStats), 1);
  EXPECT_EQ(count(*program, Kind::kHeadUpdate), 0) << "the pass with h = batch updates at once";
  EXPECT_EQ(count(*program, Kind::kAllGather), 1) << "the features; statistics are joined in place";
  EXPECT_EQ(count(*program, Kind::kReduceScatter), 0) << "all partials are there";
  EXPECT_EQ(count(*program, Kind::kReduceDx), 1);
}

TEST(Emit, AStageGathersItsBatchStatisticsInOneExchangeBeforeItsBackwardPasses) {
  const Module module = prepare_training(make_module({.layers = 6}));
  for (const bool overlap : {true, false}) {
    const auto program =
        emit_layout(module, {.stages = 2, .replicas = 2, .micro_batches = 4, .devices = 4, .overlap = overlap});
    ASSERT_TRUE(program.ok());
    ASSERT_TRUE(verify_program(*program, module).ok());
    for (const Stage& stage : program->stages) {
      std::set<int> groups;
      std::set<ValueId> sent;
      for (const Instruction& one : program->instructions) {
        const bool statistics = one.kind == Kind::kAllGather && one.stage == stage.index &&
                                program->buffer(one.operands[0].buffer).purpose == Purpose::kActivation;
        if (statistics) {
          groups.insert(one.group);
          for (const Operand& operand : one.operands) {
            sent.insert(program->buffer(operand.buffer).value);
          }
        }
        EXPECT_TRUE(one.kind != Kind::kBackward || one.stage != stage.index || groups.size() == 1);
      }
      EXPECT_EQ(groups.size(), 1U) << "stage " << stage.index;
      EXPECT_GE(sent.size(), 4U) << "two statistics of each norm";
    }
  }
}

TEST(Emit, OneFOneBUpdatesTheHeadInASweepAtTheEnd) {
  const Module module = prepare_training(make_module({.layers = 2, .classes = 1000, .head = true}));
  const auto program = emit_layout(
      module, {.stages = 2, .micro_batches = 4, .shards = 2, .devices = 2, .pipeline = PipelineKind::kOneFOneB});
  ASSERT_TRUE(program.ok());
  ASSERT_TRUE(program->heads[0].update_sweep);
  EXPECT_EQ(program->heads[0].rows, 16);
  EXPECT_EQ(count(*program, Kind::kHeadForward), 8);
  EXPECT_EQ(count(*program, Kind::kHeadUpdate), 2);
  for (const Instruction& one : program->instructions) {
    for (const BufferId id : one.writes) {
      EXPECT_TRUE(program->buffer(id).purpose != Purpose::kHeadWeight || one.kind == Kind::kHeadUpdate);
    }
  }
}

TEST(Emit, RowsOfAHeadTakeTheBytesOfTheirFormats) {
  // Sums the bytes of class weights, their bias, their optimizer states and their scales.
  const auto bytes = [](RowFormat weights, RowFormat states, bool training) {
    const Module made = make_module(
        {.layers = 1, .classes = 1000, .head = true, .head_bias = true, .weights = weights, .states = states});
    const Module module = training ? prepare_training(made) : prepare_inference(made);
    const auto program = emit_layout(module, {.shards = 3}, training);
    EXPECT_TRUE(program.ok());
    EXPECT_TRUE(verify_program(*program, module).ok());
    std::vector<Bytes> sums(4);
    for (const Buffer& buffer : program->buffers) {
      const bool bias = buffer.param == program->heads[0].bias;
      sums[0] += buffer.purpose == Purpose::kHeadWeight && !bias ? buffer.bytes : 0;
      sums[1] += buffer.purpose == Purpose::kHeadWeight && bias ? buffer.bytes : 0;
      sums[2] += buffer.purpose == Purpose::kHeadOptimizer && !bias ? buffer.bytes : 0;
      sums[3] += buffer.purpose == Purpose::kHeadScale ? buffer.bytes : 0;
    }
    return sums;
  };
  constexpr Bytes kElements = 1000 * 64;
  EXPECT_EQ(bytes(RowFormat::kF32, RowFormat::kF32, true), (std::vector<Bytes>{4 * kElements, 4000, 4 * kElements, 0}));
  EXPECT_EQ(bytes(RowFormat::kBf16, RowFormat::kF32, true),
            (std::vector<Bytes>{2 * kElements, 4000, 4 * kElements, 0}));
  EXPECT_EQ(bytes(RowFormat::kBf16, RowFormat::kBf16, true),
            (std::vector<Bytes>{2 * kElements, 4000, 2 * kElements, 0}));
  EXPECT_EQ(bytes(RowFormat::kFp8, RowFormat::kBf16, true), (std::vector<Bytes>{kElements, 4000, 2 * kElements, 4000}));
  EXPECT_EQ(bytes(RowFormat::kFp8, RowFormat::kBf16, false), (std::vector<Bytes>{kElements, 4000, 0, 4000}))
      << "of inference";
}

TEST(Emit, OneFOneBHoldsFewerActivationsThanGPipe) {
  const Module module = prepare_training(make_module({.layers = 8, .width = 512, .norm = false, .batch = 512}));
  Layout layout{.stages = 4, .micro_batches = 16, .devices = 4};
  const auto gpipe = emit_layout(module, layout);
  layout.pipeline = PipelineKind::kOneFOneB;
  const auto one_f_one_b = emit_layout(module, layout);
  ASSERT_TRUE(gpipe.ok() && one_f_one_b.ok());
  EXPECT_LT(one_f_one_b->arenas[4].live_max, gpipe->arenas[4].live_max);
}

TEST(Emit, RecomputedValuesAreNotSaved) {
  const Module module = prepare_training(make_module({.layers = 4, .norm = false}));
  Decision decision = make_decision(module, {});
  const KernelFacts facts = make_facts(module);
  const Machine machine = make_test_machine(1);
  const auto kept = emit({module, facts, machine, decision});
  decision.stages[0].recomputed = decision.stages[0].forward;
  const auto again = emit({module, facts, machine, decision});
  ASSERT_TRUE(kept.ok() && again.ok());
  EXPECT_FALSE(kept->stages[0].saved.empty());
  EXPECT_TRUE(again->stages[0].saved.empty());
  EXPECT_TRUE(verify_program(*again, module).ok());
}

TEST(Emit, ASkipConnectionOverSeveralStagesIsSentDirectly) {
  Module module = make_module({.layers = 1, .norm = false});
  Graph& graph = module.graph;
  // stem -> layer0 -> out, and the stem's output is read again at the end: a skip over the stage in between.
  graph = {};
  const auto call = [&](const char* op, std::vector<ValueId> inputs, Attrs attrs, const char* path) {
    const NodeId node =
        call_op(graph, *test_registry().find(op), std::move(inputs), std::move(attrs), path, {}).value();
    return graph.node(node).outputs[0];
  };
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 32}});
  const ValueId label = graph.add_input("label", {DType::kI32, {kBatch}});
  const ValueId stem = call("linear", {x}, {{"out", int64_t{32}}}, "stem");
  const ValueId middle = call("relu", {stem}, {}, "middle");
  const ValueId last = call("linear", {middle}, {{"out", int64_t{32}}}, "last");
  const ValueId sum = call("add", {last, stem}, {}, "sum");
  module.train.loss = {{call("softmax_ce", {sum, label}, {}, "loss")}};
  module.train.metrics.clear();
  const Module prepared = prepare_training(module);
  Decision decision = make_decision(prepared, {.stages = 3, .devices = 3});
  const auto program = emit({prepared, make_facts(prepared), make_test_machine(3), decision});
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(verify_program(*program, prepared).ok());
  // Sends: forward 0-1, 1-2, 0-2, and gradients in the opposite directions.
  EXPECT_EQ(count(*program, Kind::kSend), 6);
}

TEST(Emit, ABatchThatDoesNotDivideIntoMicroBatchesIsRejected) {
  const Module module = prepare_training(make_module({.layers = 1, .batch = 24}));
  Decision decision = make_decision(module, {});
  decision.micro_batches = 2;
  const auto program = emit({module, make_facts(module), make_test_machine(1), decision});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, "XG0605");
}

TEST(Emit, AScheduleThatWouldDeadlockIsRejected) {
  const Module module = prepare_training(make_module({.layers = 1}));
  Decision decision = make_decision(module, {.stages = 2, .devices = 2});
  std::reverse(decision.schedule.orders[0].begin(), decision.schedule.orders[0].end());
  const auto program = emit({module, make_facts(module), make_test_machine(2), decision});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, "XG0623");
}

TEST(Emit, TextOfProgramsIsStable) {
  const Module module = prepare_training(make_module({.layers = 1, .classes = 300, .head = true}));
  const auto program = emit_layout(module, {.stages = 2, .micro_batches = 2, .shards = 2, .devices = 2});
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(test::matches_golden(print(*program, module.graph), "program/two_stages.txt"));
  const Module small = prepare_training(make_module({.layers = 1, .norm = false}));
  const auto one_device = emit_layout(small, {});
  ASSERT_TRUE(one_device.ok());
  EXPECT_TRUE(test::matches_golden(print(*one_device, small.graph), "program/one_device.txt"));
}

}  // namespace
}  // namespace xrun::planner::testing
