// Trainings on GPUs of the fake driver: a model of models/ has nearly the losses of processors, and all plans have one
// digest. XRUN_ALL_PLANS=1 runs more models, steps and plans (`make test-gpu`).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>

#include "tests/cuda/gpu_run.h"
#include "tests/runtime/runs/model_files.h"
#include "tests/runtime/runs/plan_product.h"

namespace xrun::cuda {
namespace {

using runtime::testing::ModelFile;

bool runs_all() { return std::getenv("XRUN_ALL_PLANS") != nullptr; }

// A loss of each step, the mean over the rows.
std::vector<double> means_of(const std::vector<float>& losses, int64_t batch) {
  std::vector<double> means;
  for (size_t first = 0; first < losses.size(); first += static_cast<size_t>(batch)) {
    double sum = 0;
    for (size_t row = 0; row < static_cast<size_t>(batch); ++row) {
      sum += static_cast<double>(losses[first + row]);
    }
    means.push_back(sum / static_cast<double>(batch));
  }
  return means;
}

// Returns the largest distance of the losses in f32 on processors from `losses`, up to each step: what rounding does to
// the training.
std::vector<double> effect_of_rounding(ModelFile file, const RunInputs& inputs, const std::vector<double>& losses) {
  file.precision = "f32";
  const auto wide = train_on_processors(runtime::testing::load_module(file), inputs, static_cast<int>(losses.size()));
  XRUN_CHECK(wide.ok(), "no training in f32");
  std::vector<double> effect = means_of(wide->losses, file.rows);
  for (size_t step = 0; step < effect.size(); ++step) {
    effect[step] = std::max(std::fabs(effect[step] - losses[step]), step > 0 ? effect[step - 1] : 0.0);
  }
  return effect;
}

// Trains a model on one and on two GPUs and on a processor, and compares the mean losses of all steps. They may differ
// by `tolerance`, relative, and by `roundings` times the effect of rounding.
void expect_losses_of_processors(const ModelFile& file, double rate, int steps, double tolerance,
                                 double roundings = 0) {
  SCOPED_TRACE(file.path + " " + file.precision);
  const Module module = runtime::testing::load_module(file);
  const RunInputs inputs{.rate = rate, .fill = [&](const Graph& graph, const runtime::BatchView& slot, int step) {
                           runtime::testing::fill(graph, file, slot, static_cast<uint64_t>(step));
                         }};
  const auto expected = train_on_processors(module, inputs, steps);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  const std::vector<double> wanted = means_of(expected->losses, file.rows);
  const std::vector<double> effect =
      roundings > 0 ? effect_of_rounding(file, inputs, wanted) : std::vector<double>(wanted.size());
  std::string digest;
  for (const PlanChoice& choice :
       {PlanChoice{.micro_batches = 2}, PlanChoice{.devices = 2, .stages = 2, .micro_batches = 4}}) {
    SCOPED_TRACE(choice.text());
    const auto got = train_on_gpus(module, inputs, choice, steps, {.capability = 90, .seed = 5});
    ASSERT_TRUE(got.ok()) << got.error().message;
    const std::vector<double> means = means_of(got->losses, file.rows);
    ASSERT_EQ(means.size(), wanted.size());
    for (size_t step = 0; step < means.size(); ++step) {
      EXPECT_NEAR(means[step], wanted[step],
                  std::max(tolerance * std::max(1.0, wanted[step]), roundings * effect[step]))
          << "step " << step;
    }
    digest = digest.empty() ? got->digest : digest;
    EXPECT_EQ(got->digest, digest);
  }
}

TEST(GpuModels, DigitsHasTheLossesOfProcessorsOnOneAndTwoGpus) {
  const int steps = runs_all() ? 20 : 2;
  expect_losses_of_processors({.path = "models/digits.xgraph"}, 0.1, steps, 1e-5);
  expect_losses_of_processors({.path = "models/digits.xgraph", .precision = "mixed(bf16)"}, 0.1, steps, 1e-2);
}

// Convolutions, batch norm, attention and a head with a margin. The PTX machine needs a few seconds for a step.
class NarrowModels : public ::testing::TestWithParam<std::tuple<const char*, double>> {};

TEST_P(NarrowModels, HaveTheLossesOfProcessorsOnOneAndTwoGpus) {
  if (!runs_all()) {
    GTEST_SKIP() << "models with convolutions: set XRUN_ALL_PLANS=1 (make test-gpu)";
  }
  const auto& [name, rate] = GetParam();
  const std::string path = std::string("tests/cuda/models/") + name + ".xgraph";
  expect_losses_of_processors({.path = path, .precision = "mixed(bf16)", .rows = 8, .norm_rows = 2}, rate, 20, 1e-2, 2);
}

INSTANTIATE_TEST_SUITE_P(GpuModels, NarrowModels,
                         ::testing::Values(std::tuple("narrow_resnet", 0.05), std::tuple("narrow_vit", 1e-3),
                                           std::tuple("narrow_omniglot", 2e-4)),
                         [](const auto& one) { return std::string(std::get<0>(one.param)); });

// A model with batch norm, dropout, skip connections and a head, in pairs of all settings of a plan.
TEST(GpuModels, AllPlansHaveOneDigest) {
  constexpr uint32_t kSeed = 52;
  RecordProperty("seed", static_cast<int>(kSeed));
  ModelOptions options = runtime::testing::hard_model(PrecisionMode::kMixedBf16);
  options.layers = 2;
  options.width = options.input = 8;
  options.batch = 24;
  options.classes = 150;
  std::vector<runtime::testing::Case> cases = runtime::testing::all_cases(options, {options.precision});
  std::erase_if(cases, [](const runtime::testing::Case& one) {
    return one.choice.threads != one.choice.devices || one.choice.devices > 2;
  });
  cases = runtime::testing::cover_pairs(std::move(cases), runs_all() ? 100 : 0, kSeed);
  cases.resize(std::min<size_t>(cases.size(), runs_all() ? 200 : 10));
  RecordProperty("plans", static_cast<int>(cases.size()));
  const auto first = run_on_gpus(options, {}, 2, {.capability = 90, .seed = 1});
  ASSERT_TRUE(first.ok()) << first.error().message;
  uint64_t seed = 2;
  for (const runtime::testing::Case& one : cases) {
    const auto got = run_on_gpus(options, one.choice, 2, {.capability = 90, .seed = seed++});
    ASSERT_TRUE(got.ok()) << one.choice.text() << ": " << got.error().message;
    EXPECT_EQ(got->digest, first->digest) << one.choice.text();
    EXPECT_EQ(got->losses, first->losses) << one.choice.text();
  }
}

}  // namespace
}  // namespace xrun::cuda
