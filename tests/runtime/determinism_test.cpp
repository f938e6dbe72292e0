// One result for every plan (DETERMINISM): the weights after a few steps have the same bits for every legal choice of
// devices, threads, stages, replicas, micro-batches, schedule, recomputation, overlap and head shards.
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "runtime/cpu_device.h"
#include "runtime/session.h"
#include "runtime/train_state.h"
#include "tests/runtime/plan_maker.h"
#include "tests/runtime/small_models.h"

namespace xrun::runtime {
namespace {

using testing::is_legal;
using testing::make_module;
using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::Prepared;
using testing::SyntheticRows;

constexpr int kSteps = 3;

struct Digest {
  std::string weights;
  double loss = 0;
  std::string states;  // running statistics, too
  bool operator==(const Digest&) const = default;
};

// Weights and the last loss after kSteps steps.
Result<Digest> run(const Prepared& prepared, const ModelOptions& options, const PlanChoice& choice,
                   bool sequential = false) {
  XRUN_ASSIGN(const planner::Program program, make_program(prepared, choice));
  const auto devices = make_cpu_devices(program.threads);
  // The memory plan is watched on the way: a buffer that is touched outside of its live range ends the step.
  XRUN_ASSIGN(auto session, Session::create(prepared.module, program, *devices,
                                            {.isa = prepared.isa, .sequential = sequential, .check_memory = true}));
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
  std::vector<float> losses(static_cast<size_t>(program.batch));
  XRUN_TRY(session->read_rows(prepared.module.train.loss, std::as_writable_bytes(std::span(losses))));
  for (const float loss : losses) {
    digest.loss += static_cast<double>(loss);
  }
  for (const StateTensor& tensor : session->state().tensors()) {
    if (tensor.role == StateTensor::Role::kState) {
      std::string bytes(static_cast<size_t>(tensor.rows() * tensor.row_bytes()), '\0');
      session->state().read_rows(tensor, 0, tensor.rows(), reinterpret_cast<std::byte*>(bytes.data()));
      digest.states += bytes;
    }
  }
  return digest;
}

// A model with everything that could depend on the plan: batch norm, dropout, skips across stages, and classes that
// neither shards nor class blocks divide.
ModelOptions hard_model() {
  ModelOptions options;
  options.layers = 4;
  options.classes = 333;  // six class blocks of 64, the last with 13
  options.head = true;
  options.skips = true;
  options.dropout = 0.2;
  options.batch = 48;
  options.norm_rows = 4;  // twelve row blocks
  options.rate = 0.2;
  return options;
}

std::vector<PlanChoice> all_choices(const Module& module) {
  std::vector<PlanChoice> choices;
  for (const int devices : {1, 2, 3, 4}) {
    for (const int threads : {1, 2, 5}) {
      for (const int stages : {1, 2, 3, 4}) {
        for (const int replicas : {1, 2, 4}) {
          for (const int micro_batches : {1, 2, 3, 4, 6, 12}) {
            for (const PipelineKind pipeline : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
              for (const bool recompute : {false, true}) {
                for (const int shards : {1, 2, 3, 4, 7}) {
                  for (const bool overlap : {true, false}) {
                    const PlanChoice choice{.devices = devices,
                                            .threads = std::max(threads, devices),
                                            .stages = stages,
                                            .replicas = replicas,
                                            .micro_batches = micro_batches,
                                            .pipeline = pipeline,
                                            .recompute = recompute,
                                            .shards = shards,
                                            .overlap = overlap};
                    if (is_legal(module, choice)) {
                      choices.push_back(choice);
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return choices;
}

// Choices such that every pair of values of two settings that is legal at all is in one of them.
std::vector<PlanChoice> cover_pairs(std::vector<PlanChoice> choices, size_t at_least, uint32_t seed) {
  std::mt19937 random(seed);
  std::shuffle(choices.begin(), choices.end(), random);
  const auto values = [](const PlanChoice& c) {
    return std::vector<int>{c.devices,           c.threads,       c.stages,
                            c.replicas,          c.micro_batches, c.pipeline == PipelineKind::kGpipe ? 0 : 1,
                            c.recompute ? 1 : 0, c.shards,        c.overlap ? 1 : 0};
  };
  std::set<std::tuple<size_t, int, size_t, int>> seen;
  std::vector<PlanChoice> taken;
  std::vector<PlanChoice> rest;
  for (const PlanChoice& choice : choices) {
    const std::vector<int> v = values(choice);
    bool fresh = false;
    for (size_t a = 0; a < v.size(); ++a) {
      for (size_t b = a + 1; b < v.size(); ++b) {
        fresh = seen.insert({a, v[a], b, v[b]}).second || fresh;
      }
    }
    (fresh ? taken : rest).push_back(choice);
  }
  for (size_t i = 0; i < rest.size() && taken.size() < at_least; ++i) {
    taken.push_back(rest[i]);
  }
  return taken;
}

void expect_one_result(const ModelOptions& options, std::vector<PlanChoice> choices) {
  const Prepared prepared = prepare_for(make_module(options));
  const Result<Digest> expected = run(prepared, options, {}, true);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  ASSERT_TRUE(std::isfinite(expected->loss));
  int wrong = 0;
  for (const PlanChoice& choice : choices) {
    const Result<Digest> got = run(prepared, options, choice);
    ASSERT_TRUE(got.ok()) << choice.text() << ": " << got.error().message;
    EXPECT_EQ(got->weights, expected->weights) << choice.text();
    EXPECT_EQ(got->loss, expected->loss) << choice.text();
    EXPECT_TRUE(got->states == expected->states) << choice.text() << ": running statistics differ";
    wrong += *got == *expected ? 0 : 1;
    ASSERT_LT(wrong, 8) << "and so on";
  }
}

TEST(Determinism, EveryPairOfPlanValuesGivesTheSameBits) {
  const Module module = make_module(hard_model());
  constexpr uint32_t kSeed = 20;
  const std::vector<PlanChoice> choices = cover_pairs(all_choices(module), 220, kSeed);
  RecordProperty("seed", static_cast<int>(kSeed));
  RecordProperty("plans", static_cast<int>(choices.size()));
  ASSERT_GE(choices.size(), 200u);
  expect_one_result(hard_model(), choices);
}

TEST(Determinism, TheWholeProductOfPlansGivesTheSameBits) {
  if (std::getenv("XRUN_ALL_PLANS") == nullptr) {
    GTEST_SKIP() << "every legal plan: set XRUN_ALL_PLANS=1 (make test-plans)";
  }
  expect_one_result(hard_model(), all_choices(make_module(hard_model())));
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
  ModelOptions narrow = hard_model();
  narrow.precision = PrecisionMode::kMixedBf16;
  models.push_back(narrow);
  ModelOptions pictures = hard_model();
  pictures.image = 8;
  pictures.input = 3 * 8 * 8;
  pictures.layers = 1;
  models.push_back(pictures);
  pictures.precision = PrecisionMode::kMixedBf16;
  models.push_back(pictures);
  uint32_t seed = 100;
  for (const ModelOptions& options : models) {
    SCOPED_TRACE(seed);
    std::vector<PlanChoice> choices = cover_pairs(all_choices(make_module(options)), 0, seed++);
    choices.resize(std::min<size_t>(choices.size(), 25));
    expect_one_result(options, choices);
  }
}

TEST(Determinism, WithoutTheFlagResultsStayClose) {
  ModelOptions options = hard_model();
  options.rate = 0.02;
  const Prepared prepared = prepare_for(make_module(options));
  const Result<Digest> expected = run(prepared, options, {}, true);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const PlanChoice& choice : std::vector<PlanChoice>{
           {.deterministic = false},
           {.threads = 4, .deterministic = false},
           {.devices = 3, .threads = 6, .replicas = 3, .micro_batches = 6, .shards = 2, .deterministic = false},
           {.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .deterministic = false}}) {
    const Result<Digest> got = run(prepared, options, choice);
    ASSERT_TRUE(got.ok()) << choice.text() << ": " << got.error().message;
    EXPECT_NEAR(got->loss, expected->loss, 1e-4 * std::abs(expected->loss)) << choice.text();
  }
}

}  // namespace
}  // namespace xrun::runtime
