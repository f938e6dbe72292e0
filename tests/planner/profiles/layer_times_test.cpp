#include "planner/profiles/layer_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/profiles/given_times.h"
#include "planner/profiles/layer_profile.h"
#include "planner/report/diff.h"
#include "planner/report/json.h"
#include "planner/report/layers.h"
#include "planner/report/text.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(LayerTimes, HaveTheNamesTheRowsAndTheLines) {
  const auto times = parse_layer_times(R"({
  "layers": {"stem": {"forward_ms": 3.5, "backward_ms": 7},
    "blocks.0":
      {"forward_ms": 0}
  },
  "rows": 64
})",
                                       "t.json");
  ASSERT_TRUE(times.ok()) << times.error().message;
  EXPECT_EQ(times->rows, 64);
  EXPECT_EQ(times->file, "t.json");
  ASSERT_EQ(times->layers.size(), 2U);
  EXPECT_EQ(times->layers[0].name, "stem");
  EXPECT_DOUBLE_EQ(times->layers[0].forward, 3.5e-3);
  EXPECT_DOUBLE_EQ(*times->layers[0].backward, 7e-3);
  EXPECT_EQ(times->layers[0].line, 2);
  EXPECT_EQ(times->layers[1].name, "blocks.0");
  EXPECT_EQ(times->layers[1].forward, 0);
  EXPECT_FALSE(times->layers[1].backward.has_value());
  EXPECT_EQ(times->layers[1].line, 3);
}

TEST(LayerTimes, FaultsOfTheTextNameTheirLine) {
  const auto file = [](const std::string& layers) { return "{\"rows\": 8,\n\"layers\": {\n" + layers + "\n}}"; };
  const std::pair<std::string, std::string> cases[] = {
      {"", "t.json:1: the text is not JSON"},
      {"node1 -- Conv -- forward_compute_time=1\n", "t.json:1: the text is not JSON"},
      {"[1, 2]", "t.json:1: the file is a list, not an object"},
      {"{}", "t.json:1: no `rows`"},
      {"{\"rows\": 1}", "t.json:1: no `layers`"},
      {"{\"layers\": {\"a\": {\"forward_ms\": 1}}\n}", "t.json:2: no `rows`"},
      {"{\"rows\": 1, \"layers\": {}}", "t.json:1: `layers` is empty"},
      {"{\"rows\": 1, \"layers\": 3}", "t.json:1: `layers` is a number, not an object"},
      {"{\"rows\":\n0}", "t.json:2: `rows` is 0"},
      {"{\"rows\": 1.5}", "t.json:1: `rows` is 1.5"},
      {"{\"rows\": -1}", "t.json:1: `rows` is -1"},
      {"{\"rows\": 1000000001}", "t.json:1: `rows` is 1000000001"},
      {"{\"rows\": \"8\"}", "t.json:1: `rows` is a string, not a number"},
      {"{\"rows\": 1, \"rows\": 2}", "t.json:1: `rows` is there twice"},
      {"{\"rows\": 1, \"batch\": 2}", "t.json:1: unknown entry `batch`"},
      {file("\"a\": 3"), "t.json:3: `a` is a number, not an object"},
      {file("\"a\": {}"), "t.json:3: layer `a` has no `forward_ms`"},
      {file("\"a\": {\"backward_ms\": 1}"), "t.json:3: layer `a` has no `forward_ms`"},
      {file("\"a\": {\"forward_ms\": 1},\n\"a\": {\"forward_ms\": 1}"), "t.json:4: layer `a` is there twice"},
      {file("\"a\": {\"forward_ms\": 1,\n\"forward_ms\": 1}"), "t.json:4: `forward_ms` is there twice"},
      {file("\"a\": {\"forward\": 1}"), "t.json:3: unknown entry `forward`"},
      {file("\"a\": {\"forward_ms\": -1}"), "t.json:3: `forward_ms` of `a` is -1, not a time"},
      {file("\"a\": {\"forward_ms\": -0.5}"), "t.json:3: `forward_ms` of `a` is -0.5, not a time"},
      {file("\"a\": {\"forward_ms\": 1e10}"), "t.json:3: `forward_ms` of `a` is 10000000000, not a time"},
      {file("\"a\": {\"forward_ms\": 1e999}"), "t.json:3: a number is too large"},
      {file("\"a\": {\"forward_ms\": NaN}"), "t.json:3: the text is not JSON"},
      {file("\"a\": {\"forward_ms\": null}"), "t.json:3: `forward_ms` of `a` is a null, not a number"},
      {file("\"a\": {\"forward_ms\": true}"), "t.json:3: `forward_ms` of `a` is a true or false, not a number"},
      {file("\"a\": {\"forward_ms\": [1]}"), "t.json:3: `forward_ms` of `a` is a list, not a number"},
      {file("\"a\": {\"forward_ms\": {}}"), "t.json:3: `forward_ms` of `a` is an object, not a number"},
      {file("\"a\": {\"forward_ms\": 1}") + "x", "t.json:4: the text is not JSON"},
      {file("\"" + std::string(1001, 'a') + "\": {\"forward_ms\": 1}"), "t.json:3: a name has more than 1000 bytes"},
      {std::string(1'000'000, '['), "t.json:1: the file is a list"},
      {"{\"layers\": {\"a\": " + std::string(1'000'000, '['), "t.json:1: `a` is a list, not an object"},
  };
  for (const auto& [text, message] : cases) {
    const auto times = parse_layer_times(text, "t.json");
    ASSERT_FALSE(times.ok()) << message;
    EXPECT_EQ(times.error().code, "XG0632");
    EXPECT_THAT(times.error().message, StartsWith(message));
    EXPECT_FALSE(times.error().help.empty()) << message;
  }
}

TEST(LayerTimes, AProfileAndTimesOfAModelAreNotConfused) {
  const auto times = parse_layer_times("node1 -- Conv -- forward_compute_time=1\n", "p.txt");
  ASSERT_FALSE(times.ok());
  EXPECT_EQ(times.error().help, "a profile is cut without a model: xrun plan --layer-times p.txt --stages 8");
  const auto profile = parse_profile("{\"rows\": 8}", "t.json");
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.error().help, "times as JSON are those of a model: xrun plan MODEL.xgraph --layer-times t.json");
}

TEST(LayerTimes, ATextCutAnywhereIsRejected) {
  const std::string text = R"({"rows": 8, "layers": {"a": {"forward_ms": 1.5, "backward_ms": 2}}})";
  ASSERT_TRUE(parse_layer_times(text, "t").ok());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(parse_layer_times(text.substr(0, size), "t").ok()) << size;
  }
}

TEST(LayerTimes, MoreThanAHundredThousandLayersAreRejected) {
  std::string text = R"({"rows": 8, "layers": {)";
  for (int i = 0; i <= 100'000; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"forward_ms":1})";
  }
  const auto times = parse_layer_times(text + "}}", "t");
  ASSERT_FALSE(times.ok());
  EXPECT_THAT(times.error().message, HasSubstr("more than 100 000 layers"));
}

struct Planned {
  Module module;
  Plan plan;
  UsedTimes used;
};

Module make_model(bool head = false) {
  return testing::make_module({.layers = 4,
                               .input = 256,
                               .width = 256,
                               .classes = head ? 2000 : 10,
                               .head = head,
                               .batch = 64,
                               .norm_rows = 8});
}

// Plans a model with two stages by the given times; none if the text is empty.
Result<Planned> plan_with(Module module, const std::string& text) {
  module.schedule.stages = Hint<int64_t>{2, {}};
  module.schedule.micro_batches = Hint<int64_t>{4, {}};
  Planned planned{testing::prepare_training(module), {}, {}};
  const Module inference = testing::prepare_inference(module);
  KernelFacts facts = testing::make_facts(planned.module);
  if (!text.empty()) {
    XRUN_ASSIGN(const LayerTimes times, parse_layer_times(text, "t.json"));
    XRUN_ASSIGN(planned.used, use_layer_times(times, planned.module, facts));
  }
  const Machine machine{.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = kGiB};
  XRUN_ASSIGN(planned.plan, make_plan(planned.module, inference, facts, testing::make_facts(inference), machine, {}));
  if (!text.empty()) {
    planned.plan.layer_times = planned.used;
  }
  return planned;
}

// Returns the sums over the rows of a layer, which may be in several stages.
PassTimes times_of(const Planned& planned, const std::string& name) {
  PassTimes sum;
  for (const LayerSummary& layer : list_layers(planned.plan, planned.module)) {
    if (layer.name == name) {
      sum += *layer.times;
    }
  }
  return sum;
}

TEST(LayerTimes, ReplaceThoseOfTheCostModel) {
  const auto plain = plan_with(make_model(), "");
  const auto timed = plan_with(make_model(), R"({"rows": 32, "layers": {
    "layer1": {"forward_ms": 40, "backward_ms": 100}, "layer3.relu": {"forward_ms": 6}, "stem": {"forward_ms": 0}}})");
  ASSERT_TRUE(plain.ok() && timed.ok());
  // A micro-batch has 16 rows, half of those of the file.
  EXPECT_NEAR(times_of(*timed, "layer1").forward, 20e-3, 1e-12);
  EXPECT_NEAR(times_of(*timed, "layer1").backward, 50e-3, 1e-12);
  // The backward time of a layer without one is the given forward time times the cost model's ratio.
  const double ratio = [&] {
    PassTimes relu;
    for (const Stage& stage : plain->plan.training.stages) {
      for (size_t i = 0; i < stage.forward.size(); ++i) {
        relu += plain->module.graph.node(stage.forward[i]).path == "layer3.relu" ? node_times(stage)[i] : PassTimes();
      }
    }
    return relu.backward / relu.forward;
  }();
  EXPECT_GT(times_of(*timed, "layer3").forward, 3e-3);
  EXPECT_NEAR(times_of(*timed, "layer3").forward - times_of(*plain, "layer3").forward, 3e-3, 1e-4);
  EXPECT_NEAR(times_of(*timed, "layer3").backward - times_of(*plain, "layer3").backward, 3e-3 * ratio, 1e-4 * ratio);
  EXPECT_EQ(times_of(*timed, "stem").forward, 0);
  EXPECT_EQ(times_of(*timed, "stem").backward, 0);
  EXPECT_DOUBLE_EQ(times_of(*timed, "layer2").forward, times_of(*plain, "layer2").forward);
  EXPECT_DOUBLE_EQ(times_of(*timed, "layer2").backward, times_of(*plain, "layer2").backward);
  EXPECT_EQ(timed->used.layers, 3);
  EXPECT_EQ(timed->used.nodes, 3 + 1 + 1);
  EXPECT_EQ(timed->used.all_nodes, 1 + 4 * 3 + 3);  // the last three: out, loss and accuracy
}

TEST(LayerTimes, DecideTheCutsAndThePredictedStep) {
  // The first layer takes as long as all others together, so the first stage has it alone.
  const auto first = plan_with(make_model(), R"({"rows": 8, "layers": {
    "stem": {"forward_ms": 50, "backward_ms": 100}, "layer0": {"forward_ms": 10, "backward_ms": 20},
    "layer1": {"forward_ms": 10, "backward_ms": 20}, "layer2": {"forward_ms": 10, "backward_ms": 20},
    "layer3": {"forward_ms": 10, "backward_ms": 20}, "out": {"forward_ms": 10, "backward_ms": 20}}})");
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->plan.training.stages[0].forward.size(), 1U);
  // A micro-batch of 16 rows takes 100 ms forward and 200 ms backward on each stage; four of them follow one another.
  EXPECT_GT(first->plan.predicted.step, 4 * 300e-3);
  EXPECT_LT(first->plan.predicted.step, 6 * 300e-3);
  const auto last = plan_with(make_model(), R"({"rows": 8, "layers": {"out": {"forward_ms": 500}}})");
  ASSERT_TRUE(last.ok()) << last.error().message;
  EXPECT_EQ(last->plan.training.stages[1].forward.size(), 3U) << "out, loss and accuracy";
}

TEST(LayerTimes, FaultsOfTheModelNameTheLine) {
  struct Case {
    std::string layers;
    std::string message;
    std::string help;
  };
  const Case cases[] = {
      {R"("layer7": {"forward_ms": 1})", "t.json:1: the model has no layer `layer7`", "layer0"},
      {"\n\"stme\": {\"forward_ms\": 1}", "t.json:2: the model has no layer `stme`", "the nearest is `stem`"},
      {R"("layer0.lin": {"forward_ms": 1})", "t.json:1: the model has no layer `layer0.lin`", "layer0.linear"},
      {R"("layer": {"forward_ms": 1})", "t.json:1: the model has no layer `layer`", "--table layers"},
      {R"("": {"forward_ms": 1})", "t.json:1: the model has no layer ``", "--table layers"},
      {R"("id": {"forward_ms": 1})", "t.json:1: `id` is the head `id`", "leave it out"},
      {R"("head id": {"forward_ms": 1})", "t.json:1: `head id` is the head `id`", "leave it out"},
      {R"("layer0.bn": {"forward_ms": 1}, "layer0": {"forward_ms": 1})",
       "t.json:1: layer `layer0.bn` is part of `layer0`", "no operators in common"},
  };
  for (const Case& one : cases) {
    const auto planned = plan_with(make_model(true), R"({"rows": 8, "layers": {)" + one.layers + "}}");
    ASSERT_FALSE(planned.ok()) << one.message;
    EXPECT_EQ(planned.error().code, "XG0632");
    EXPECT_THAT(planned.error().message, StartsWith(one.message));
    EXPECT_THAT(planned.error().help, HasSubstr(one.help));
  }
}

TEST(LayerTimes, ABackwardTimeNeedsABackwardPass) {
  Module module = make_model();
  for (Parameter& param : module.graph.params) {
    param.trained = param.trained && !module.graph.node(NodeId(0)).inputs.empty() &&
                    param.value != module.graph.node(NodeId(0)).inputs[1];
  }
  const auto with = [&](const char* backward) {
    return plan_with(module, std::string(R"({"rows": 8, "layers": {"stem": {"forward_ms": 1)") + backward + "}}}");
  };
  const auto refused = with(R"(, "backward_ms": 2)");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, StartsWith("t.json:1: layer `stem` has no backward pass"));
  EXPECT_TRUE(with(R"(, "backward_ms": 0)").ok());
  EXPECT_TRUE(with("").ok());
}

TEST(LayerTimes, APlanFileReportsThem) {
  auto timed = plan_with(make_model(), R"({"rows": 32, "layers": {"layer1": {"forward_ms": 40}}})");
  ASSERT_TRUE(timed.ok());
  timed->plan.layer_times->file = "/home/t.json";
  timed->plan.layer_times->sha256 = "ab12";
  const auto loaded = load_plan_bytes(plan_bytes(timed->plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const std::string text =
      "1 layer (3 of 16 operators) has the times of /home/t.json, for 32 rows; others have those of the cost model";
  EXPECT_THAT(report_text(*loaded, timed->module), HasSubstr("\n  times      " + text + "\n"));
  EXPECT_THAT(report_table(*loaded, timed->module, "layers"), HasSubstr("\ntimes: " + text + "\n"));
  EXPECT_THAT(report_table(*loaded, timed->module, "why"), HasSubstr(text));
  EXPECT_THAT(report_why(*loaded, "stages"), HasSubstr(text));
  const nlohmann::json expected{{"file", "/home/t.json"}, {"sha256", "ab12"}, {"rows", 32}, {"layers", 1}, {"ops", 3},
                                {"all_ops", 16}};
  EXPECT_EQ(nlohmann::json::parse(report_json(*loaded, timed->module))["layer_times"], expected);
  EXPECT_EQ(nlohmann::json::parse(why_json(*loaded, "stages"))["layer_times"], expected);
  for (const char* table : {"layers", "why"}) {
    EXPECT_EQ(nlohmann::json::parse(table_json(*loaded, timed->module, table))["layer_times"], expected);
  }
  timed->plan.layer_times->nodes = 17;  // more than there are
  EXPECT_FALSE(load_plan_bytes(plan_bytes(timed->plan)).ok());
}

}  // namespace
}  // namespace xrun::planner
