// Programs for GPUs: inputs reach them by planned copies, computations read only the memory of their device, and one
// call of a kernel spans all row blocks of a micro-batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "planner/program/buffer_sizes.h"
#include "planner/verify/verify_program.h"
#include "tests/planner/verify/concrete_run.h"
#include "tests/planner/verify/mutants.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

using ::testing::HasSubstr;

struct Pair {
  std::string text;
  Module module;
  Program cpus;
  Program gpus;
};

// Draws a model and a layout, and emits the same decision for CPUs and for GPUs.
Pair random_pair(uint64_t seed, bool training) {
  std::mt19937_64 random(seed);
  ModelOptions model = random_model(random);
  model.input = model.width = 8;
  model.batch = std::min<int64_t>(model.batch, 32);
  model.classes = 10 + static_cast<int64_t>(random() % 300);
  Layout layout = random_layout(random, model.batch / model.norm_rows);
  layout.head_rows_all = random() % 2 == 0;
  model.tied = layout.chunks == 1 && random() % 3 == 0 ? 1 : 0;  // stages of a device may not share a weight
  Module module = make_module(model);
  if (model.head && random() % 3 == 0) {
    module.train.class_weights.kind = ClassWeightsSpec::kInverseFrequency;
    module.train.class_input = "label";
  }
  if (random() % 3 == 0) {
    module.train.clip = {ClipSpec::kNorm, 1.0, random() % 2 == 0};
  }
  Pair pair{.text = "seed " + std::to_string(seed) + ": " + to_text(layout),
            .module = training ? prepare_training(module) : prepare_inference(module),
            .cpus = {},
            .gpus = {}};
  pair.cpus = emit_layout(pair.module, layout, training).value();
  layout.gpus = true;
  pair.gpus = emit_layout(pair.module, layout, training).value();
  return pair;
}

bool is_input(const Program& program, const Operand& operand) { return program.buffer(operand.buffer).device == kHost; }

TEST(GpuPrograms, ComputeWhatThoseOfCpusCompute) {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const Pair pair = random_pair(seed, seed % 4 != 0);
    SCOPED_TRACE(pair.text);
    const Status sound = verify_program(pair.gpus, pair.module);
    ASSERT_TRUE(sound.ok()) << sound.error().message << "\n" << print(pair.gpus, pair.module.graph);
    ASSERT_EQ(ConcreteRun(pair.gpus, 1).run(), ConcreteRun(pair.cpus, 2).run());
  }
}

TEST(GpuPrograms, ReadTheHostOnlyByCopies) {
  int copied = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const Pair pair = random_pair(seed, seed % 4 != 0);
    SCOPED_TRACE(pair.text);
    std::set<std::tuple<int, int32_t, Bytes, int>> known;  // (device, buffer, offset, head)
    for (const Instruction& one : pair.gpus.instructions) {
      for (const Operand& operand : one.operands) {
        if (!is_input(pair.gpus, operand)) {
          continue;
        }
        EXPECT_EQ(one.kind, Kind::kCopy);
        const bool fresh = known.insert({one.device, operand.buffer.index, operand.offset, one.head}).second;
        EXPECT_TRUE(fresh) << "the stage or the head on device " << one.device << " copies rows twice";
        ++copied;
      }
    }
    EXPECT_FALSE(known.empty()) << "every model reads an input";
  }
  EXPECT_GT(copied, 300);
}

// A layer of 64 units on 4 row blocks of 8 rows has a local value of 4 x 8 x 64 f32, whose row blocks are contiguous.
TEST(GpuPrograms, ValuesThatArePassedOnHaveContiguousRowBlocks) {
  const Module module = prepare_inference(make_module({.layers = 1, .norm = false, .batch = 32}));
  const auto program = emit_layout(module, {.gpus = true}, false);
  ASSERT_TRUE(program.ok());
  ASSERT_EQ(program->instructions.size(), 2U);
  EXPECT_EQ(program->instructions[0].kind, Kind::kCopy);
  const Instruction& pass = program->instructions[1];
  const Bytes block = 8 * 64 * 4;
  Bytes last = -1;
  int locals = 0;
  for (const Operand& operand : pass.operands) {
    if (operand.role == Role::kOutput && program->buffer(operand.buffer).purpose == Purpose::kScratch) {
      EXPECT_EQ(operand.by, By::kBlock);
      EXPECT_EQ(operand.bytes, operand.step);
      EXPECT_NE(operand.offset, last) << "a node does not write where it reads";
      last = operand.offset;
      locals += operand.bytes == block ? 1 : 0;
    }
  }
  EXPECT_GE(locals, 2) << "of linear and relu";
  const Operand& scratch = pass.operands.back();
  ASSERT_EQ(scratch.role, Role::kScratch);
  EXPECT_EQ(scratch.offset, 2 * 4 * block) << "two values are alive at a time";
  EXPECT_EQ(scratch.bytes, 256) << "the facts give kernels 256 bytes";
}

// The verifier finds damage of any place of such a program (tests/planner/verify/mutants_test.cpp); these are examples
// with their messages.
TEST(GpuPrograms, WithHostMemoryAsAnOperandAreRefused) {
  Case made = make_case({.gpus = true});
  ASSERT_EQ(complaint(made), "");
  const Operand from = operand(find(made.program, Kind::kCopy), Role::kFrom);
  const Buffer& host = made.program.buffer(from.buffer);
  for (Instruction& one : made.program.instructions) {
    for (Operand& each : one.operands) {
      const Buffer& buffer = made.program.buffer(each.buffer);
      if (one.kind == Kind::kForward && each.role == Role::kInput && buffer.value == host.value) {
        each.buffer = from.buffer;
      }
    }
  }
  derive_anew(made.program);
  EXPECT_THAT(complaint(made), HasSubstr("touches buffer"));
  made.program.gpu.clear();  // the check does not refuse it on CPUs
  EXPECT_THAT(complaint(made), ::testing::Not(HasSubstr("touches buffer")));
}

TEST(GpuPrograms, WithoutACopyAreRefused) {
  const Case made = make_case({.gpus = true});
  int copies = 0;
  for (size_t i = 0; i < made.program.instructions.size(); ++i) {
    if (made.program.instructions[i].kind == Kind::kCopy) {
      Case damaged = made;
      damaged.program.instructions.erase(damaged.program.instructions.begin() + static_cast<ptrdiff_t>(i));
      derive_anew(damaged.program);
      EXPECT_NE(complaint(damaged), "") << "without instruction " << i;
      ++copies;
    }
  }
  EXPECT_GE(copies, 4) << "two replicas of two micro-batches, and the labels of heads";
}

TEST(GpuPrograms, WithLocalValuesOfOneRowBlockAreRefused) {
  Case made = make_case({.gpus = true});
  for (Instruction& one : made.program.instructions) {
    for (Operand& each : one.operands) {
      const bool local = made.program.buffer(each.buffer).purpose == Purpose::kScratch && each.role == Role::kOutput;
      each.step = local ? 0 : each.step;
    }
  }
  EXPECT_THAT(complaint(made), HasSubstr("outside of the slices"));
}

}  // namespace
}  // namespace xrun::planner::testing
