#include "planner/durations.h"

#include <gtest/gtest.h>

#include "tests/planner/decisions.h"

namespace xrun::planner::testing {
namespace {

struct Made {
  Module module;
  KernelFacts facts;
  Machine machine;
  Program program;
};

// One stage on one device: a forward pass, a backward pass and an update, whose times the facts decide.
Made make(const KernelFacts& measured, int threads, PrecisionMode precision = PrecisionMode::kF32) {
  Made made{prepare_training(make_module({.layers = 1, .precision = precision})), {}, {}, {}};
  made.facts = make_facts(made.module);
  made.facts.bytes_per_second = 1e9;
  made.facts.measured = measured.measured;
  for (KernelFact& fact : made.facts.nodes) {
    fact.prepare.assign(fact.prepared.size(), 0.25);
  }
  made.machine = make_test_machine(1, threads);
  made.program = emit({made.module, made.facts, made.machine, make_decision(made.module, {})}).value();
  predict_durations(made.program, CostModel(made.facts, made.machine));
  return made;
}

const Instruction& only(const Made& made, Kind kind) {
  const auto one = std::ranges::find(made.program.instructions, kind, &Instruction::kind);
  XRUN_CHECK(one != made.program.instructions.end(), "an instruction is absent");
  return *one;
}

TEST(Durations, OneThreadHandsNothingOver) {
  const Made alone = make({}, 1);
  EXPECT_DOUBLE_EQ(only(alone, Kind::kForward).predicted, 1e-3);
  const Made two = make({}, 2);
  EXPECT_DOUBLE_EQ(only(two, Kind::kForward).predicted, 1e-3 + 5e-6);
}

TEST(Durations, ABackwardPassZeroesTheGradientsThatItIsTheFirstToAddTo) {
  const Made made = make({}, 1);
  Bytes zeroed = 0;
  for (const Operand& operand : only(made, Kind::kBackward).operands) {
    zeroed += operand.role == Role::kZeroed ? operand.bytes : 0;
  }
  ASSERT_GT(zeroed, 0);
  EXPECT_DOUBLE_EQ(only(made, Kind::kBackward).predicted, 2e-3 + static_cast<double>(zeroed) / 1e9);
}

TEST(Durations, AnUpdatePreparesWeightsInTheTimeThatWasMeasured) {
  const Made made = make({.measured = true}, 1, PrecisionMode::kMixedBf16);
  int forms = 0;
  Bytes bytes = 0;
  const Instruction& update = only(made, Kind::kUpdate);
  for (const Operand& operand : update.operands) {
    forms += operand.role == Role::kPrepared && operand.node.valid() ? 1 : 0;
  }
  std::set<BufferId> buffers(update.reads.begin(), update.reads.end());
  buffers.insert(update.writes.begin(), update.writes.end());
  for (const BufferId id : buffers) {
    const Buffer& buffer = made.program.buffer(id);
    bytes += buffer.purpose == Purpose::kPrepared || buffer.purpose == Purpose::kScratch ? 0 : buffer.bytes;
  }
  ASSERT_EQ(forms, 3) << "three dense layers";
  EXPECT_DOUBLE_EQ(update.predicted, 3 * 0.25 + static_cast<double>(bytes) / 1e9);
}

TEST(Durations, SyntheticSamplesAreDrawnByTheLoader) {
  Made made = make({}, 1);
  const CostModel cost(made.facts, made.machine);
  EXPECT_EQ(cost.loader(made.module), 0);
  made.module.data.sources.push_back(source("train", "synthetic",
                                            {{"shape", std::vector<int64_t>{100}},
                                             {"classes", int64_t{10}},
                                             {"samples", int64_t{10}},
                                             {"seed", int64_t{1}},
                                             {"noise", 1.0}}));
  EXPECT_DOUBLE_EQ(cost.loader(made.module), 64 * 100 * 3e-8);
  made.module.data.sources[0].name = "test";
  EXPECT_EQ(cost.loader(made.module), 0) << "only training is predicted";
}

}  // namespace
}  // namespace xrun::planner::testing
