// The time to build graphs of nearest classes, and how a plan reports it.
#include "planner/cost/graph_builds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/planner.h"
#include "planner/report/json.h"
#include "planner/report/summary.h"
#include "planner/report/text.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The times are those that `xrun bench knn` measured on two cores of AMD Zen 4 (docs/reference/benchmarks.md,
// "Figures"), in seconds; approximate builds include the time of their recall.
TEST(GraphBuilds, PredictedTimesAreNearMeasurements) {
  KernelFacts facts;
  facts.flops_per_second_f32 = 1.2e11;
  facts.flops_per_second_bf16 = 2.0e11;
  const Machine machine{.cores = 2, .devices = 1, .threads = 2};
  const CostModel cost(facts, machine);
  const auto shape = [](int64_t classes, int64_t dim, int64_t neighbours = 32, int workers = 2) {
    return KnnShape{.classes = classes, .dim = dim, .neighbours = neighbours, .workers = workers};
  };
  for (const auto& [graph, seconds] : std::vector<std::pair<KnnShape, Seconds>>{{shape(5'000, 64), 0.032},
                                                                                {shape(20'000, 64), 0.23},
                                                                                {shape(20'000, 64, 8), 0.155},
                                                                                {shape(20'000, 64, 128), 0.54},
                                                                                {shape(20'000, 128), 0.317},
                                                                                {shape(20'000, 512), 0.9},
                                                                                {shape(100'000, 64), 3.0},
                                                                                {shape(100'000, 128), 5.0},
                                                                                {shape(1'000'000, 64), 260}}) {
    EXPECT_NEAR(cost.exact_graph(graph) / seconds, 1, 0.25) << graph.classes << " x " << graph.dim;
  }
  for (const auto& [graph, seconds] : std::vector<std::pair<KnnShape, Seconds>>{{shape(20'000, 64), 0.16},
                                                                                {shape(20'000, 64, 128), 0.31},
                                                                                {shape(20'000, 128), 0.225},
                                                                                {shape(20'000, 512), 0.52},
                                                                                {shape(100'000, 64), 1.0},
                                                                                {shape(100'000, 128), 1.65},
                                                                                {shape(100'000, 256), 2.4},
                                                                                {shape(300'000, 64), 3.1},
                                                                                {shape(1'000'000, 64), 20}}) {
    EXPECT_NEAR(cost.approximate_graph({.graph = graph}) / seconds, 1, 0.25) << graph.classes << " x " << graph.dim;
  }
  // Measured on two cores with AMX that also serve other machines. There the products are so fast that they do not hide
  // the comparisons of scores.
  KernelFacts tiles;
  tiles.isa = "amx";
  tiles.flops_per_second_f32 = 1.2e11;
  tiles.flops_per_second_bf16 = 7.0e11;
  for (const auto& [graph, seconds] : std::vector<std::pair<KnnShape, Seconds>>{
           {shape(100'000, 16), 1.65}, {shape(100'000, 64), 2.55}, {shape(1'000'000, 128), 191}}) {
    EXPECT_NEAR(CostModel(tiles, machine).exact_graph(graph) / seconds, 1, 0.3) << graph.classes << " x " << graph.dim;
  }
  // Threads beyond the number of cores share the cores.
  EXPECT_EQ(cost.exact_graph(shape(20'000, 64, 32, 8)), cost.exact_graph(shape(20'000, 64)));
  EXPECT_EQ(cost.exact_graph(shape(20'000, 64, 32, 1)), 2 * cost.exact_graph(shape(20'000, 64)));
}

// With two workers each, n ranks together compare 2 - 1/n times the pairs of one rank, and do so n times as fast. In an
// approximate graph, each pair is compared once for each side, so the number of pairs does not grow.
TEST(GraphBuilds, AreDividedAmongRanks) {
  KernelFacts facts;
  facts.flops_per_second_f32 = 1.2e11;
  facts.flops_per_second_bf16 = 2.0e11;
  const Machine machine{.cores = 2, .devices = 1, .threads = 2};
  const CostModel cost(facts, machine);
  const KnnShape shape{.classes = 10'000'000, .dim = 64, .neighbours = 2, .workers = 2};
  for (const int ranks : {1, 2, 3, 8}) {
    EXPECT_NEAR(cost.exact_graph(shape, ranks) / cost.exact_graph(shape), (2 - 1.0 / ranks) / ranks, 0.01) << ranks;
    EXPECT_DOUBLE_EQ(cost.approximate_graph({.graph = shape}, ranks), cost.approximate_graph({.graph = shape}) / ranks);
  }
}

// Three devices with one, two and one workers on two ranks. The first rank has the first two devices.
TEST(GraphBuilds, WaitForTheRankWithTheFewestWorkers) {
  Program program{.devices = 3, .threads = {1, 2, 1}, .ranks = 2};
  program.heads.push_back({.classes = 1000, .dim = 8, .neighbours = 4});
  EXPECT_EQ(workers_of_rank(program, 0), 3);
  EXPECT_EQ(workers_of_rank(program, 1), 1);
  KernelFacts facts;
  facts.flops_per_second_f32 = 1.2e11;
  facts.flops_per_second_bf16 = 2.0e11;
  const Machine machine{.cores = 4, .devices = 3, .threads = 4};
  const CostModel cost(facts, machine);
  KnnCellsShape shape = knn_cells_shape(program, program.heads[0]);
  EXPECT_EQ(shape.graph.workers, 4);
  shape.graph.workers = 1;
  const std::vector<GraphBuild> builds = graph_builds(program, cost);
  ASSERT_EQ(builds.size(), 1U);
  EXPECT_EQ(builds[0].exact, cost.exact_graph(shape.graph, 2));
  EXPECT_EQ(builds[0].approximate, cost.approximate_graph(shape, 2));
}

// Makes a model with 100,000 classes.
Module model_of(const ActiveSpec& active) {
  Module text = testing::make_module({.layers = 1,
                                      .input = 32,
                                      .width = 64,
                                      .classes = 100'000,
                                      .head = true,
                                      .head_cosine = true,
                                      .batch = 64,
                                      .norm_rows = 32});
  text.train.active_classes = active;
  return text;
}

// A planned run with 1,000 steps per epoch.
struct Planned {
  explicit Planned(const TrainSpan& rebuild, double epochs = 2, bool exact = true) {
    Module text =
        model_of({.kind = ActiveSpec::kKnn, .amount = 0.01, .neighbours = 32, .rebuild = rebuild, .exact = exact});
    text.train.duration = {epochs, TrainSpan::kEpochs};
    module = testing::prepare_training(text);
    const Module inference = testing::prepare_inference(text);
    facts = testing::make_facts(module);
    facts.flops_per_second_f32 = 1.2e11;
    facts.flops_per_second_bf16 = 2.0e11;
    const Machine machine{.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = kGiB};
    plan = make_plan(module, inference, facts, testing::make_facts(inference), machine, {}).value();
    plan.samples = 64'000;
    plan.predicted.step = 0.01;
  }
  std::string page() const { return report_text(plan, module); }

  Module module;
  KernelFacts facts;
  Plan plan;
};

TEST(GraphBuilds, AddTheirTimeToTheEpochAndTheRun) {
  const Planned planned({0.5, TrainSpan::kEpochs});
  const Plan& plan = planned.plan;
  ASSERT_EQ(plan.graphs.size(), 1U);
  const Seconds build = build_time(plan);
  EXPECT_NEAR(build, 2.8, 0.3);
  EXPECT_EQ(plan.graphs[0].time(), plan.graphs[0].exact);
  const auto period = graph_period(plan, planned.module);
  ASSERT_TRUE(period.has_value());
  EXPECT_DOUBLE_EQ(period->steps, 500);
  EXPECT_DOUBLE_EQ(period->time, 5);
  EXPECT_EQ(period->builds, 3) << "after 500, 1,000 and 1,500 of 2,000 steps";
  const RunTimes times = run_times(plan, planned.module);
  EXPECT_NEAR(*times.run, 20 + 3 * build, 1e-9);
  EXPECT_NEAR(*times.epoch, *times.run / 2, 1e-9);
  EXPECT_THAT(planned.page(), HasSubstr("  graphs     id exact, " + format_seconds(build) +
                                        " a build; one every 0.5 epochs (5.0 s of steps): "));
  const auto json = nlohmann::json::parse(report_json(plan, planned.module));
  EXPECT_EQ(json["graphs"]["builds"], 3);
  EXPECT_EQ(json["graphs"]["heads"][0]["head"], "id");
  EXPECT_EQ(json["graphs"]["heads"][0]["build_seconds"], build);

  // A plan that was read from a file has no graphs until they are predicted again.
  Plan read = plan;
  read.graphs.clear();
  EXPECT_FALSE(graph_period(read, planned.module).has_value());
  ASSERT_TRUE(complete_plan(read, planned.module, planned.facts).ok());
  EXPECT_EQ(build_time(read), build);
}

TEST(GraphBuilds, BeginAtOnceForTrainedWeights) {
  Planned planned({0.5, TrainSpan::kEpochs});
  planned.module.train.init_checkpoint = "other";
  EXPECT_EQ(graph_period(planned.plan, planned.module)->builds, 4);
}

TEST(GraphBuilds, AddNothingIfThePeriodIsUnknown) {
  Planned planned({0.5, TrainSpan::kEpochs});
  planned.plan.samples = 0;
  EXPECT_FALSE(graph_period(planned.plan, planned.module).has_value());
  EXPECT_FALSE(slow_graphs(planned.plan, planned.module).has_value());
  EXPECT_THAT(planned.page(), HasSubstr(" a build; one every 0.5 epochs\n"));
  planned.module.train.active_classes.rebuild = {100, TrainSpan::kSteps};
  EXPECT_TRUE(graph_period(planned.plan, planned.module).has_value());
}

TEST(GraphBuilds, CauseAWarningIfLongerThanTheirPeriod) {
  const Planned fast({0.5, TrainSpan::kEpochs});
  EXPECT_FALSE(slow_graphs(fast.plan, fast.module).has_value());

  const Planned slow({100, TrainSpan::kSteps}, 20);
  const auto warning = slow_graphs(slow.plan, slow.module);
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->code, "XG0819");
  EXPECT_EQ(warning->severity, Severity::kWarning);
  EXPECT_EQ(warning->message, "a graph of the nearest classes of `id` takes about " +
                                  format_seconds(build_time(slow.plan)) +
                                  " to build, and the steps of `rebuild` (100 steps) take 1.0 s");
  ASSERT_EQ(warning->notes.size(), 1U);
  EXPECT_THAT(warning->notes[0], HasSubstr("the run takes about 3.8 times as long as without graphs"));
  ASSERT_EQ(warning->fixes.size(), 1U);
  EXPECT_EQ(warning->fixes[0].title, "write exact=false, which takes about " +
                                         format_seconds(slow.plan.graphs[0].approximate) + ", or rebuild=3000 steps");

  const Planned slower({10, TrainSpan::kSteps});
  EXPECT_EQ(slow_graphs(slower.plan, slower.module)->fixes[0].title,
            "write exact=false, which takes about " + format_seconds(slower.plan.graphs[0].approximate) +
                " and goes with rebuild=1000 steps");

  // A run that takes only a second gets no warning.
  Planned brief({100, TrainSpan::kSteps}, 20);
  for (GraphBuild& graph : brief.plan.graphs) {
    graph.exact = 4e-3;
  }
  brief.plan.predicted.step = 1e-5;
  EXPECT_FALSE(slow_graphs(brief.plan, brief.module).has_value());

  // A longer period, which would be as long as the run, is not proposed; the graph is approximate already.
  const Planned none({10, TrainSpan::kSteps}, 0.1, false);
  EXPECT_EQ(slow_graphs(none.plan, none.module)->fixes[0].title,
            "write active_classes = sample(10%), which needs no graph");
}

// Most of the memory of such a run is host memory.
TEST(GraphBuilds, TheirMemoryIsAmongTheReasonsOfARefusal) {
  Module text = model_of({.kind = ActiveSpec::kKnn, .amount = 0.01, .neighbours = 32, .rebuild = {10}});
  GroupSpec group;
  group.path = "id";
  group.untouched = Untouched::kExact;
  text.train.groups.push_back(group);
  const Module module = testing::prepare_training(text);
  const Module inference = testing::prepare_inference(text);
  const Machine machine{.name = "cpu", .cores = 1, .devices = 1, .threads = 1, .memory = 70 * kMiB};
  const auto plan =
      make_plan(module, inference, testing::make_facts(module), testing::make_facts(inference), machine, {});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, "XG0601");
  ASSERT_EQ(plan.error().notes.size(), 1U);
  EXPECT_THAT(plan.error().notes[0],
              ::testing::ContainsRegex("\ngraph of nearest classes, on the host +[0-9.]+ MiB  <- "
                                       "largest"));
  ASSERT_FALSE(plan.error().choices.empty());
  size_t at = std::string::npos;
  for (const std::string& choice : plan.error().choices) {
    EXPECT_TRUE(at == std::string::npos || at == choice.find(" samples/s")) << "one below the other: " << choice;
    at = choice.find(" samples/s");
  }
  EXPECT_THAT(plan.error().choices, ::testing::Contains(::testing::StartsWith("active_classes = sample(1%) ")));
}

TEST(GraphBuilds, ArePlannedOnlyForRunsWithNeighbourLists) {
  const Module module =
      testing::prepare_training(testing::make_module({.layers = 1, .classes = 200, .head = true, .batch = 64}));
  const Module inference =
      testing::prepare_inference(testing::make_module({.layers = 1, .classes = 200, .head = true, .batch = 64}));
  const Machine machine{.name = "cpu", .cores = 1, .devices = 1, .threads = 1, .memory = kGiB};
  const Plan plan =
      make_plan(module, inference, testing::make_facts(module), testing::make_facts(inference), machine, {}).value();
  EXPECT_TRUE(plan.graphs.empty());
  EXPECT_THAT(report_text(plan, module), Not(HasSubstr("graphs")));
  EXPECT_FALSE(nlohmann::json::parse(report_json(plan, module)).contains("graphs"));
}

}  // namespace
}  // namespace xrun::planner
