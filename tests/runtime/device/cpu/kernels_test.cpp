// A plan that was made for other kernels is rejected before anything runs.
#include "runtime/device/cpu/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime {
namespace {

using planner::Purpose;
using ::testing::HasSubstr;

class Kernels : public ::testing::Test {
 protected:
  testing::Prepared prepared_ = testing::prepare_for(testing::make_module({.image = 8}));
  planner::Program program_ = testing::make_program(prepared_, {}).value();

  // Removes the scratch memory of updates from the plan. Returns false if the plan has no such memory.
  bool take_scratch_of_updates() {
    bool found = false;
    for (planner::Instruction& instruction : program_.instructions) {
      if (instruction.kind == planner::Kind::kUpdate) {
        found |= std::erase_if(instruction.operands,
                               [](const auto& one) { return one.role == planner::Role::kScratch; }) > 0;
      }
    }
    return found;
  }

  Result<KernelSet> make() const { return KernelSet::make(prepared_.module.graph, program_, prepared_.isa); }

  void expect_refused(const std::string& words) const {
    const auto made = make();
    ASSERT_FALSE(made.ok()) << words;
    EXPECT_EQ(made.error().code, "XG0625");
    EXPECT_THAT(made.error().message, HasSubstr(words));
    EXPECT_TRUE(made.error().span.valid());
  }
};

TEST_F(Kernels, AreMadeForTheirOwnPlan) {
  const auto made = make();
  EXPECT_TRUE(made.ok()) << made.error().message;
}

TEST_F(Kernels, AreRefusedIfTheyNeedMoreScratchThanPlanned) {
  for (planner::Operand& operand : program_.instructions[0].operands) {
    operand.bytes = operand.role == planner::Role::kScratch ? 0 : operand.bytes;
  }
  expect_refused(" works in ");
}

TEST_F(Kernels, AreRefusedIfPreparedWeightsAreLargerThanPlanned) {
  for (planner::Buffer& buffer : program_.buffers) {
    buffer.bytes = buffer.purpose == Purpose::kPrepared ? 64 : buffer.bytes;
  }
  expect_refused(" prepares its weight in ");
}

// With AVX-512, updates in f32 prepare weights in scratch memory; with AVX2, only updates in bf16 do.
TEST_F(Kernels, AreRefusedIfTheirUpdateHasTooLittleScratch) {
  if (!take_scratch_of_updates()) {
    prepared_ = testing::prepare_for(testing::make_module({.image = 8, .precision = PrecisionMode::kMixedBf16}));
    program_ = testing::make_program(prepared_, {}).value();
    ASSERT_TRUE(take_scratch_of_updates());
  }
  expect_refused(" prepares its weight in ");
}

}  // namespace
}  // namespace xrun::runtime
