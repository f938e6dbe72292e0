// Compressed gradients: a run follows the method of the paper, every plan with the same number of replicas gives the
// same bits, and checkpoints can be resumed.
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "tests/runtime/checkpoint/checkpoint_model.h"
#include "tests/runtime/runs/compressed_runs.h"

namespace xrun::runtime {
namespace {

using testing::compressed_module;
using testing::deep_model;
using testing::density_of;
using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::Prepared;
using testing::start;
using testing::values_of;

TEST(Compress, FollowsThePaperWithOneTwoAndFourReplicas) {
  const CompressSpec compress{.density = 0.02, .on = {}, .warmup = TrainSpan{8, TrainSpan::kSteps}};
  for (const ClipSpec clip : {ClipSpec{}, ClipSpec{ClipSpec::kNorm, 0.3}, ClipSpec{ClipSpec::kValue, 0.01}}) {
    ModelOptions options{.layers = 0, .rate = 0.2};
    options.clip = clip;
    const Prepared prepared = testing::prepare_for(compressed_module(options, compress));
    for (const int replicas : {1, 2, 4}) {
      testing::expect_follows_paper(
          prepared, options,
          {.devices = replicas, .threads = replicas, .replicas = replicas, .micro_batches = replicas}, replicas);
    }
  }
}

ModelOptions with_optimizer(ModelOptions options, const std::string& optimizer) {
  options.optimizer = optimizer;
  if (optimizer == "lars") {
    options.arguments.set("trust", 0.05);
  } else {
    options.arguments.set("nesterov", true);
  }
  return options;
}

TEST(Compress, LarsAndNesterovFollowTheirFormulasWithOneTwoAndFourReplicas) {
  const CompressSpec compress{.density = 0.02, .on = {}, .warmup = TrainSpan{8, TrainSpan::kSteps}};
  for (const std::string optimizer : {"lars", "sgd"}) {
    for (const ClipSpec clip : {ClipSpec{}, ClipSpec{ClipSpec::kNorm, 0.3}}) {
      ModelOptions options = with_optimizer({.layers = 0, .rate = 0.2}, optimizer);
      options.clip = clip;
      const Prepared prepared = testing::prepare_for(compressed_module(options, compress));
      for (const int replicas : {1, 2, 4}) {
        SCOPED_TRACE(fmt::format("{} with {} replicas", optimizer, replicas));
        testing::expect_follows_paper(
            prepared, options,
            {.devices = replicas, .threads = replicas, .replicas = replicas, .micro_batches = replicas}, replicas);
      }
    }
  }
}

// Returns choices that vary everything but the number of replicas.
std::vector<PlanChoice> choices_with(int replicas) {
  std::vector<PlanChoice> choices;
  for (const int stages : {1, 2}) {
    for (const int threads : {1, 3}) {
      for (const int micro_batches : {4, 12}) {
        choices.push_back({.devices = replicas * stages + (stages == 1 ? 1 : 0),
                           .threads = threads * (replicas * stages + 1),
                           .stages = stages,
                           .replicas = replicas,
                           .micro_batches = micro_batches,
                           .pipeline = micro_batches == 12 ? PipelineKind::kOneFOneB : PipelineKind::kGpipe,
                           .recompute = threads == 3,
                           .shards = stages + 1,
                           .overlap = threads == 1});
      }
    }
  }
  return choices;
}

// Runs a model on plans with one, two and four replicas, and expects the same bits from plans with the same number.
void expect_equal_bits(const ModelOptions& options) {
  const Prepared prepared = testing::prepare_for(
      compressed_module(options, {.density = 0.02, .on = {}, .warmup = TrainSpan{8, TrainSpan::kSteps}}));
  std::set<std::string> results;
  for (const int replicas : {1, 2, 4}) {
    std::string weights;
    std::vector<float> residual;
    for (const PlanChoice& choice : choices_with(replicas)) {
      for (const bool sequential : {false, true}) {
        SCOPED_TRACE(choice.text() + (sequential ? ", sequential" : ""));
        auto running = start(prepared, options, choice, sequential);
        running->session->compress_by(density_of);
        running->steps(0, 6);
        const TrainState& state = running->session->state();
        weights = weights.empty() ? state.weights_digest() : weights;
        residual = residual.empty() ? values_of(state, "layer1.linear.weight.residual") : residual;
        EXPECT_EQ(state.weights_digest(), weights);
        EXPECT_EQ(values_of(state, "layer1.linear.weight.residual"), residual);
      }
    }
    results.insert(weights);
  }
  EXPECT_EQ(results.size(), 3U) << "the number of replicas changes the result";
}

TEST(Compress, AllPlansWithTheSameNumberOfReplicasHaveTheSameBits) { expect_equal_bits(deep_model()); }

TEST(Compress, LarsAndNesterovHaveTheSameBitsOnAllPlansWithTheSameNumberOfReplicas) {
  expect_equal_bits(with_optimizer(deep_model(), "lars"));
  expect_equal_bits(with_optimizer(deep_model(), "sgd"));
}

TEST(Compress, RanksHaveTheBitsOfOneProcess) {
  for (const ModelOptions& options : {deep_model(), with_optimizer(deep_model(), "lars")}) {
    const Prepared prepared = testing::prepare_for(compressed_module(options, {.density = 0.03}));
    for (const PlanChoice& choice : choices_with(2)) {
      const auto program = make_program(prepared, choice);
      ASSERT_TRUE(program.ok()) << choice.text();
      const std::string expected = testing::run_one(prepared, options, *program).weights;
      for (const auto& result : testing::run_ranks(prepared, options, *program, 2)) {
        ASSERT_TRUE(result.status.ok()) << choice.text() << ": " << result.status.error().message;
        EXPECT_EQ(result.weights, expected) << choice.text();
      }
    }
  }
}

TEST(Compress, OnlyNamedTensorsHaveResiduals) {
  const ModelOptions options = deep_model();
  const Prepared prepared = testing::prepare_for(compressed_module(options, {.density = 0.03, .on = {"layer1"}}));
  auto running = start(prepared, options, {.devices = 2, .threads = 2, .replicas = 2, .micro_batches = 2});
  const TrainState& state = running->session->state();
  EXPECT_NE(state.find("layer1.linear.weight.residual"), nullptr);
  EXPECT_EQ(state.find("layer0.linear.weight.residual"), nullptr);
  EXPECT_EQ(state.find("layer1.bn.weight.residual"), nullptr) << "one dimension";
  EXPECT_EQ(state.find("id.weight.residual"), nullptr) << "of a head";
  EXPECT_EQ(state.find("layer0.linear.weight.velocity")->rows(), 24) << "that of the optimizer";
  EXPECT_EQ(state.find("layer1.linear.weight.velocity")->rows(), 2) << "one of each replica";
}

class CompressedRuns : public testing::CheckpointDirectory {
 protected:
  static PlanChoice with_replicas(int replicas) {
    return {.devices = replicas, .threads = replicas, .replicas = replicas, .micro_batches = 4};
  }
  const ModelOptions model_ = deep_model();
  const Prepared prepared_ = testing::prepare_for(compressed_module(model_, {.density = 0.03}));
};

TEST_F(CompressedRuns, ResumedRunsEqualRunsThatWereNotStopped) {
  const ModelOptions lars = with_optimizer(model_, "lars");
  const Prepared prepared_lars = testing::prepare_for(compressed_module(lars, {.density = 0.03}));
  for (const auto& [replicas, prepared] :
       {std::pair(1, &prepared_), {2, &prepared_}, {4, &prepared_}, {2, &prepared_lars}}) {
    SCOPED_TRACE(fmt::format("{} with {}", replicas, prepared->module.train.optimizer.name));
    std::filesystem::remove_all(root_);
    auto whole = start(*prepared, model_, with_replicas(replicas));
    whole->steps(0, 10);
    auto first = start(*prepared, model_, with_replicas(replicas));
    first->steps(0, 4);
    ASSERT_TRUE(store()->save(first->session->state(), 4, 4 * model_.batch).ok());
    auto second = start(*prepared, model_, with_replicas(replicas));
    const auto resumed = store()->resume(second->session->state());
    ASSERT_TRUE(resumed.ok() && *resumed) << resumed.error().message;
    EXPECT_TRUE((*resumed)->warnings.empty());
    ASSERT_TRUE(second->session->weights_changed().ok());
    second->steps(4, 10);
    EXPECT_EQ(second->session->state().weights_digest(), whole->session->state().weights_digest());
    for (const char* name : {"stem.weight.residual", "layer2.linear.weight.velocity"}) {
      EXPECT_EQ(values_of(second->session->state(), name), values_of(whole->session->state(), name)) << name;
    }
  }
}

TEST_F(CompressedRuns, KeepTheSumOfTheResidualsOnAnotherNumberOfReplicas) {
  for (const auto& [before, after] : {std::pair(2, 4), {4, 2}, {4, 1}, {1, 4}, {1, 2}}) {
    SCOPED_TRACE(fmt::format("{} to {}", before, after));
    std::filesystem::remove_all(root_);
    auto first = start(prepared_, model_, with_replicas(before));
    first->steps(0, 4);
    ASSERT_TRUE(store()->save(first->session->state(), 4, 4 * model_.batch).ok());
    auto second = start(prepared_, model_, with_replicas(after));
    testing::expect_goes_on(*store(), *first, *second, before);
  }
}

}  // namespace
}  // namespace xrun::runtime
