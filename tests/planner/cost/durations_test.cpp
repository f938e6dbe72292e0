#include "planner/cost/durations.h"

#include <gtest/gtest.h>

#include "graph/settings/reading_task.h"
#include "tests/planner/decisions.h"

namespace xrun::planner::testing {
namespace {

struct Made {
  Module module;
  KernelFacts facts;
  Machine machine;
  Program program;
};

// Makes a program with one stage on one device: a forward pass, a backward pass and an update. The facts determine
// their times.
Made make(const KernelFacts& measured, int threads, PrecisionMode precision = PrecisionMode::kF32,
          const std::string& optimizer = "sgd", const CompressSpec& compress = {}) {
  Module module = make_module({.layers = 1, .precision = precision, .optimizer = optimizer});
  module.train.compress = compress;
  Made made{prepare_training(std::move(module)), {}, {}, {}};
  made.facts = make_facts(made.module);
  made.facts.bytes_per_second = 1e9;
  made.facts.measured = measured.measured;
  for (KernelFact& fact : made.facts.nodes) {
    fact.prepare.assign(fact.prepared.size(), 0.25);
  }
  made.machine = make_test_machine(1, threads);
  made.program = emit({made.module, made.facts, made.machine, make_decision(made.module, {})}).value();
  predict_durations(made.program, made.module, CostModel(made.facts, made.machine));
  return made;
}

const Instruction& only(const Made& made, Kind kind) {
  const auto one = std::ranges::find(made.program.instructions, kind, &Instruction::kind);
  XRUN_CHECK(one != made.program.instructions.end(), "an instruction is absent");
  return *one;
}

TEST(Durations, OneThreadHasNoCostOfHandingOverTasks) {
  const Made alone = make({}, 1);
  EXPECT_DOUBLE_EQ(only(alone, Kind::kForward).predicted, 1e-3);
  const Made two = make({}, 2);
  EXPECT_DOUBLE_EQ(only(two, Kind::kForward).predicted, 1e-3 + 5e-6);
}

TEST(Durations, ABackwardPassIncludesTheTimeToZeroItsGradients) {
  const Made made = make({}, 1);
  Bytes zeroed = 0;
  for (const Operand& operand : only(made, Kind::kBackward).operands) {
    zeroed += operand.role == Role::kZeroed ? operand.bytes : 0;
  }
  ASSERT_GT(zeroed, 0);
  EXPECT_DOUBLE_EQ(only(made, Kind::kBackward).predicted, 2e-3 + static_cast<double>(zeroed) / 1e9);
}

TEST(Durations, AnUpdateIncludesTheMeasuredTimeToPrepareWeights) {
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

// Returns the bytes of the weights that an update changes and that have a trust ratio.
Bytes bytes_of_matrices(const Made& made) {
  Bytes matrices = 0;
  for (const Operand& operand : only(made, Kind::kUpdate).operands) {
    const bool weight = operand.role == Role::kWeight;
    if (weight && made.module.graph.value(made.module.graph.param(operand.param).value).type.rank() > 1) {
      matrices += operand.bytes;
    }
  }
  return matrices;
}

TEST(Durations, TheTrustRatioOfACompressedGradientReadsOnlyWeights) {
  const CompressSpec compress{.density = 0.01};
  const Made with = make({}, 1, PrecisionMode::kF32, "lars", compress);
  const Made without = make({}, 1, PrecisionMode::kF32, "sgd", compress);
  const Bytes matrices = bytes_of_matrices(with);
  ASSERT_GT(matrices, 0);
  EXPECT_NEAR(only(with, Kind::kUpdate).predicted - only(without, Kind::kUpdate).predicted,
              static_cast<double>(matrices) / 1e9, 1e-12);
}

TEST(Durations, TrustRatiosReadWeightsAndGradientsOnceMore) {
  const auto time_of = [](const Made& made) { return only(made, Kind::kUpdate).predicted; };
  for (const auto& [name, plain, states] : {std::tuple{"lars", "sgd", 0}, {"lamb", "adamw", 2}}) {
    const Made with = make({}, 1, PrecisionMode::kF32, name);
    const Made without = make({}, 1, PrecisionMode::kF32, plain);
    const Bytes matrices = bytes_of_matrices(with);
    ASSERT_GT(matrices, 0);
    const Bytes more = matrices * (2 + states);
    EXPECT_NEAR(time_of(with) - time_of(without), static_cast<double>(more) / 1e9, 1e-12) << name;
  }
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

// Between two steps, the loader's tasks use all workers, so the next step begins after the tasks that are running. The
// rest of the loader's work is done while devices wait, or at the same time as their computation.
TEST(Durations, AStepBeginsAfterTheRunningTasksOfTheLoader) {
  Made made = make({}, 2);
  const auto step = [&](int threads, int cores, int64_t elements, Seconds makespan, Seconds work, int waits = 0) {
    made.machine.threads = threads;
    made.machine.cores = cores;
    made.module.data.sources = {source("train", "synthetic",
                                       {{"shape", std::vector<int64_t>{elements}},
                                        {"classes", int64_t{10}},
                                        {"samples", int64_t{10}},
                                        {"seed", int64_t{1}},
                                        {"noise", 1.0}})};
    return CostModel(made.facts, made.machine).step_with_loader(made.module, makespan, work, waits);
  };
  const Seconds sample = 1000 * 3e-8;
  const Seconds task = kReadingTask + sample;  // a task also completes the sample that it has begun
  ASSERT_GT(64 * sample / 2, task);
  EXPECT_DOUBLE_EQ(step(2, 2, 1000, 5e-3, 6e-3), task + 5e-3) << "the rest fits where devices wait";
  EXPECT_DOUBLE_EQ(step(2, 2, 1000, 5e-3, 6e-3, 3), 2.5 * task + 5e-3) << "tasks begin where devices wait, too";
  EXPECT_DOUBLE_EQ(step(2, 2, 1000, 5e-3, 9e-3), (9e-3 + 64 * sample) / 2) << "all workers are busy all the time";
  EXPECT_DOUBLE_EQ(step(2, 2, 10, 5e-3, 6e-3), 64 * 10 * 3e-8 / 2 + 5e-3) << "less than a task";
  EXPECT_DOUBLE_EQ(step(1, 2, 1000, 5e-3, 5e-3), 5e-3 + 64 * sample) << "one worker has both to do";
}

// Times of head passes in seconds (forward, then backward with the update), measured on one core of AMD Zen 4 with
// AVX-512 by `xrun bench head --threads 1 --batch 256 --kept 0 --cosine` (docs/reference/benchmarks.md, "Figures").
struct MeasuredHead {
  const char* what;
  HeadSweep sweep;
  Seconds forward;
  Seconds backward;
};

TEST(Durations, PredictedTimesOfHeadPassesAreNearMeasurements) {
  const auto all = [](double classes, double blocks, double dim, bool bf16, RowFormat weights = RowFormat::kF32) {
    return HeadSweep{.rows = 256, .classes = classes, .blocks = blocks, .dim = dim, .bf16 = bf16, .weights = weights};
  };
  const auto sampled = [](double classes, double blocks, double dim) {
    return HeadSweep{.rows = 256, .classes = classes, .blocks = blocks, .dim = dim, .apart = true};
  };
  const MeasuredHead measured[] = {
      {"1 000 x 64", all(1000, 16, 64, false), 0.620e-3, 1.393e-3},
      {"1 000 x 256", all(1000, 16, 256, false), 1.810e-3, 4.960e-3},
      {"4 000 x 64", all(4000, 63, 64, false), 2.226e-3, 4.918e-3},
      {"64 000 x 64", all(64'000, 125, 64, false), 29.08e-3, 74.31e-3},
      {"64 000 x 256", all(64'000, 125, 256, false), 90.19e-3, 256.5e-3},
      {"20 000 x 512", all(20'000, 79, 512, false), 54.57e-3, 158.6e-3},
      {"16 000 x 128, bf16", all(16'000, 125, 128, true), 8.310e-3, 20.45e-3},
      {"20 000 x 512, bf16", all(20'000, 79, 512, true), 30.57e-3, 85.63e-3},
      {"200 000 x 64, bf16", all(200'000, 98, 64, true), 57.25e-3, 133.5e-3},
      {"the same, rows in bf16", all(200'000, 98, 64, true, RowFormat::kBf16), 63.13e-3, 166.7e-3},
      {"the same, rows in fp8", all(200'000, 98, 64, true, RowFormat::kFp8), 55.40e-3, 153.1e-3},
      {"10 000 of 1M x 64", sampled(10'256, 62, 64), 5.280e-3, 12.16e-3},
      {"10 000 of 10M x 64", sampled(10'256, 77, 64), 7.299e-3, 15.11e-3},
      {"100 000 of 1M x 64", sampled(100'256, 123, 64), 50.16e-3, 131.6e-3},
  };
  const KernelFacts facts{.flops_per_second_f32 = 1.2e11, .flops_per_second_bf16 = 2e11};
  const Machine machine;
  const CostModel cost(facts, machine);
  for (const MeasuredHead& one : measured) {
    HeadSweep sweep = one.sweep;
    EXPECT_NEAR(cost.head(sweep, 1) / one.forward, 1, 0.25) << one.what << ", forward";
    sweep.updates = true;
    sweep.macs = kHeadFusedMacs;
    EXPECT_NEAR(cost.head(sweep, 1) / one.backward, 1, 0.25) << one.what << ", backward";
  }
  EXPECT_NEAR(cost.selection(10'000, 256) / 0.36e-3, 1, 0.5);
  EXPECT_NEAR(cost.selection(100'000, 256) / 8.1e-3, 1, 0.5);
}

TEST(Durations, TheTimeOfAHeadStepFollowsItsActiveClasses) {
  Module module = prepare_training(make_module({.layers = 1, .classes = 100'000, .head = true, .batch = 64}));
  const KernelFacts facts;
  const Machine machine = make_test_machine(2);
  const CostModel cost(facts, machine);
  const auto times = [&](int64_t active) {
    std::vector<HeadPlan> heads = head_plans(module, {.shards = 2, .devices = 2}, 64);
    heads[0].active = active;
    return head_times(heads, cost, {.batch = 64});
  };
  const HeadTimes all = times(0);
  const HeadTimes tenth = times(10'000);
  const HeadTimes hundredth = times(1'000);
  EXPECT_EQ(all.selection, 0);
  EXPECT_GT(tenth.selection, 0);
  EXPECT_GT(tenth.backward, 0.08 * all.backward);
  EXPECT_LT(tenth.backward, 0.25 * all.backward);
  EXPECT_LT(hundredth.backward, 0.4 * tenth.backward);
  EXPECT_LT(hundredth.selection, tenth.selection);
}

}  // namespace
}  // namespace xrun::planner::testing
