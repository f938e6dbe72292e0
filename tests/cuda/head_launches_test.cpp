// Steps of classifier heads on GPUs of the fake driver: losses, class rows and their states are close to those of a
// processor, and have the same bits for every division of the head and every number of head passes.
#include <gtest/gtest.h>

#include "tests/cuda/gpu_run.h"

namespace xrun::cuda {
namespace {

// A head of 250 classes in four class blocks, after one layer.
ModelOptions head_model(bool cosine, PrecisionMode precision) {
  ModelOptions options;
  options.layers = 1;
  options.input = 10;
  options.width = 20;
  options.classes = 250;
  options.head = true;
  options.cosine = cosine;
  options.norm = false;
  options.precision = precision;
  options.batch = 24;
  options.norm_rows = 6;
  return options;
}

double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double wrong = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    wrong += difference * difference;
    size += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return std::sqrt(wrong / size);
}

// Whether a program has an instruction of a kind.
bool has(const planner::Program& program, planner::Kind kind) {
  return std::ranges::count(program.instructions, kind, &planner::Instruction::kind) > 0;
}

// Divisions of a head: among devices and nodes, in one pass with the fused update, and in several passes with an update
// at the end of the step.
std::vector<PlanChoice> choices() {
  return {{},
          {.micro_batches = 2, .kept_blocks = 1},
          {.micro_batches = 4, .pipeline = PipelineKind::kOneFOneB},
          {.devices = 2, .shards = 2, .kept_blocks = 2},
          {.devices = 2, .replicas = 2, .micro_batches = 4, .pipeline = PipelineKind::kOneFOneB, .shards = 2},
          {.devices = 3, .stages = 2, .micro_batches = 2, .shards = 3, .kept_blocks = 1},
          {.devices = 4, .micro_batches = 2, .shards = 4, .nodes = 2}};
}

// Runs three steps. `tensors`: those whose values are compared; `bound`: of the relative error in norm.
void expect_steps_of_processors(const ModelOptions& options, const std::vector<std::string>& tensors, double bound) {
  const Module module = make_module(options);
  RunInputs inputs = inputs_of(options);
  inputs.tensors = tensors;
  const auto want = train_on_processors(module, inputs, 3);
  ASSERT_TRUE(want.ok()) << want.error().message;
  std::string digest;
  uint64_t seed = 3;
  for (const PlanChoice& choice : choices()) {
    SCOPED_TRACE(choice.text());
    const auto got = train_on_gpus(module, inputs, choice, 3, {.capability = 90, .seed = seed}, true);
    ++seed;
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_LE(distance(got->losses, want->losses), bound);
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_LE(distance(got->tensors[i], want->tensors[i]), bound) << tensors[i];
    }
    digest = digest.empty() ? got->digest : digest;
    EXPECT_EQ(got->digest, digest);
  }
}

TEST(HeadLaunches, ThePlansOfTheseTestsHaveAllInstructionsOfHeads) {
  const Prepared prepared = runtime::testing::prepare_for_gpus(make_module(head_model(true, PrecisionMode::kF32)));
  std::vector<planner::Kind> missing{planner::Kind::kHeadForward, planner::Kind::kReduceStats,
                                     planner::Kind::kHeadUpdate,  planner::Kind::kHeadBackward,
                                     planner::Kind::kReduceDx,    planner::Kind::kSumDx};
  for (const PlanChoice& choice : choices()) {
    const auto program = make_program(prepared, choice);
    ASSERT_TRUE(program.ok()) << program.error().message;
    std::erase_if(missing, [&](planner::Kind kind) { return has(*program, kind); });
    EXPECT_EQ(has(*program, planner::Kind::kHeadUpdate), choice.pipeline == PipelineKind::kOneFOneB);
  }
  EXPECT_TRUE(missing.empty()) << planner::name_of(missing.front());
}

TEST(HeadLaunches, BiasedHeadsInF32) {
  expect_steps_of_processors(head_model(false, PrecisionMode::kF32),
                             {"id.weight", "id.weight.velocity", "id.bias", "id.bias.velocity"}, 1e-5);
}

TEST(HeadLaunches, CosineHeadsInBf16) {
  expect_steps_of_processors(head_model(true, PrecisionMode::kMixedBf16), {"id.weight"}, 1e-2);
}

TEST(HeadLaunches, WeightedRowsAndNarrowClassRowsWithAdamw) {
  ModelOptions options = head_model(true, PrecisionMode::kMixedBf16);
  options.optimizer = "adamw";
  options.arguments = {{"weight_decay", 0.02}};
  options.rate = 0.01;
  options.weighted = true;
  options.weights = options.states = RowFormat::kBf16;
  expect_steps_of_processors(options, {"id.weight"}, 2e-2);
}

TEST(HeadLaunches, ClippedHeads) {
  ModelOptions options = head_model(false, PrecisionMode::kF32);
  options.clip = {.kind = ClipSpec::kNorm, .limit = 0.01, .heads = true};
  const Prepared prepared = runtime::testing::prepare_for_gpus(make_module(options));
  const auto program = make_program(prepared, {});
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_TRUE(has(*program, planner::Kind::kHeadNorms) && has(*program, planner::Kind::kHeadUpdate));
  expect_steps_of_processors(options, {"id.weight", "id.bias"}, 1e-5);
}

TEST(HeadLaunches, PredictionsHaveTheLossesOfProcessors) {
  for (const bool cosine : {false, true}) {
    const ModelOptions options = head_model(cosine, PrecisionMode::kF32);
    const auto want = run_on_processors(options, 2, false);
    ASSERT_TRUE(want.ok()) << want.error().message;
    for (const PlanChoice& choice : {PlanChoice{}, PlanChoice{.devices = 2, .shards = 2}}) {
      const auto got = run_on_gpus(options, choice, 2, {.capability = 80, .seed = 2}, false);
      ASSERT_TRUE(got.ok()) << got.error().message;
      EXPECT_LE(distance(got->losses, want->losses), 1e-5);
    }
  }
}

}  // namespace
}  // namespace xrun::cuda
