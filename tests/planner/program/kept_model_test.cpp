// Plan files stand alone: reports of a loaded plan need neither the model nor its sources.
#include "planner/program/kept_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "graph/base/sha256.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/report/json.h"
#include "planner/report/page/instructions_json.h"
#include "planner/report/text.h"
#include "planner/stale_plan.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_facts;
using testing::prepare_inference;
using testing::prepare_training;
using testing::test_registry;

struct Made {
  Module training;
  KernelFacts facts;
  Plan plan;
};

// Plans a module on four devices of two nodes, and keeps its model with a text that has a line for each operator.
Made made_of(const Module& module) {
  Made made{prepare_training(module), {}, {}};
  const Module inference = prepare_inference(module);
  made.facts = make_facts(made.training);
  Machine machine{.name = "4 x cpu", .cores = 4, .devices = 4, .threads = 4, .memory = 4 * kGiB};
  machine.ranks = 2;
  machine.device_nodes = {0, 0, 1, 1};
  made.plan = make_plan(made.training, inference, made.facts, make_facts(inference), machine, {}).value();
  SourceMap sources;
  std::string text;
  for (int line = 0; line < 99; ++line) {
    text += "  line " + std::string(line < 10 ? "0" : "") + std::to_string(line) + "\n";  // ten bytes
  }
  sources.add("small.xgraph", text);
  made.plan.kept = keep_model(made.training, made.facts, made.plan.training, sources);
  return made;
}

std::string reports_of(const Plan& plan, const Module& module) {
  std::string text = report_text(plan, module) + report_json(plan, module) + report_gantt(plan, module, 100) +
                     gantt_json(plan) + instructions_csv(plan) + print(plan.training, module.graph);
  for (const char* table : {"layers", "memory", "comm", "why"}) {
    text += report_table(plan, module, table) + table_json(plan, module, table);
  }
  return text;
}

void expect_same_reports(const Module& module) {
  const Made made = made_of(module);
  const auto loaded = load_plan_bytes(plan_bytes(made.plan), "a.xplan", &test_registry());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_TRUE(loaded->kept.has_value());
  EXPECT_EQ(reports_of(*loaded, loaded->kept->module), reports_of(made.plan, made.training));
  EXPECT_EQ(plan_bytes(*loaded), plan_bytes(made.plan));
}

TEST(KeptModel, ReportsOfAFileEqualThoseOfThePlan) {
  Module module = testing::make_module({.layers = 4, .classes = 3000, .head = true, .head_bias = true, .batch = 256});
  module.data.sources = {testing::glyphs_source("train", {"one", "two"}, 32), testing::source("test", "csv")};
  module.schedule.stages = Hint<int64_t>{2, {}};
  module.schedule.micro_batches = Hint<int64_t>{4, {}};
  module.schedule.memory_limit = Hint<Bytes>{kGiB, {}};
  module.cluster.storage = 1e8;
  expect_same_reports(module);
}

TEST(KeptModel, ReportsKnowCompressionAndGrowingBatches) {
  Module module = testing::make_module({.layers = 1, .input = 256, .width = 256, .batch = 64, .norm_rows = 8});
  module.train.compress = {.density = 0.001, .on = {}, .warmup = TrainSpan{4, TrainSpan::kEpochs}, .span = {}};
  module.schedule.replicas = Hint<int64_t>{4, {}};
  expect_same_reports(module);
  Module growing = testing::make_module({.layers = 2, .classes = 300, .head = true, .batch = 1024, .norm_rows = 16});
  growing.train.growth = GrowthSpec{
      .first = 256, .times = 4, .after = {1, TrainSpan::kEpochs}, .over = {2, TrainSpan::kEpochs}, .span = {}};
  growing.train.duration = {5, TrainSpan::kEpochs};
  expect_same_reports(growing);
}

TEST(KeptModel, InstructionsNameTheirLines) {
  const Made made = made_of(testing::make_module({.layers = 2, .classes = 300, .head = true}));
  const KeptModel& kept = *made.plan.kept;
  const Node& stem = kept.module.graph.nodes[0];
  ASSERT_EQ(stem.path, "stem");
  ASSERT_NE(kept.line_of(stem.span), nullptr);
  EXPECT_EQ(kept.line_of(stem.span)->line, 1);
  EXPECT_EQ(kept.line_of(stem.span)->text, "line 00");
  EXPECT_EQ(kept.line_of(Span()), nullptr);
  const Instruction& first = made.plan.training.instructions[0];
  EXPECT_THAT(source_of(made.plan, first), HasSubstr("small.xgraph:"));
}

TEST(KeptModel, PlansOfEarlierVersionsHaveNoModel) {
  Made made = made_of(testing::make_module({}));
  made.plan.kept = std::nullopt;
  const auto loaded = load_plan_bytes(plan_bytes(made.plan), "a.xplan", &test_registry());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_FALSE(loaded->kept.has_value());
}

TEST(KeptModel, UnknownOperatorsAreNamed) {
  const Made made = made_of(testing::make_module({}));
  const OpRegistry few({test_registry().find("linear")});
  const auto loaded = load_plan_bytes(plan_bytes(made.plan), "a.xplan", &few);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, "XG0624");
  EXPECT_THAT(loaded.error().message, HasSubstr("`a.xplan` has the operator `"));
}

// A plan whose model was changed is refused with the list of its changes.
TEST(KeptModel, ChangesNameThePartsOfTheModel) {
  const Made made = made_of(testing::make_module({.layers = 1}));
  EXPECT_THAT(list_changes(made.plan, made.training, made.facts, made.plan.machine), ElementsAre());
  const Module other = prepare_training(testing::make_module({.layers = 2}));
  Module changed = other;
  changed.sources = {{"small.xgraph", "new"}};
  Plan plan = made.plan;
  plan.sources = {{"small.xgraph", "old"}};
  const std::vector<std::string> changes = list_changes(plan, changed, make_facts(other), plan.machine);
  ASSERT_GE(changes.size(), 3U);
  EXPECT_EQ(changes[0], "`small.xgraph` has changed since plan " + plan.id + " was made");
  EXPECT_THAT(changes[1], HasSubstr("the plan has no `layer1"));
  EXPECT_THAT(changes.back(), HasSubstr("other parts of the model differ"));
}

// Damaged models are refused, or their reports work: no bytes make a report fail.
TEST(KeptModel, DamagedModelsAreRefusedOrSound) {
  const Made made = made_of(testing::make_module({.layers = 1, .classes = 150, .head = true, .batch = 64}));
  Plan bare = made.plan;
  bare.kept = std::nullopt;
  std::vector<std::byte> bytes = plan_bytes(made.plan);
  bytes.resize(bytes.size() - sizeof(Sha256));
  constexpr uint32_t kSeed = 20251201;
  std::mt19937 random(kSeed);
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  int sound = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> damaged = bytes;
    // FlatBuffers are written from their end, so that the model lies before the programs.
    const size_t place = random() % damaged.size();
    damaged[place] = static_cast<std::byte>(random());
    const Sha256 digest = sha256(damaged);
    damaged.insert(damaged.end(), digest.begin(), digest.end());
    const auto loaded = load_plan_bytes(damaged, "a.xplan", &test_registry());
    if (loaded.ok() && loaded->kept) {
      ++sound;
      EXPECT_FALSE(report_json(*loaded, loaded->kept->module).empty());
      EXPECT_FALSE(report_text(*loaded, loaded->kept->module).empty());
      EXPECT_FALSE(report_table(*loaded, loaded->kept->module, "layers").empty());
    }
  }
  EXPECT_GT(sound, 100);
}

}  // namespace
}  // namespace xrun::planner
