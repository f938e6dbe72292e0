// Plans for a batch that grows during training.
#include "planner/step_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/report/json.h"
#include "planner/report/summary.h"
#include "planner/report/text.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;
using testing::make_facts;
using testing::make_module;
using testing::ModelOptions;
using testing::prepare_inference;
using testing::prepare_training;

struct Growing {
  explicit Growing(int64_t times = 4, int devices = 2) {
    module = make_module(
        {.layers = 4, .input = 32, .width = 64, .classes = 300, .head = true, .batch = 256 * times, .norm_rows = 16});
    module.train.growth = GrowthSpec{
        .first = 256, .times = times, .after = {1, TrainSpan::kEpochs}, .over = {2, TrainSpan::kEpochs}, .span = {}};
    module.train.duration = {5, TrainSpan::kEpochs};
    machine = {.name = "cpu", .cores = devices, .devices = devices, .threads = devices, .memory = 4 * kGiB};
  }
  Result<Plan> plan() const {
    const Module training = prepare_training(module);
    const Module inference = prepare_inference(module);
    return make_plan(training, inference, make_facts(training), make_facts(inference), machine, {});
  }
  Module module;
  Machine machine;
};

TEST(StepPrograms, EveryLegalSettingHasProgramsForAllBatchSizes) {
  for (const int replicas : {1, 2}) {
    for (const PipelineKind pipeline : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
      for (const int64_t micro_batches : {4, 8, 16}) {
        Growing growing;
        growing.module.schedule.replicas = Hint<int64_t>{replicas, {}};
        growing.module.schedule.pipeline = Hint<PipelineHint>{{pipeline}, {}};
        growing.module.schedule.micro_batches = Hint<int64_t>{micro_batches, {}};
        const auto made = growing.plan();
        if (micro_batches < 4 * replicas) {
          ASSERT_FALSE(made.ok());
          EXPECT_EQ(made.error().code, "XG0606");
          EXPECT_THAT(made.error().help, HasSubstr("replicas x 4 (the growth of the batch) divides micro_batches"));
          continue;
        }
        ASSERT_TRUE(made.ok()) << made.error().message;
        ASSERT_EQ(made->smaller.size(), 3U);
        Seconds before = 0;
        for (const StepProgram& step : made->smaller) {
          EXPECT_EQ(step.program.micro_batches, micro_batches / 4 * step.units);
          EXPECT_EQ(step.program.batch, 256 * step.units);
          EXPECT_GT(step.step, before);
          before = step.step;
        }
        EXPECT_GT(made->predicted.step, before);
      }
    }
  }
}

TEST(StepPrograms, MoreReplicasThanRowBlocksOfTheFirstStepsAreRejected) {
  Growing growing(4, 4);
  growing.module.train.resize(4 * 48);  // three row blocks in the first steps, twelve in the last steps
  growing.module.schedule.replicas = Hint<int64_t>{4, {}};
  const auto made = growing.plan();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0603");
  EXPECT_THAT(made.error().message, HasSubstr("3 row blocks of the first steps"));
}

TEST(StepPrograms, LoadingAPlanFileRestoresThePrograms) {
  const Growing growing;
  const Module training = prepare_training(growing.module);
  const Plan plan = growing.plan().value();
  auto loaded = load_plan_bytes(plan_bytes(plan), "a.xplan");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_EQ(loaded->smaller.size(), plan.smaller.size());
  EXPECT_TRUE(loaded->smaller[0].program.instructions.empty()) << "only figures are in the file";
  const Status complete = complete_plan(*loaded, training, make_facts(training));
  ASSERT_TRUE(complete.ok()) << complete.error().message;
  ASSERT_EQ(loaded->smaller.size(), plan.smaller.size());
  for (size_t i = 0; i < plan.smaller.size(); ++i) {
    EXPECT_EQ(print(loaded->smaller[i].program, training.graph), print(plan.smaller[i].program, training.graph));
  }

  Plan other = plan;
  other.training.arenas[1].bytes /= 2;
  EXPECT_EQ(complete_plan(other, training, make_facts(training)).error().code, "XG0625");
  other = plan;
  other.training.micro_batches = 2;
  EXPECT_EQ(complete_plan(other, training, make_facts(training)).error().code, "XG0625");
}

TEST(StepPrograms, ReportsShowTheFirstAndTheLastBatchSize) {
  const Growing growing;
  const Module training = prepare_training(growing.module);
  Plan plan = growing.plan().value();
  plan.samples = 256 * 100;
  const std::vector<SizeSummary> sizes = list_sizes(plan);
  ASSERT_EQ(sizes.size(), 4U);
  EXPECT_LT(sizes.front().used, sizes.back().used);
  EXPECT_THAT(report_text(plan, training), HasSubstr("growth     first steps of 256 samples take"));
  EXPECT_THAT(report_json(plan, training), HasSubstr("\"batch\": 1024"));
  // 500 units: 100 steps of one unit, 200 units of growth, and fifty steps of four units.
  const Seconds first = 100 * sizes.front().step;
  const Seconds last = 50 * sizes.back().step;
  const RunTimes times = run_times(plan, training);
  ASSERT_TRUE(times.run.has_value());
  EXPECT_GT(*times.run, first + last);
  EXPECT_LT(*times.run, first + last + 200 * sizes.front().step);
}

}  // namespace
}  // namespace xrun::planner
