// One result for every plan (docs/internals/determinism.md): the weights after a few steps have the same bits for every
// legal choice of devices, threads, stages, replicas, micro-batches, schedule, recomputation, overlap and head shards,
// in f32, bf16 and f16; each precision has bits of its own.
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session/session.h"
#include "runtime/train/state/train_state.h"
#include "tests/runtime/runs/plan_product.h"
#include "tests/support/guarded_device.h"

namespace xrun::runtime {
namespace {

using testing::all_cases;
using testing::all_choices;
using testing::Case;
using testing::choices_in;
using testing::cover_pairs;
using testing::hard_model;
using testing::make_module;
using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::Prepared;
using testing::SyntheticRows;

constexpr int kSteps = 3;
constexpr PrecisionMode kPrecisions[] = {PrecisionMode::kF32, PrecisionMode::kMixedBf16, PrecisionMode::kMixedF16};

struct Digest {
  std::string weights;
  double loss = 0;
  std::string states;  // bytes of the running statistics and the optimizer states
  LossScale scale;
  bool operator==(const Digest&) const = default;
};

// How a plan runs: by the sequential executor, on CPU devices, or on devices whose memory only their tasks can touch.
enum class On { kOracle, kCpu, kGuarded };

// Returns the weights and the last loss after kSteps steps.
Result<Digest> run(const Prepared& prepared, const ModelOptions& options, const PlanChoice& choice, On on = On::kCpu) {
  XRUN_ASSIGN(const planner::Program program, make_program(prepared, choice));
  std::unique_ptr<DeviceSet> devices = make_cpu_devices(program.threads);
  if (on == On::kGuarded) {
    devices = std::make_unique<testing::GuardedDeviceSet>(program.threads, static_cast<uint32_t>(choice.text().size()),
                                                          choice.own_memory);
  }
  const bool sequential = on == On::kOracle;
  // The memory plan is checked during the run, except on devices that order: if a buffer is touched outside its live
  // range, the step fails.
  XRUN_ASSIGN(auto session,
              Session::create(prepared.module, program, *devices,
                              {.isa = prepared.isa, .sequential = sequential, .check_memory = on != On::kGuarded}));
  session->state().initialise(prepared.module.train.seed);
  XRUN_TRY(session->weights_changed());
  SyntheticRows rows(prepared.module.graph, options, 1000);
  XRUN_TRY(rows.start(0, session->ring()));
  for (int step = 0; step < kSteps; ++step) {
    XRUN_TRY(rows.wait(step));
    XRUN_TRY(session->step(step, options.rate, step % static_cast<int>(session->ring().size())));
  }
  Digest digest;
  digest.weights = session->state().weights_digest();
  digest.scale = session->state().loss_scale();
  std::vector<float> losses(static_cast<size_t>(program.batch));
  XRUN_TRY(session->read_rows(prepared.module.train.loss[0].rows, std::as_writable_bytes(std::span(losses))));
  for (const float loss : losses) {
    digest.loss += static_cast<double>(loss);
  }
  for (const StateTensor& tensor : session->state().tensors()) {
    if (tensor.role == StateTensor::Role::kState || tensor.role == StateTensor::Role::kOptimizer) {
      std::string bytes(static_cast<size_t>(tensor.rows() * tensor.row_bytes()), '\0');
      session->state().read_rows(tensor, 0, tensor.rows(), reinterpret_cast<std::byte*>(bytes.data()));
      digest.states += bytes;
    }
  }
  return digest;
}

// Returns the result of the sequential executor with one thread, which every plan must equal.
Result<Digest> reference(const Prepared& prepared, const ModelOptions& options) {
  return run(prepared, options, {}, On::kOracle);
}

void expect_one_result(const ModelOptions& options, const std::vector<PlanChoice>& choices, On on = On::kCpu) {
  const Prepared prepared = prepare_for(make_module(options));
  const Result<Digest> expected = reference(prepared, options);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  ASSERT_TRUE(std::isfinite(expected->loss));
  int wrong = 0;
  for (const PlanChoice& choice : choices) {
    const Result<Digest> got = run(prepared, options, choice, on);
    ASSERT_TRUE(got.ok()) << choice.text() << ": " << got.error().message;
    EXPECT_EQ(got->weights, expected->weights) << choice.text();
    EXPECT_EQ(got->loss, expected->loss) << choice.text();
    EXPECT_TRUE(got->scale == expected->scale) << choice.text() << ": other steps were skipped";
    EXPECT_TRUE(got->states == expected->states)
        << choice.text() << ": running statistics or states of the optimizer differ";
    wrong += *got == *expected ? 0 : 1;
    ASSERT_LT(wrong, 8) << "and so on";
  }
}

TEST(Determinism, EveryPairOfPlanValuesGivesTheSameBits) {
  constexpr uint32_t kSeed = 20;
  const std::vector<PrecisionMode> precisions(std::begin(kPrecisions), std::end(kPrecisions));
  const std::vector<Case> cases = cover_pairs(all_cases(hard_model(), precisions), 450, kSeed);
  RecordProperty("seed", static_cast<int>(kSeed));
  RecordProperty("plans", static_cast<int>(cases.size()));
  for (const PrecisionMode precision : precisions) {
    SCOPED_TRACE(static_cast<int>(precision));
    const std::vector<PlanChoice> choices = choices_in(precision, cases);
    ASSERT_GE(choices.size(), 100u);  // at least 300 in the three precisions together
    expect_one_result(hard_model(precision), choices);
  }
}

TEST(Determinism, ActiveClassesAreTheSameForEveryPlan) {
  constexpr uint32_t kSeed = 21;
  RecordProperty("seed", static_cast<int>(kSeed));
  for (const PrecisionMode precision : kPrecisions) {
    ModelOptions options = hard_model(precision);
    options.classes = 1500;  // six class blocks of 256
    options.active = {.kind = ActiveSpec::kSample, .amount = 0.5};
    const std::vector<Case> cases = cover_pairs(all_cases(options, {precision}), 0, kSeed);
    expect_one_result(options, choices_in(precision, cases));
  }
}

// Rows are rounded with random numbers that depend only on the step and the class, so every plan must give equal bits.
TEST(Determinism, ClassRowsInNarrowFormatsHaveTheSameBitsForEveryPlan) {
  const std::vector<PlanChoice> choices{
      {.shards = 4},
      {.threads = 3, .micro_batches = 3, .shards = 2, .kept_blocks = 2},
      {.devices = 2, .threads = 2, .micro_batches = 2, .shards = 3},
      {.devices = 2, .threads = 3, .stages = 2, .micro_batches = 4, .pipeline = PipelineKind::kOneFOneB, .shards = 2},
      {.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 5, .overlap = false},
      {.devices = 3,
       .threads = 5,
       .replicas = 2,
       .micro_batches = 12,
       .pipeline = PipelineKind::kOneFOneB,
       .shards = 3},
  };
  std::set<std::string> weights;
  for (const auto& [format, states] : std::vector<std::pair<RowFormat, RowFormat>>{
           {RowFormat::kF32, RowFormat::kF32},
           {RowFormat::kF32, RowFormat::kBf16},
           {RowFormat::kBf16, RowFormat::kF32},
           {RowFormat::kBf16, RowFormat::kBf16},
           {RowFormat::kFp8, RowFormat::kF32},
           {RowFormat::kFp8, RowFormat::kBf16},
       }) {
    SCOPED_TRACE(std::string(name_of(format)) + ", states " + std::string(name_of(states)));
    ModelOptions options{.layers = 2, .classes = 333, .head = true, .norm = false};
    options.cosine = states == RowFormat::kBf16;
    options.clip = format == RowFormat::kBf16 ? ClipSpec{ClipSpec::kNorm, 0.5, true} : ClipSpec{};
    options.weights = format;
    options.states = states;
    expect_one_result(options, choices);
    const Result<Digest> digest = reference(prepare_for(make_module(options)), options);
    ASSERT_TRUE(digest.ok()) << digest.error().message;
    weights.insert(digest->weights);
  }
  EXPECT_EQ(weights.size(), 6u) << "a format was not kept";
}

TEST(Determinism, EachPrecisionHasBitsOfItsOwn) {
  std::set<std::string> weights;
  for (const PrecisionMode precision : kPrecisions) {
    const ModelOptions options = hard_model(precision);
    const Result<Digest> digest = reference(prepare_for(make_module(options)), options);
    ASSERT_TRUE(digest.ok()) << digest.error().message;
    weights.insert(digest->weights);
  }
  EXPECT_EQ(weights.size(), 3u) << "a narrow precision was computed in f32";
}

void expect_one_result_of_the_product(PrecisionMode precision) {
  if (std::getenv("XRUN_ALL_PLANS") == nullptr) {
    GTEST_SKIP() << "every legal plan: set XRUN_ALL_PLANS=1 (make test-plans)";
  }
  const ModelOptions options = hard_model(precision);
  const std::vector<PlanChoice> choices = all_choices(make_module(options));
  ::testing::Test::RecordProperty("plans", static_cast<int>(choices.size()));
  expect_one_result(options, choices);
}

TEST(Determinism, TheWholeProductOfPlansGivesTheSameBitsInF32) {
  expect_one_result_of_the_product(PrecisionMode::kF32);
}

TEST(Determinism, TheWholeProductOfPlansGivesTheSameBitsInBf16) {
  expect_one_result_of_the_product(PrecisionMode::kMixedBf16);
}

TEST(Determinism, TheWholeProductOfPlansGivesTheSameBitsInF16) {
  expect_one_result_of_the_product(PrecisionMode::kMixedF16);
}

// Returns the model with the largest first scale of the loss with which some of the steps, but not all, are skipped.
ModelOptions with_skipped_steps(ModelOptions options) {
  options.precision = PrecisionMode::kMixedF16;
  for (int power = 32; power > 0; --power) {
    options.loss_scale = {.kind = LossScaleSpec::kDynamic, .first = std::exp2(power)};
    const Result<Digest> digest = reference(prepare_for(make_module(options)), options);
    EXPECT_TRUE(digest.ok()) << digest.error().message;
    if (digest->scale.skipped_steps < kSteps) {
      EXPECT_GT(digest->scale.skipped_steps, 0);
      return options;
    }
  }
  ADD_FAILURE() << "no scale is small enough";
  return options;
}

TEST(Determinism, EveryPlanSkipsTheSameStepsInF16) {
  uint32_t seed = 40;
  std::vector<ModelOptions> models{hard_model(), hard_model(), hard_model()};
  models[0].clip = {.kind = ClipSpec::kNorm, .limit = 0.3, .heads = true};
  models[1].optimizer = "adamw";
  models[1].arguments = {{"weight_decay", 0.02}};
  models[1].rate = 0.01;
  models[2].head = false;
  models[2].classes = 10;
  for (const ModelOptions& model : models) {
    SCOPED_TRACE(seed);
    const ModelOptions options = with_skipped_steps(model);
    const std::vector<Case> cases = cover_pairs(all_cases(options, {options.precision}), 0, seed++);
    std::vector<PlanChoice> choices = choices_in(options.precision, cases);
    choices.resize(std::min<size_t>(choices.size(), 25));
    expect_one_result(options, choices);
  }
}

// Code outside the tasks of a device can access its memory only by copies; the guarded devices check this. Plans of one
// thread are left out, since the sequential executor runs them on the calling thread. Work of these devices ends late,
// so not even XRUN_ALL_PLANS runs all plans.
TEST(Determinism, DevicesWithMemoryOfTheirOwnGiveTheSameBits) {
  const bool all = std::getenv("XRUN_ALL_PLANS") != nullptr;
  const std::vector<PrecisionMode> precisions(std::begin(kPrecisions), std::end(kPrecisions));
  std::vector<Case> cases = all_cases(hard_model(), precisions);
  std::erase_if(cases, [](const Case& one) { return one.choice.devices == 1 && one.choice.threads == 1; });
  cases = cover_pairs(std::move(cases), all ? 1500 : 0, 30);
  for (const PrecisionMode precision : precisions) {
    SCOPED_TRACE(static_cast<int>(precision));
    expect_one_result(hard_model(precision), choices_in(precision, cases), On::kGuarded);
  }
}

// Programs as for GPUs: inputs are copied to the devices, no other instruction can read the memory of the host, and
// values that are passed on lie value by value.
TEST(Determinism, DevicesToWhichInputsAreCopiedGiveTheSameBits) {
  const std::vector<PrecisionMode> precisions(std::begin(kPrecisions), std::end(kPrecisions));
  std::vector<Case> cases = all_cases(hard_model(), precisions);
  std::erase_if(cases, [](const Case& one) { return one.choice.threads != one.choice.devices; });
  for (Case& one : cases) {
    one.choice.own_memory = true;
  }
  cases = cover_pairs(std::move(cases), 0, 31);
  for (const PrecisionMode precision : precisions) {
    SCOPED_TRACE(static_cast<int>(precision));
    expect_one_result(hard_model(precision), choices_in(precision, cases), On::kGuarded);
  }
}

TEST(Determinism, OtherModelsGiveTheSameBitsOverAFewPlans) {
  std::vector<ModelOptions> models;
  ModelOptions dense = hard_model();
  dense.head = false;
  dense.classes = 10;
  models.push_back(dense);
  ModelOptions cosine = hard_model();
  cosine.cosine = true;
  cosine.optimizer = "adamw";
  cosine.arguments = {{"weight_decay", 0.02}};
  cosine.rate = 0.01;
  models.push_back(cosine);
  ModelOptions clipped = hard_model();
  clipped.clip = {.kind = ClipSpec::kNorm, .limit = 0.3, .heads = true};
  models.push_back(clipped);
  clipped.clip.heads = false;
  models.push_back(clipped);
  clipped.clip.heads = true;
  ModelOptions pictures = hard_model();
  pictures.image = 8;
  pictures.input = 3 * 8 * 8;
  pictures.layers = 1;
  models.push_back(pictures);
  for (const PrecisionMode precision : {PrecisionMode::kMixedBf16, PrecisionMode::kMixedF16}) {
    pictures.precision = precision;
    models.push_back(pictures);
  }
  for (ModelOptions weighted : {dense, cosine, clipped}) {
    weighted.weighted = true;
    models.push_back(weighted);
  }
  cosine.weighted = true;
  cosine.precision = PrecisionMode::kMixedBf16;
  models.push_back(cosine);
  // Trust ratios need norms of tensors: of several chunks, of one chunk, and of class rows, with and without a clip.
  ModelOptions trusting = hard_model();
  trusting.optimizer = "lars";
  trusting.arguments = {{"trust", 0.02}};
  trusting.width = 272;
  models.push_back(trusting);
  trusting.optimizer = "lamb";
  trusting.arguments = {};
  trusting.rate = 0.01;
  trusting.cosine = true;
  trusting.clip = {.kind = ClipSpec::kNorm, .limit = 0.3, .heads = true};
  trusting.precision = PrecisionMode::kMixedBf16;
  models.push_back(trusting);
  trusting.optimizer = "lars";
  trusting.clip.heads = false;
  trusting.head = trusting.cosine = false;
  trusting.classes = 10;
  models.push_back(trusting);
  trusting.precision = PrecisionMode::kMixedF16;
  models.push_back(trusting);
  uint32_t seed = 100;
  for (const ModelOptions& options : models) {
    SCOPED_TRACE(seed);
    const std::vector<Case> cases = cover_pairs(all_cases(options, {options.precision}), 0, seed++);
    std::vector<PlanChoice> choices = choices_in(options.precision, cases);
    choices.resize(std::min<size_t>(choices.size(), 25));
    expect_one_result(options, choices);
  }
}

// Nodes sum the gradients of features of their own shards before they send them, which changes no bit.
TEST(Determinism, NodesThatSumTheirShardsGiveTheSameBits) {
  ModelOptions options = hard_model();
  options.classes = 1500;  // 24 class blocks
  std::vector<PlanChoice> choices;
  for (const int nodes : {2, 3}) {
    choices.push_back({.devices = 6, .threads = 6, .micro_batches = 3, .shards = 6, .nodes = nodes});
    choices.push_back({.devices = 6,
                       .threads = 6,
                       .replicas = 2,
                       .micro_batches = 4,
                       .shards = 12,
                       .overlap = false,
                       .nodes = nodes});
    choices.push_back({.devices = 7,
                       .threads = 7,
                       .stages = 2,
                       .replicas = 2,
                       .micro_batches = 12,
                       .pipeline = PipelineKind::kOneFOneB,
                       .shards = 7,
                       .nodes = nodes});
  }
  for (const bool cosine : {false, true}) {
    for (const PrecisionMode precision : kPrecisions) {
      options.cosine = cosine;
      options.precision = precision;
      const Prepared prepared = prepare_for(make_module(options));
      for (const PlanChoice& choice : choices) {
        const Result<planner::Program> program = make_program(prepared, choice);
        ASSERT_TRUE(program.ok()) << program.error().message;
        EXPECT_TRUE(std::ranges::any_of(program->instructions, [](const planner::Instruction& one) {
          return one.kind == planner::Kind::kSumDx;
        })) << choice.text();
      }
      expect_one_result(options, choices);
    }
  }
}

// Three row blocks are large enough to be divided into parts, which the workers without a block compute.
TEST(Determinism, MoreWorkersThanRowBlocksGiveTheSameBits) {
  ModelOptions options = hard_model();
  options.image = 16;
  options.input = 3 * 16 * 16;
  options.width = 256;
  options.layers = 2;
  options.norm_rows = 16;
  std::vector<PlanChoice> choices;
  for (const int threads : {1, 2, 3, 5, 16}) {
    for (const int micro_batches : {1, 3}) {
      choices.push_back({.threads = threads, .micro_batches = micro_batches, .recompute = micro_batches > 1});
    }
    choices.push_back({.devices = 2, .threads = 2 * threads, .stages = 2, .micro_batches = 3});
  }
  for (const PrecisionMode precision : kPrecisions) {
    options.precision = precision;
    expect_one_result(options, choices);
  }
}

TEST(Determinism, WithoutTheDeterministicFlagResultsStayClose) {
  ModelOptions options = hard_model();
  options.rate = 0.02;
  const Prepared prepared = prepare_for(make_module(options));
  const Result<Digest> expected = reference(prepared, options);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const PlanChoice& choice : std::vector<PlanChoice>{
           {.deterministic = false},
           {.threads = 4, .deterministic = false},
           {.threads = 4, .micro_batches = 3, .deterministic = false},
           {.devices = 3, .threads = 6, .replicas = 3, .micro_batches = 6, .shards = 2, .deterministic = false},
           {.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .deterministic = false},
           {.devices = 6, .threads = 6, .replicas = 6, .micro_batches = 6, .deterministic = false, .nodes = 2}}) {
    const Result<Digest> got = run(prepared, options, choice);
    ASSERT_TRUE(got.ok()) << choice.text() << ": " << got.error().message;
    EXPECT_NEAR(got->loss, expected->loss, 1e-4 * std::abs(expected->loss)) << choice.text();
  }
}

}  // namespace
}  // namespace xrun::runtime
