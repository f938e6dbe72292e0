// Training small models end to end, from programs of the planner's emission.
#include "runtime/trainer.h"

#include <gtest/gtest.h>

#include "runtime/cpu_device.h"
#include "tests/runtime/plan_maker.h"
#include "tests/runtime/small_models.h"

namespace xrun::runtime {
namespace {

using testing::make_module;
using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::Prepared;
using testing::SyntheticRows;

struct Recorder final : EventSink {
  std::vector<StepReport> steps;
  std::vector<EvalEvent> evals;
  std::vector<EndEvent> ends;
  void on_step(const StepReport& report, bool) override { steps.push_back(report); }
  void on_eval(const EvalEvent& event) override { evals.push_back(event); }
  void on_end(const EndEvent& event) override { ends.push_back(event); }
};

struct Trained {
  Recorder events;
  Result<TrainOutcome> outcome = Error{};
};

Trained run(const ModelOptions& options, const PlanChoice& choice, bool evaluate = false) {
  const Prepared prepared = prepare_for(make_module(options));
  Trained trained;
  auto program = make_program(prepared, choice);
  EXPECT_TRUE(program.ok()) << program.error().message;
  auto inference = make_program(prepared, choice, false);
  EXPECT_TRUE(inference.ok()) << inference.error().message;
  const auto devices = make_cpu_devices(program->threads);
  SyntheticRows rows(prepared.module.graph, options, 1000);
  SyntheticRows val(prepared.module.graph, options, 101);
  TrainRequest request{.module = prepared.module,
                       .training = *program,
                       .inference = evaluate ? &*inference : nullptr,
                       .devices = *devices,
                       .batches = rows,
                       .eval_sources = {&val},
                       .events = trained.events,
                       .session = {.isa = prepared.isa}};
  trained.outcome = train(request);
  return trained;
}

TEST(Trainer, ATinyDenseClassifierLearns) {
  const Trained trained = run({}, {});
  ASSERT_TRUE(trained.outcome.ok()) << trained.outcome.error().message;
  ASSERT_EQ(trained.events.steps.size(), 30u);
  EXPECT_GT(trained.events.steps.front().loss, 1.8);
  EXPECT_LT(trained.events.steps.back().loss, 0.7 * trained.events.steps.front().loss);
  EXPECT_EQ(trained.events.steps.back().metrics.size(), 1u);
  EXPECT_EQ(trained.outcome->weights.size(), 32u);
}

TEST(Trainer, AShardedHeadLearnsAndIsEvaluated) {
  for (const bool cosine : {false, true}) {
    ModelOptions options{.classes = 130, .head = true, .cosine = cosine, .rate = 0.2, .steps = 60};
    options.batch = 96;
    const Trained trained = run(options, {.shards = 1}, true);
    ASSERT_TRUE(trained.outcome.ok()) << trained.outcome.error().message;
    EXPECT_LT(trained.events.steps.back().loss, 0.8 * trained.events.steps.front().loss);
    ASSERT_FALSE(trained.events.evals.empty());
    EXPECT_EQ(trained.events.evals.back().metrics[0].first, "val");
    EXPECT_GT(trained.events.evals.back().metrics[0].second, 0.05);
    EXPECT_EQ(trained.events.evals.back().samples[0].second, 101);
  }
}

}  // namespace
}  // namespace xrun::runtime
