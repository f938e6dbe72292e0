// The pipelines that a search compares: each of them once, where it is legal and its order differs.
#include <algorithm>
#include <gtest/gtest.h>

#include "planner/search/space.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using testing::make_facts;
using testing::make_module;
using testing::prepare_training;

// Returns a model with a head and as many layers as stages of the longest pipeline.
Module subject() {
  return make_module(
      {.layers = 8, .input = 256, .width = 512, .classes = 1000, .head = true, .batch = 1024, .norm_rows = 64});
}

// Returns the settings of a module on machines with as many cores as devices.
std::vector<Setting> settings_of(const Module& module, int devices) {
  const Machine machine{.name = "cpu", .cores = devices, .devices = devices, .threads = devices, .memory = 64 * kGiB};
  const Module training = prepare_training(module);
  const KernelFacts facts = make_facts(training);
  return legal_settings(training, make_chain(training, CostModel(facts, machine)), machine, false).value();
}

TEST(Space, WithoutHintsEveryPipelineIsListedOnce) {
  std::vector<Setting> settings = settings_of(subject(), 4);
  const auto has = [&](const Setting& wanted) { return std::ranges::find(settings, wanted) != settings.end(); };
  const auto kind = PipelineKind::kInterleaved;
  EXPECT_TRUE(has({2, 1, 8, PipelineKind::kGpipe}));
  EXPECT_TRUE(has({2, 1, 8, PipelineKind::kOneFOneB}));
  EXPECT_TRUE(has({2, 1, 8, PipelineKind::kOneFOneB, 0, 1, 1}));
  EXPECT_TRUE(has({4, 1, 8, PipelineKind::kOneFOneB, 0, 1, 3}));
  for (const bool one_head_pass : {false, true}) {
    EXPECT_TRUE(
        has({.stages = 2, .micro_batches = 8, .pipeline = PipelineKind::kZeroBubble, .one_head_pass = one_head_pass}));
    EXPECT_TRUE(has({.stages = 4,
                     .micro_batches = 8,
                     .pipeline = PipelineKind::kZbV,
                     .chunks = 2,
                     .one_head_pass = one_head_pass}));
    for (const int chunks : {2, 3, 4}) {
      EXPECT_TRUE(has({.stages = 2 * chunks,
                       .micro_batches = 8,
                       .pipeline = kind,
                       .chunks = chunks,
                       .one_head_pass = one_head_pass}));
    }
  }
  for (size_t i = 0; i < settings.size(); ++i) {
    const Setting& one = settings[i];
    EXPECT_EQ(std::ranges::count(settings, one), 1) << to_text(one);
    EXPECT_TRUE(one.is_plain() || (one.ranks() > 1 && one.micro_batches > one.replicas)) << to_text(one);
    EXPECT_LT(one.warm_up, one.micro_batches / one.replicas) << to_text(one) << ": the order of a shorter warm-up";
    EXPECT_LE(one.ranks() * one.replicas, 4) << to_text(one);
  }
}

TEST(Space, StagesThatMayShareAWeightAreOnDevicesOfTheirOwn) {
  const Module tied = make_module({.layers = 4, .tied = 1, .batch = 64, .norm_rows = 8});
  const std::vector<Setting> settings = settings_of(tied, 2);
  EXPECT_TRUE(std::ranges::all_of(settings, [](const Setting& one) { return one.chunks == 1; }));
  EXPECT_TRUE(
      std::ranges::any_of(settings, [](const Setting& one) { return one.pipeline == PipelineKind::kZeroBubble; }));
}

TEST(Space, GranularityDecidesTheHeadPassesOfEveryPipeline) {
  for (const bool step : {false, true}) {
    Module module = subject();
    module.schedule.shards.push_back({.head = "id", .granularity = step ? "step" : "micro_batch"});
    int others = 0;
    for (const Setting& one : settings_of(module, 2)) {
      others += one.pipeline > PipelineKind::kOneFOneB ? 1 : 0;
      EXPECT_EQ(one.one_head_pass, step && one.pipeline > PipelineKind::kOneFOneB) << to_text(one);
      EXPECT_FALSE(step && one.pipeline == PipelineKind::kOneFOneB) << to_text(one);
    }
    EXPECT_GT(others, 0);
  }
  for (const Setting& one : settings_of(make_module({.layers = 4, .batch = 64, .norm_rows = 8}), 2)) {
    EXPECT_FALSE(one.one_head_pass) << to_text(one) << ": the model has no head";
  }
}

}  // namespace
}  // namespace xrun::planner
