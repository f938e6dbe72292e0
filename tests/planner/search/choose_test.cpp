// Only a few of many candidates are made into programs, and this loses no candidate that fits.
#include "planner/search/choose.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "planner/search/fixes.h"
#include "planner/search/layer_hints.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using testing::make_facts;
using testing::make_module;
using testing::ModelOptions;
using testing::prepare_inference;
using testing::prepare_training;

// The input of a choice, and the objects to which this input refers.
struct Subject {
  explicit Subject(const Module& module, int devices, int devices_of_node = 0)
      : training(prepare_training(module)),
        inference(prepare_inference(module)),
        facts(make_facts(training)),
        inference_facts(make_facts(inference)),
        machine(make_machine(devices, devices_of_node)),
        cost(facts, machine),
        inference_cost(inference_facts, machine),
        chain(make_chain(training, cost)),
        inference_chain(make_chain(inference, inference_cost)),
        space{training, chain, cost, machine, layer_hints(training, chain).value(), training.train.deterministic},
        input{space, inference, inference_facts, inference_chain, inference_cost, &realised},
        candidates(
            search(space, legal_settings(training, chain, machine, training.train.deterministic).value()).value()) {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  static Machine make_machine(int devices, int devices_of_node) {
    Machine machine{.name = "cpu", .cores = devices, .devices = devices, .threads = devices, .memory = 4 * kGiB};
    for (int device = 0; device < devices && devices_of_node > 0; ++device) {
      machine.device_nodes.push_back(device / devices_of_node);
    }
    return machine;
  }

  Choice choose_within(const MemoryLimits& limits, const Effort& effort = {}) {
    realised = 0;
    return choose(input, candidates, limits, effort).value();
  }

  // Returns the candidate with all its cuts, also if it is rough.
  Candidate full(const Candidate& candidate) const {
    return candidate.rough ? decide(space, candidate.setting, candidate.recompute).value()[0] : candidate;
  }
  Fitted lean(const Candidate& candidate) const {
    return realise(input, decide(space, candidate.setting, Recompute::kAll).value()[0]).value();
  }

  Module training;
  Module inference;
  KernelFacts facts;
  KernelFacts inference_facts;
  Machine machine;
  CostModel cost;
  CostModel inference_cost;
  Chain chain;
  Chain inference_chain;
  SearchInput space;
  int realised = 0;
  FitInput input;
  std::vector<Candidate> candidates;
};

Module narrow(bool head = false, int64_t norm_rows = 32) {
  Module module = make_module({.layers = 4,
                               .input = 32,
                               .width = 32,
                               .classes = head ? 300 : 10,
                               .head = head,
                               .batch = 32 * norm_rows,
                               .norm_rows = norm_rows});
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  return module;
}

constexpr Bytes kPlenty = 4 * kGiB;

// More programs than requested are made only of candidates that are predicted faster than the best program.
TEST(Choose, FewMorePlansThanRequestedAreMadeIfEverythingFits) {
  Subject subject(narrow(), 4);
  EXPECT_EQ(subject.choose_within({kPlenty, 0}, {.wanted = 1}).fitted.size(), 1U);
  EXPECT_EQ(subject.realised, 1);
  const Choice choice = subject.choose_within({kPlenty, 0});
  EXPECT_GE(choice.fitted.size(), 6U);
  EXPECT_LE(choice.fitted.size(), 12U);
  EXPECT_EQ(subject.realised, std::ssize(choice.fitted));
  EXPECT_TRUE(choice.refused.empty());
  EXPECT_TRUE(std::ranges::is_sorted(choice.fitted, {},
                                     [](const Fitted& f) { return std::llround(std::log(f.predicted.step) * 1e3); }));
}

TEST(Choose, ImpossibleLimitsAreRejectedAfterAFewPrograms) {
  Subject subject(narrow(false, 256), 8);  // the values of one row block are larger than all weights
  ASSERT_GT(subject.candidates.size(), 60U);
  Bytes weights = 0;
  for (const Candidate& candidate : subject.candidates) {
    weights = std::max(weights, memory_floor(subject.space, candidate, candidate.decision.partials).device);
  }
  const MemoryLimits limits{kPlenty, weights + kKiB};
  const Choice choice = subject.choose_within(limits);
  EXPECT_TRUE(choice.fitted.empty());
  EXPECT_FALSE(choice.weights_alone);
  EXPECT_FALSE(choice.refused.empty());
  EXPECT_GT(choice.smallest.memory.sum(), 0);
  // The programs are the fastest candidate as it is, corrected, and with everything recomputed; and two pipelines of
  // each kind that is tried.
  EXPECT_LE(subject.realised, 5 + 2 * 3);

  // No program is made for a smaller batch if the result of a larger batch shows that it cannot fit.
  subject.realised = 0;
  find_fixes(subject.training, subject.input, limits, choice, nullptr);
  EXPECT_LE(subject.realised, 4 * (5 + 2 * 3));
}

// The graph of nearest classes is in the host's memory. A program of each pipeline shows how much a plan needs.
TEST(Choose, GraphsThatExceedTheMemoryAreRejectedAfterTwoPrograms) {
  Module module = narrow(true);
  module.train.active_classes = {.kind = ActiveSpec::kKnn, .amount = 0.5, .neighbours = 16};
  Subject subject(module, 8, 2);
  ASSERT_GT(subject.candidates.size(), 20U);
  MemoryFloor least{INT64_MAX, 0, INT64_MAX};
  for (const Candidate& candidate : subject.candidates) {
    const MemoryFloor floor = memory_floor(subject.space, candidate, candidate.setting.replicas);
    least.total = std::min(least.total, floor.total);
    least.node = std::min(least.node, floor.node);
  }
  for (const MemoryLimits& limits : {MemoryLimits{least.total - 1, 0}, MemoryLimits{kPlenty, 0, least.node - 1}}) {
    const Choice choice = subject.choose_within(limits);
    EXPECT_TRUE(choice.fitted.empty());
    EXPECT_TRUE(choice.weights_alone);
    EXPECT_LE(subject.realised, 2);
    EXPECT_GT(limits.share(choice.smallest), 1);
    EXPECT_GE(choice.refused.size(), subject.candidates.size());
  }
}

int64_t kept_classes(const Fitted& fitted) {
  int64_t sum = 0;
  for (const HeadShard& shard : fitted.training.heads[0].shards) {
    sum += fitted.training.heads[0].kept_classes(shard);
  }
  return sum;
}

// Logits are kept in the memory that is left on each device and on all devices together.
TEST(Choose, LogitsAreKeptAsFarAsMemoryAllows) {
  Module module = make_module({.layers = 2, .input = 256, .width = 256, .classes = 20'000, .head = true, .batch = 256});
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  Subject subject(std::move(module), 2);
  const Fitted all = subject.choose_within({kPlenty, 0}).fitted[0];
  EXPECT_EQ(kept_classes(all), 20'000);

  const Candidate without = decide(subject.space, all.candidate.setting, all.candidate.recompute).value()[0];
  const Fitted none = realise(subject.input, without).value();
  EXPECT_EQ(kept_classes(none), 0);
  const Bytes logits = all.memory.sum() - none.memory.sum();
  EXPECT_NEAR(static_cast<double>(logits), 256.0 * 20'000 * 4, 256.0 * 20'000 * 4 / 10);
  EXPECT_LT(all.predicted.step, none.predicted.step);
  Fitted smallest;
  const MemoryLimits half{none.memory.sum() + logits / 2, 0};
  const MemoryLimits half_of_each{kPlenty, none.largest_device + logits / 4};
  for (const MemoryLimits& limits : {half, half_of_each}) {
    const Fitted some = fit(subject.input, none.candidate, limits, smallest).value().value();
    EXPECT_TRUE(limits.hold(some));
    EXPECT_GT(kept_classes(some), 5'000);
    EXPECT_LE(kept_classes(some), 10'000);
    EXPECT_LT(some.predicted.step, none.predicted.step);
    EXPECT_GT(some.predicted.step, all.predicted.step);
  }
  const Fitted tight = fit(subject.input, none.candidate, {none.memory.sum(), 0}, smallest).value().value();
  EXPECT_EQ(kept_classes(tight), 0);
}

// Computing a short product again takes no longer than copying its kept logits.
TEST(Choose, LogitsOfFewDimensionsAreRecomputed) {
  Module module = make_module({.layers = 2, .input = 16, .width = 16, .classes = 20'000, .head = true, .batch = 256});
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  Subject subject(std::move(module), 2);
  EXPECT_EQ(kept_classes(subject.choose_within({kPlenty, 0}).fitted[0]), 0);
}

TEST(Choose, NoProgramIsMadeIfTheWeightsAloneDoNotFit) {
  Subject subject(narrow(), 8);
  const MemoryLimits limits{kPlenty, kKiB};
  const Choice choice = subject.choose_within(limits);
  EXPECT_TRUE(choice.fitted.empty());
  EXPECT_TRUE(choice.weights_alone);
  EXPECT_GE(choice.refused.size(), subject.candidates.size());
  EXPECT_GT(choice.smallest.memory.sum(), 0) << "the refusal shows what takes the memory";
  EXPECT_LE(subject.realised, 2);
  EXPECT_TRUE(find_fixes(subject.training, subject.input, limits, choice, nullptr).empty());
  EXPECT_LE(subject.realised, 2) << "no batch makes weights smaller";
}

// The oracle makes the programs of all settings with every set of layers to run again.
TEST(Choose, TheSmallestProgramNeedsAtMostAHundredthMoreThanTheLeast) {
  Subject subject(make_module({.layers = 2, .input = 32, .width = 64, .batch = 512, .norm_rows = 64}), 1);
  const SearchInput& space = subject.space;
  LayerHints hints = space.hints;
  hints.hinted = true;
  hints.recompute = Recompute::kChosen;
  Bytes least = kPlenty;
  for (const Candidate& candidate : subject.candidates) {
    for (unsigned set = 0; set < 1U << subject.chain.nodes.size(); ++set) {
      for (size_t l = 0; l < hints.again.size(); ++l) {
        hints.again[l] = (set >> l & 1U) != 0;
      }
      const SearchInput chosen{subject.training, subject.chain, subject.cost, subject.machine, hints, false};
      const FitInput input{chosen, subject.inference, subject.inference_facts, subject.inference_chain,
                           subject.inference_cost};
      const std::vector<Candidate> made = decide(chosen, candidate.setting, Recompute::kChosen).value();
      ASSERT_EQ(made.size(), 1U);
      least = std::min(least, realise(input, made[0]).value().largest_device);
    }
  }
  for (const Bytes limit : {least - 1, least / 2, Bytes{kKiB}}) {
    const Choice choice = subject.choose_within({kPlenty, limit});
    EXPECT_TRUE(choice.fitted.empty());
    EXPECT_GE(choice.smallest.largest_device, least);
    EXPECT_LE(choice.smallest.largest_device, least + least / 100) << "with a limit of " << limit;
  }
  EXPECT_FALSE(subject.choose_within({kPlenty, least}).fitted.empty());
}

// Under any limit, a program that fits is found if there is one. The oracle makes all programs.
TEST(Choose, AFittingPlanIsFoundIfThereIsOne) {
  for (const bool head : {false, true}) {
    for (const int devices : {2, 4}) {
      Subject subject(narrow(head), devices);
      Bytes device = kPlenty;
      Bytes total = kPlenty;
      for (const Candidate& candidate : subject.candidates) {
        for (const Fitted& made : {realise(subject.input, subject.full(candidate)).value(), subject.lean(candidate)}) {
          device = std::min(device, made.largest_device);
          total = std::min(total, made.memory.sum());
        }
      }
      for (const int percent : {100, 105, 120, 200}) {
        for (const MemoryLimits& limits :
             {MemoryLimits{kPlenty, device * percent / 100}, MemoryLimits{total * percent / 100, 0}}) {
          const Choice choice = subject.choose_within(limits);
          EXPECT_FALSE(choice.fitted.empty()) << devices << " devices, head " << head << ", " << percent << " % of "
                                              << (limits.device > 0 ? "a device" : "all");
          for (const Fitted& fitted : choice.fitted) {
            EXPECT_TRUE(limits.hold(fitted));
          }
        }
      }
    }
  }
}

int64_t recomputed_nodes(const Fitted& fitted) {
  int64_t count = 0;
  for (const Stage& stage : fitted.training.stages) {
    count += std::ssize(stage.recomputed);
  }
  return count;
}

// Memory beyond the limit of the whole machine may be freed on any stage, so not every layer has to be recomputed.
// Under 1F1B the first stages hold the most.
TEST(Choose, OnlySomeStagesRecomputeForALimitOnTotalMemory) {
  Module module = make_module({.layers = 8, .input = 64, .width = 64, .batch = 4096, .norm_rows = 64});
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  Subject subject(module, 4);
  int tried = 0;
  int fewer = 0;
  for (const Candidate& candidate : subject.candidates) {
    if (candidate.setting.stages != 4 || candidate.setting.pipeline != PipelineKind::kOneFOneB || candidate.rough) {
      continue;
    }
    const Fitted plain = realise(subject.input, candidate).value();
    const Fitted lean = subject.lean(candidate);
    const Bytes freed = plain.memory.sum() - lean.memory.sum();
    if (freed < plain.memory.sum() / 20) {
      continue;
    }
    ++tried;
    const MemoryLimits limits{plain.memory.sum() - freed / 2, 0};
    Fitted smallest;
    const auto fitted = fit(subject.input, candidate, limits, smallest);
    ASSERT_TRUE(fitted.ok() && fitted->has_value()) << to_text(candidate.setting);
    EXPECT_TRUE(limits.hold(**fitted)) << to_text(candidate.setting);
    EXPECT_GT(recomputed_nodes(**fitted), 0) << to_text(candidate.setting);
    fewer += recomputed_nodes(**fitted) < recomputed_nodes(lean) ? 1 : 0;
  }
  EXPECT_GE(tried, 5);
  EXPECT_GE(fewer, tried - 2) << "where what a program needs beside the estimate is as large as what is freed";
}

// Four stages on two nodes. Under 1F1B the stages of the first node hold more micro-batches, so that node exceeds its
// limit.
TEST(Choose, ANodeThatExceedsItsLimitRecomputes) {
  Module module = make_module({.layers = 8, .input = 64, .width = 64, .batch = 4096, .norm_rows = 64});
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  Subject subject(module, 4, 2);
  int tried = 0;
  for (const Candidate& candidate : subject.candidates) {
    if (candidate.setting.stages != 4 || candidate.setting.pipeline != PipelineKind::kOneFOneB || candidate.rough) {
      continue;
    }
    const Fitted plain = realise(subject.input, candidate).value();
    const Fitted lean = subject.lean(candidate);
    const Bytes freed = plain.nodes[0] - lean.nodes[0];
    const MemoryLimits limits{kPlenty, 0, plain.nodes[0] - freed / 2};
    if (freed < plain.nodes[0] / 20 || plain.nodes[1] > limits.node) {
      continue;
    }
    ++tried;
    Fitted smallest;
    const auto fitted = fit(subject.input, candidate, limits, smallest);
    ASSERT_TRUE(fitted.ok() && fitted->has_value()) << to_text(candidate.setting);
    EXPECT_TRUE(limits.hold(**fitted)) << to_text(candidate.setting);
    EXPECT_GT(recomputed_nodes(**fitted), 0) << to_text(candidate.setting);
    EXPECT_LE((*fitted)->predicted.step, lean.predicted.step) << "at most everything runs again";
  }
  EXPECT_GE(tried, 1);
}

// The partition estimates the bytes that a limit frees, and all programs together free nearly as many, in the values
// that their stages keep and in their arenas, which also hold what workers need for a row block. A single program can
// free less where a layer that runs again reads a value of another stage.
TEST(Choose, ProgramsFreeWhatThePartitionEstimates) {
  const std::vector<ModelOptions> models{
      {.layers = 8, .width = 64, .batch = 2048, .norm_rows = 32},
      {.layers = 8, .width = 64, .norm = false, .batch = 2048, .norm_rows = 32},
      {.layers = 6, .width = 96, .skips = true, .batch = 1024, .norm_rows = 16},
      {.layers = 6, .width = 64, .skips = true, .precision = PrecisionMode::kMixedBf16, .batch = 2048, .norm_rows = 32},
      {.layers = 6, .width = 64, .classes = 300, .head = true, .batch = 2048, .norm_rows = 32}};
  int compared = 0;
  Bytes all_estimated = 0;
  Bytes kept = 0;
  Bytes arenas = 0;
  for (size_t m = 0; m < models.size(); ++m) {
    Module module = make_module(models[m]);
    module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
    Subject subject(module, 2);
    for (size_t i = 0; i < subject.candidates.size(); i += 3) {
      const Candidate& candidate = subject.candidates[i];
      const Setting& setting = candidate.setting;
      if (setting.replicas > 1 || setting.micro_batches > 16 || candidate.rough) {
        continue;
      }
      const auto kept_by = [&](const Fitted& fitted) {
        Bytes sum = 0;
        for (const Stage& stage : fitted.training.stages) {
          sum += stage.activation_bytes *
                 micro_batches_held(
                     {.stages = setting.stages, .micro_batches = setting.micro_batches, .pipeline = setting.pipeline},
                     stage.index);
        }
        return sum;
      };
      const Fitted plain = realise(subject.input, candidate).value();
      const Candidate all = decide(subject.space, setting, Recompute::kAll).value()[0];
      for (const int percent : {20, 50, 80}) {
        const Bytes total = candidate.all_stages - (candidate.all_stages - all.all_stages) * percent / 100;
        const auto within = decide(subject.space, setting, Recompute::kAuto, {.total = total}).value();
        ASSERT_FALSE(within.empty());
        const auto cuts_of = [](const Candidate& one) {
          std::vector<std::vector<NodeId>> cuts;
          std::ranges::transform(one.decision.stages, std::back_inserter(cuts), &Stage::forward);
          return cuts;
        };
        if (cuts_of(within[0]) != cuts_of(candidate)) {
          continue;  // programs with other cuts keep other values
        }
        const Fitted fitted = realise(subject.input, within[0]).value();
        const Bytes estimated = candidate.all_stages - within[0].all_stages;
        const std::string what =
            "model " + std::to_string(m) + ", " + to_text(setting) + ", " + std::to_string(percent);
        EXPECT_LE(kept_by(plain) - kept_by(fitted), estimated * 105 / 100) << what;
        all_estimated += estimated;
        kept += kept_by(plain) - kept_by(fitted);
        arenas += plain.memory.training - fitted.memory.training;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 40);
  EXPECT_GE(kept, all_estimated * 95 / 100) << all_estimated;
  EXPECT_GE(arenas, all_estimated * 85 / 100) << all_estimated;
}

TEST(Choose, NoProgramNeedsLessThanItsMemoryFloor) {
  int compared = 0;
  for (const bool head : {false, true}) {
    for (const bool deterministic : {false, true}) {
      for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
        Module module = make_module({.layers = 3,
                                     .width = 96,
                                     .classes = 500,
                                     .head = head,
                                     .head_bias = deterministic,
                                     .precision = precision});
        module.train.deterministic = deterministic;
        if (head && precision == PrecisionMode::kF32) {
          module.train.active_classes = {.kind = ActiveSpec::kKnn, .amount = 0.5, .neighbours = 16};
        }
        Subject subject(module, 4, 2);
        for (size_t i = 0; i < subject.candidates.size(); i += 3) {
          const Candidate& candidate = subject.candidates[i];
          const MemoryFloor floor = memory_floor(subject.space, candidate, candidate.decision.partials);
          const MemoryFloor one_partial = memory_floor(subject.space, candidate, candidate.setting.replicas);
          const Fitted lean = subject.lean(candidate);
          EXPECT_LE(floor.device, lean.largest_device) << to_text(candidate.setting);
          EXPECT_LE(floor.total, lean.memory.training) << to_text(candidate.setting);
          EXPECT_LE(floor.node, lean.largest_node()) << to_text(candidate.setting);
          EXPECT_LE(one_partial.device, floor.device);
          EXPECT_GT(10 * floor.total, lean.memory.training) << "no bound to speak of";
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 40);
}

// A fix that removes hints is proposed only if there are hints. A proposed batch consists of whole row blocks in every
// batch that an update accumulates.
TEST(Fixes, ProposedSmallerBatchesAreLegal) {
  Module module = narrow();
  module.train.grad_accumulation = 4;  // batches of 8 row blocks
  Subject subject(module, 2);
  const Choice ample = subject.choose_within({kPlenty, 0}, {.wanted = 1});
  const MemoryLimits limits{kPlenty, ample.fitted[0].largest_device / 3};
  Choice refused;
  refused.smallest = ample.fitted[0];
  const std::vector<std::string> fixes = find_fixes(subject.training, subject.input, limits, refused, nullptr);
  ASSERT_EQ(fixes.size(), 1U);
  EXPECT_TRUE(fixes[0].starts_with("batch = 64 ") || fixes[0].starts_with("batch = 32 ")) << fixes[0];
  EXPECT_TRUE(fixes[0].ends_with("changes training")) << fixes[0];
}

Result<KernelFacts> facts_of(const Module& module, bool) { return testing::make_facts(module); }

// A plan that fits must be found even if it needs a smaller row block: `norm_rows = 16` for 64 rows in one block.
TEST(Fixes, ASmallerRowBlockIsProposed) {
  Module module = narrow(false, 64);
  module.train.batch = 64;
  Subject subject(module, 1);
  const Choice ample = subject.choose_within({kPlenty, 0}, {.wanted = 1});
  const FitInput& input = subject.input;
  const auto smallest = OtherRows::make(input, facts_of, 16);
  ASSERT_TRUE(smallest.ok()) << smallest.error().message;
  const auto sixteen = (*smallest)->choose_plan(64, {kPlenty, 0}, {.wanted = 1});
  ASSERT_TRUE(sixteen.ok() && !sixteen->fitted.empty());
  ASSERT_LT(sixteen->fitted[0].largest_device, ample.fitted[0].largest_device);
  const MemoryLimits limits{kPlenty, sixteen->fitted[0].largest_device};
  const Choice refused = subject.choose_within(limits);
  ASSERT_TRUE(refused.fitted.empty());
  const std::vector<std::string> fixes = find_fixes(subject.training, input, limits, refused, facts_of);
  ASSERT_FALSE(fixes.empty());
  EXPECT_TRUE(fixes[0].starts_with("norm_rows = ")) << fixes[0];
  EXPECT_TRUE(fixes[0].ends_with("changes training")) << "the statistics of batch norm: " << fixes[0];
  const int64_t rows = std::stoll(fixes[0].substr(12));
  const auto proposed = OtherRows::make(input, facts_of, rows);
  ASSERT_TRUE(proposed.ok());
  const auto plan = (*proposed)->choose_plan(64, limits, {.wanted = 1});
  EXPECT_TRUE(plan.ok() && !plan->fitted.empty()) << "what is proposed fits";
}

TEST(Fixes, RowBlocksDivideTheBatchOfTheText) {
  const TrainSpec train{.batch = 3 * 56, .norm_rows = 56, .grad_accumulation = 3};
  EXPECT_EQ(smaller_row_blocks(train, false), (std::vector<int64_t>{28, 14, 8, 7, 4, 2, 1}));
  EXPECT_EQ(smaller_row_blocks(train, true), (std::vector<int64_t>{28, 14, 8})) << "statistics need some rows";
}

}  // namespace
}  // namespace xrun::planner
