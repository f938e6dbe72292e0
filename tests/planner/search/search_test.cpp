#include "planner/search/search.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "planner/schedules/simulate_schedule.h"
#include "planner/search/exchange_times.h"
#include "tests/planner/generated_models.h"

namespace xrun::planner {
namespace {

// The input of a search, and the objects to which this input refers.
struct Subject {
  Subject(const Module& module, Machine given)
      : training(testing::prepare_training(module)),
        facts(testing::make_facts(training)),
        machine(std::move(given)),
        cost(facts, machine),
        chain(make_chain(training, cost)),
        input{training, chain, cost, machine, layer_hints(training, chain).value()} {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  Module training;
  KernelFacts facts;
  Machine machine;
  CostModel cost;
  Chain chain;
  SearchInput input;
};

Machine machine_of(int devices, int cores) {
  return {.name = "cpu", .cores = cores, .devices = devices, .threads = std::max(devices, cores), .memory = kGiB};
}

// In a large search, most settings only get an estimate. The best one is as fast as that of a full search.
TEST(Search, RoughEstimatesLoseNoFasterSetting) {
  const Subject subject(
      testing::make_module({.layers = 200, .width = 128, .skips = true, .batch = 512, .norm_rows = 8}),
      machine_of(8, 8));
  const auto settings = legal_settings(subject.training, subject.chain, subject.machine, false).value();
  const std::vector<Candidate> found = search(subject.input, settings).value();
  ASSERT_EQ(found.size(), settings.size());
  EXPECT_FALSE(found[0].rough);
  EXPECT_GT(std::ranges::count_if(found, &Candidate::rough), std::ssize(found) / 2);
  for (const Setting& setting : settings) {
    const Candidate full = decide(subject.input, setting, Recompute::kNone).value().at(0);
    EXPECT_GE(full.predicted.step, 0.998 * found[0].predicted.step) << to_text(setting);
  }
}

// Settings with other pipelines than GPipe and 1F1B stay rough if a formula expects them to be slower than the best
// one.
TEST(Search, RoughPipelinesAreNotFaster) {
  int rough = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const testing::Generated made = testing::generate_model(seed);
    const Subject subject(made.module, made.machine);
    const auto settings = legal_settings(subject.training, subject.chain, subject.machine, false).value();
    const std::vector<Candidate> found = search(subject.input, settings).value();
    ASSERT_EQ(found.size(), settings.size()) << "seed " << seed;
    for (size_t i = 0; i < found.size(); i += 1 + found.size() / 64) {
      if (found[i].rough) {
        EXPECT_FALSE(found[i].setting.is_plain()) << "seed " << seed << ", " << to_text(found[i].setting);
        const Candidate full = decide(subject.input, found[i].setting, Recompute::kNone).value().at(0);
        EXPECT_GE(full.predicted.step, 0.99 * found[0].predicted.step)
            << "seed " << seed << ", " << made.text << ", " << to_text(found[i].setting);
        ++rough;
      }
    }
  }
  EXPECT_GT(rough, 60);
}

// The last stage of a pipeline ends first, and updates its weights while the other stages work.
TEST(Search, UpdatesOfLaterStagesOverlapWithEarlierPasses) {
  testing::ModelOptions options{.layers = 20, .width = 128, .batch = 32, .norm_rows = 2};
  options.widths.assign(18, 128);
  options.widths.insert(options.widths.end(), 2, 768);
  const Subject subject(testing::make_module(options), machine_of(2, 2));
  const Setting setting{2, 1, 4, PipelineKind::kGpipe};
  const Candidate made = decide(subject.input, setting, Recompute::kNone).value().at(0);
  ScheduleRequest order{.micro_batches = 4};
  for (const Stage& stage : made.decision.stages) {
    order.forward.push_back(stage.forward_time + subject.cost.hand_over());
    order.backward.push_back(stage.backward_time + subject.cost.hand_over());
  }
  const int cut = static_cast<int>(made.decision.stages[0].forward.size());
  const Partition cuts{.stages = {{.begin = 0, .end = cut}, {.begin = cut, .end = subject.chain.size()}}};
  const UpdateTimes updates = UpdateCosts(subject.input, setting).times(cuts);
  order.first = updates.zeroing;
  const Seconds passes = simulate(made.decision.schedule, order).makespan;
  EXPECT_GT(made.predicted.step, passes);
  EXPECT_LT(made.predicted.step, passes + 0.9 * updates.stages[1]);
}

}  // namespace
}  // namespace xrun::planner
