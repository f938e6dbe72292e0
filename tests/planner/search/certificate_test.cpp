// No program is predicted below the bound of its setting.
#include "planner/search/certificate.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/report/reason_text.h"
#include "planner/search/choose.h"
#include "planner/search/layer_hints.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using testing::make_facts;
using testing::make_module;
using testing::ModelOptions;
using testing::prepare_inference;
using testing::prepare_training;

Machine machine_of(int devices, int cores, int threads) {
  return {.name = "cpu", .cores = cores, .devices = devices, .threads = threads, .memory = 4 * kGiB};
}

struct Subject {
  Subject(const Module& module, Machine on)
      : training(prepare_training(module)),
        inference(prepare_inference(module)),
        facts(make_facts(training)),
        inference_facts(make_facts(inference)),
        machine(std::move(on)),
        cost(facts, machine),
        inference_cost(inference_facts, machine),
        chain(make_chain(training, cost)),
        inference_chain(make_chain(inference, inference_cost)),
        space{training, chain, cost, machine, layer_hints(training, chain).value(), training.train.deterministic},
        input{space, inference, inference_facts, inference_chain, inference_cost},
        settings(legal_settings(training, chain, machine, training.train.deterministic).value()),
        candidates(search(space, settings).value()) {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

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
  FitInput input;
  std::vector<Setting> settings;
  std::vector<Candidate> candidates;
};

// Makes the program of each candidate, and compares it with the bound of its setting. Returns the least of the steps
// divided by the bounds.
double compare(const Module& module, const Machine& machine, const std::string& about) {
  Subject subject(module, machine);
  Certifier certifier(subject.space);
  double nearest = 1e9;
  const auto check = [&](const Fitted& made) {
    const Setting& setting = made.candidate.setting;
    const Seconds bound = certifier.bound(setting).value();
    EXPECT_GT(bound, 0) << about << ": " << to_text(setting);
    EXPECT_LE(bound, made.predicted.step) << about << ": " << to_text(setting);
    nearest = std::min(nearest, made.predicted.step / bound);
  };
  for (const Candidate& candidate : subject.candidates) {
    const Candidate full =
        candidate.rough ? decide(subject.space, candidate.setting, candidate.recompute).value()[0] : candidate;
    check(realise(subject.input, full).value());
  }
  const MemoryLimits limits{4 * kGiB, 0};
  const Choice choice = choose(subject.input, subject.candidates, limits, {}).value();
  std::ranges::for_each(choice.fitted, check);  // with kept logits
  const Certificate made = certifier.certify(subject.settings, limits, choice.fitted[0]).value();
  EXPECT_LE(made.bound, choice.fitted[0].predicted.step);
  EXPECT_GT(made.bound, 0.1 * choice.fitted[0].predicted.step) << about;
  return nearest;
}

TEST(Certificate, NoProgramIsBelowTheBound) {
  const ModelOptions wide{.layers = 4, .input = 256, .width = 512, .batch = 128, .norm_rows = 16};
  ModelOptions skips = wide;
  skips.skips = true;
  ModelOptions tied = wide;
  tied.tied = 2;
  tied.norm = false;
  ModelOptions head = wide;
  head.head = true;
  head.classes = 20'000;
  ModelOptions narrow{.layers = 5, .input = 16, .width = 16, .batch = 64, .norm_rows = 8};
  double nearest = 1e9;
  for (const auto& [options, name] : {std::pair(wide, "wide"), std::pair(skips, "skips"), std::pair(tied, "tied"),
                                      std::pair(head, "head"), std::pair(narrow, "narrow")}) {
    for (const auto& [devices, cores, threads] :
         {std::tuple(1, 1, 1), std::tuple(1, 4, 4), std::tuple(4, 4, 4), std::tuple(4, 2, 4), std::tuple(3, 4, 4)}) {
      nearest = std::min(nearest, compare(make_module(options), machine_of(devices, cores, threads),
                                          std::string(name) + " on " + std::to_string(devices)));
    }
  }
  EXPECT_LT(nearest, 1.01) << "the bounds are far below every program";
}

TEST(Certificate, HintsAndExchangesKeepTheBound) {
  Module module = make_module(
      {.layers = 4, .input = 128, .width = 256, .classes = 5'000, .head = true, .batch = 128, .norm_rows = 8});
  module.train.deterministic = true;
  compare(module, machine_of(4, 4, 4), "deterministic");
  module.train.deterministic = false;
  module.schedule.pipeline = Hint<PipelineHint>{{PipelineKind::kOneFOneB}, {}};
  compare(module, machine_of(4, 4, 4), "one_f_one_b");
  module.schedule.recompute = Hint<RecomputeHint>{{RecomputeHint::kAll, {}}, {}};
  compare(module, machine_of(3, 3, 6), "recompute");
  Machine nodes = machine_of(4, 4, 4);
  nodes.device_nodes = {0, 0, 1, 1};
  nodes.node_memory = 2 * kGiB;
  nodes.ranks = 2;
  nodes.network = {.name = "ethernet", .rate = 1e8, .latency = 2e-4};
  module.schedule.recompute.reset();
  module.schedule.pipeline.reset();
  compare(module, nodes, "two nodes");
  module.train.compress = {.density = 0.01, .on = {}};
  compare(module, machine_of(4, 4, 4), "compressed");
}

Result<Plan> plan(const Module& module, const Machine& machine, const PlannerOptions& options = {}) {
  const Module training = prepare_training(module);
  const Module inference = prepare_inference(module);
  return make_plan(training, inference, make_facts(training), make_facts(inference), machine, options);
}

TEST(Certificate, APlanHasItsKindsItsLimitAndOtherKinds) {
  const Module module = make_module({.layers = 4, .input = 256, .width = 512, .batch = 512, .norm_rows = 16});
  const Plan made = plan(module, machine_of(4, 4, 4)).value();
  ASSERT_TRUE(made.certificate.has_value());
  const Certificate& certificate = *made.certificate;
  EXPECT_EQ(certificate.stages, (std::vector<int>{1, 2, 3, 4, 6, 8, 9, 12, 16}));
  EXPECT_EQ(certificate.micro_batches, (std::vector<int>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(std::ranges::count(certificate.pipelines, true), kPipelineKinds);
  EXPECT_TRUE(certificate.complete);
  EXPECT_EQ(certificate.limit, Certificate::Limit::kBackward);
  EXPECT_LE(certificate.bound, made.predicted.step);
  ASSERT_EQ(made.other_kinds.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(made.other_kinds, {}, &Alternative::step));
  for (const Alternative& other : made.other_kinds) {
    EXPECT_FALSE(other.stages == static_cast<int>(made.training.stages.size()) &&
                 other.replicas == made.training.replicas && other.pipeline.kind == made.training.schedule);
  }
}

// If reading data keeps both cores busy, the cores are the limit, although the passes of the head take longest.
TEST(Certificate, CoresThatReadDataAreTheLimit) {
  const Module module = make_module(
      {.layers = 1, .input = 64, .width = 64, .classes = 5'000, .head = true, .batch = 256, .norm_rows = 32});
  const Module training = prepare_training(module);
  const Module inference = prepare_inference(module);
  const auto planned = [&](Seconds sample) {
    KernelFacts facts = make_facts(training);
    facts.sample = sample;
    return make_plan(training, inference, facts, make_facts(inference), machine_of(2, 2, 2), {}).value();
  };
  const Plan without = planned(0);
  ASSERT_EQ(without.certificate->limit, Certificate::Limit::kHead);
  Seconds heads = 0;
  for (const Instruction& one : without.training.instructions) {
    heads += is_of_head(one.kind) ? one.predicted : 0;
  }
  EXPECT_LE(without.certificate->busy, heads);
  EXPECT_GE(without.certificate->busy, heads / 2) << "the busiest of two devices";
  const Plan with = planned(0.3 * without.predicted.step * 2 / 256);  // 0.3 of a step on both cores
  EXPECT_EQ(with.certificate->limit, Certificate::Limit::kCores);
  EXPECT_GT(with.certificate->busy, without.certificate->busy + 0.25 * without.predicted.step);
  EXPECT_LE(with.certificate->busy, with.predicted.step);
  const Plan little = planned(0.01 * without.predicted.step * 2 / 256);
  EXPECT_EQ(little.certificate->limit, Certificate::Limit::kHead);
  const Plan slow = planned(3 * without.predicted.step * 2 / 256);
  EXPECT_EQ(slow.certificate->limit, Certificate::Limit::kLoader);
  EXPECT_DOUBLE_EQ(slow.certificate->busy, 3 * without.predicted.step);
  EXPECT_GT(slow.predicted.step, slow.certificate->busy) << "the workers also compute the step";
}

TEST(Certificate, ASearchThatIsOverKeepsTheFirstPlanThatFits) {
  const Module module = make_module({.layers = 4, .input = 256, .width = 512, .batch = 512, .norm_rows = 16});
  const Plan whole = plan(module, machine_of(4, 4, 4)).value();
  const Plan ended = plan(module, machine_of(4, 4, 4), {.in_time = [] { return false; }}).value();
  EXPECT_FALSE(ended.certificate->complete);
  EXPECT_EQ(ended.certificate->compared, 1);
  EXPECT_TRUE(ended.alternatives.empty());
  for (const Reason& reason : ended.why) {
    if (reason.key == Reason::Key::kReplicas || reason.key == Reason::Key::kMicroBatches) {
      const std::string text = reason_text(reason);
      EXPECT_NE(text.find(" not compared"), std::string::npos) << choice_text(reason) << ": " << text;
    }
  }
  EXPECT_GE(ended.predicted.step, whole.predicted.step * 0.999);
  EXPECT_NEAR(ended.certificate->bound, whole.certificate->bound, whole.certificate->bound * 1e-6);
  const Plan in_time = plan(module, machine_of(4, 4, 4), {.in_time = [] { return true; }}).value();
  EXPECT_TRUE(in_time.certificate->complete);
  EXPECT_EQ(in_time.id, whole.id);
}

}  // namespace
}  // namespace xrun::planner
