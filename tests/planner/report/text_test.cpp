#include "planner/report/text.h"

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "graph/cost.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/report/compression.h"
#include "planner/report/diff.h"
#include "planner/report/explain.h"
#include "planner/report/json.h"
#include "planner/report/layers.h"
#include "planner/report/page/instructions_json.h"
#include "planner/report/reason_text.h"
#include "planner/report/summary.h"
#include "planner/report/table.h"
#include "planner/search/fit.h"
#include "tests/planner/test_graphs.h"
#include "tests/support/golden.h"

namespace xrun::planner {
namespace {

struct Planned {
  Module module;
  Plan plan;
};

Planned make(int stages, bool head, bool recompute = false) {
  Module module = testing::make_module(
      {.layers = 4, .input = 256, .width = 256, .classes = 20902, .head = head, .batch = 512, .norm_rows = 32});
  if (head) {
    module.data.sources = {testing::glyphs_source("train", {"one", "two"}, 32), testing::source("test", "csv")};
  }
  if (stages > 0) {
    module.schedule.stages = Hint<int64_t>{stages, {}};
    module.schedule.micro_batches = Hint<int64_t>{8, {}};
  }
  if (recompute) {
    module.schedule.recompute = Hint<RecomputeHint>{{RecomputeHint::kAll, {}}, {}};
  }
  Planned planned{testing::prepare_training(module), {}};
  const Module inference = testing::prepare_inference(module);
  const Machine machine{.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = kGiB};
  planned.plan = make_plan(planned.module, inference, testing::make_facts(planned.module),
                           testing::make_facts(inference), machine, {})
                     .value();
  return planned;
}

TEST(Report, PageOfAPlanWithHeadIsStable) {
  const Planned planned = make(0, true);
  EXPECT_TRUE(test::matches_golden(report_text(planned.plan, planned.module), "report/head.txt"));
}

TEST(Report, CompressedGradientsAreComparedWithDenseOnes) {
  Module module = testing::make_module({.layers = 1, .input = 256, .width = 256, .batch = 64, .norm_rows = 8});
  module.train.compress = {.density = 0.001, .on = {}, .warmup = TrainSpan{4, TrainSpan::kEpochs}, .span = {}};
  module.schedule.replicas = Hint<int64_t>{2, {}};
  Planned planned{testing::prepare_training(module), {}};
  const Module inference = testing::prepare_inference(module);
  const Machine machine{.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = kGiB};
  planned.plan = make_plan(planned.module, inference, testing::make_facts(planned.module),
                           testing::make_facts(inference), machine, {})
                     .value();
  EXPECT_TRUE(test::matches_golden(report_text(planned.plan, planned.module), "report/compress.txt"));
  const auto json = nlohmann::json::parse(report_json(planned.plan, planned.module))["compress"];
  // The weights are 256 x 256 in the stem and in the layer, and 10 x 256: 66 + 66 + 3 pairs of 8 bytes.
  EXPECT_EQ(json["pairs"], 66 + 66 + 3);
  EXPECT_EQ(json["sent_bytes"], 8 * (66 + 66 + 3));
  EXPECT_EQ(json["sent_bytes_at_first"], 2 * (65536 + 65536 + 2560));
  EXPECT_EQ(json["dense_bytes"], 4 * (65536 + 65536 + 2560));
}

// Nodes send what replicas would send otherwise: whole gradients are summed within a node.
TEST(Report, CompressionByNodeReportsTheBytesThatNodesSend) {
  Module module = testing::make_module({.layers = 1, .input = 256, .width = 256, .batch = 64, .norm_rows = 8});
  module.train.compress = {.density = 0.001, .on = {}, .per_node = true};
  module.schedule.replicas = Hint<int64_t>{4, {}};
  const Module training = testing::prepare_training(module);
  const Module inference = testing::prepare_inference(module);
  const auto planned = [&](std::vector<int> nodes) {
    Machine machine{.name = "4 x cpu", .cores = 4, .devices = 4, .threads = 4, .memory = kGiB};
    machine.ranks = nodes.back() + 1;
    machine.device_nodes = std::move(nodes);
    return make_plan(training, inference, testing::make_facts(training), testing::make_facts(inference), machine, {})
        .value();
  };
  const Plan two = planned({0, 0, 1, 1});
  EXPECT_EQ(compression_text(two, training),
            "  compress   topk 0.1 %: 135 of 133 632 gradients a step; each of 2 nodes sends 1.1 KiB, dense 522.0 KiB; "
            "biases and others dense, 2.0 KiB; inside a node 2 replicas sum whole gradients, 522.0 KiB; the result "
            "depends on the number of nodes\n");
  EXPECT_FALSE(unlike_nodes(two, training).has_value());
  const auto json = nlohmann::json::parse(report_json(two, training))["compress"];
  EXPECT_EQ(json["senders"], 2);
  EXPECT_EQ(json["inside_bytes"], 4 * (65536 + 65536 + 2560));
  // If nodes have nothing to send to each other, or do not have the same number of replicas, the plan reports it.
  const Plan one = planned({0, 0, 0, 0});
  EXPECT_NE(compression_text(one, training).find("all 4 replicas lie on one node, so nothing is sent between nodes"),
            std::string::npos);
  const auto alone = unlike_nodes(one, training);
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->code, "XG0630");
  EXPECT_EQ(alone->message, "all 4 replicas lie on one node, so no gradients are sent between nodes");
  const Plan uneven = planned({0, 0, 0, 1});
  EXPECT_NE(compression_text(uneven, training).find("each of 4 replicas sends 3.2 KiB"), std::string::npos)
      << compression_text(uneven, training);
  const auto parts = unlike_nodes(uneven, training);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->message,
            "2 nodes have different numbers of the 4 replicas, so 4 senders compress instead of the nodes");
  EXPECT_EQ(parts->fixes[0].title, "write replicas = 2 or a multiple of it in `schedule`");
  // A plan file stores whether nodes or replicas compress.
  const auto loaded = load_plan_bytes(plan_bytes(two));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->training.sender_replicas, 2);
}

TEST(Report, FormatsOfClassRowsAreShownWithTheirBytes) {
  Module module = testing::make_module({.layers = 1,
                                        .input = 256,
                                        .width = 256,
                                        .classes = 20902,
                                        .head = true,
                                        .weights = RowFormat::kFp8,
                                        .states = RowFormat::kBf16});
  const auto planned = [&](Bytes memory) {
    const Module training = testing::prepare_training(module);
    const Module inference = testing::prepare_inference(module);
    const Machine machine{.name = "2 x cpu", .cores = 2, .devices = 1, .threads = 2, .memory = memory};
    return make_plan(training, inference, testing::make_facts(training), testing::make_facts(inference), machine, {});
  };
  const auto plan = planned(kGiB);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_NE(report_why(*plan, "shards").find("in fp8, states in bf16"), std::string::npos)
      << report_why(*plan, "shards");
  const auto parts = memory_parts(plan->training, 0);
  const auto rows = std::ranges::find(parts, "class weights in fp8, states in bf16", &MemoryPart::name);
  ASSERT_NE(rows, parts.end());
  constexpr Bytes kRows = 20902;
  EXPECT_NEAR(static_cast<double>(rows->bytes), kRows * (256 * 3 + 4), 64 * 3) << "weights, states and scales";
  EXPECT_NE(print(plan->training, testing::prepare_training(module).graph).find(", rows fp8, states bf16, shards"),
            std::string::npos);
  const auto refused = planned(kMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().notes[0].find("class weights in fp8, states in bf16"), std::string::npos);
}

// Rows in a file are not counted as memory of the plan: a head of 16 GiB fits into 2 GiB, and the report names the disk
// space.
TEST(Report, PageOfAPlanShowsTheDiskSpaceOfRowsInAFile) {
  Module module = testing::make_module({.layers = 1,
                                        .input = 64,
                                        .width = 64,
                                        .classes = 200'000'000,
                                        .head = true,
                                        .weights = RowFormat::kFp8,
                                        .states = RowFormat::kBf16});
  module.train.groups[0].rows = RowPlace::kMapped;
  module.train.active_classes = {.kind = ActiveSpec::kSample, .amount = 100'000};
  module.train.checkpoint_every = {50, TrainSpan::kSteps};
  const auto planned = [&](int devices) {
    const Module training = testing::prepare_training(module);
    const Module inference = testing::prepare_inference(module);
    const Machine machine{.name = "2 x cpu", .cores = 2, .devices = devices, .threads = 2, .memory = 2 * kGiB};
    return make_plan(training, inference, testing::make_facts(training), testing::make_facts(inference), machine, {});
  };
  const auto plan = planned(1);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Module training = testing::prepare_training(module);
  EXPECT_TRUE(test::matches_golden(report_text(*plan, training), "report/mapped.txt"));
  const auto json = nlohmann::json::parse(report_json(*plan, training));
  const RowsLayout layout = rows_layout(plan->training, training.graph, 0);
  EXPECT_EQ(json["run_memory"]["disk"][0]["rows"], layout.file_bytes());
  EXPECT_EQ(layout.sections.size(), 3U) << "weights, momentum and scales";
  EXPECT_GE(layout.file_bytes(), int64_t{200'000'000} * (64 + 128 + 4));
  // All shards use the same file.
  const auto two = planned(2);
  ASSERT_TRUE(two.ok()) << two.error().message;
  ASSERT_EQ(two->training.heads[0].shards.size(), 2U);
  EXPECT_EQ(rows_layout(two->training, training.graph, 0), layout);
  EXPECT_EQ(mapped_bytes(two->training, 0) + mapped_bytes(two->training, 1), mapped_bytes(plan->training, 0));
  // In memory the rows do not fit. The error proposes a file, except if all classes are active in every step.
  module.train.groups[0].rows = RowPlace::kMemory;
  const auto refused = planned(1);
  ASSERT_FALSE(refused.ok());
  const auto offers = [](const Error& error) {
    return std::ranges::any_of(
        error.choices, [](const std::string& line) { return line.starts_with("groups { id { rows = mapped } }"); });
  };
  EXPECT_TRUE(offers(refused.error())) << refused.error().help;
  module.train.active_classes = {};
  const auto all = planned(1);
  ASSERT_FALSE(all.ok());
  EXPECT_FALSE(offers(all.error()));
}

// If `cluster.node.storage` gives the speed of writing files, a plan predicts the time of a save.
TEST(Report, TheTimeOfASaveIsPredictedIfTheStorageSpeedIsKnown) {
  Planned planned = make(0, true);
  EXPECT_EQ(report_text(planned.plan, planned.module).find("a save"), std::string::npos);
  const auto json = nlohmann::json::parse(report_json(planned.plan, planned.module));
  const Bytes bytes = json["run_memory"]["save_by_node"].at(0);
  planned.module.cluster.storage = 1e6;
  EXPECT_NE(report_text(planned.plan, planned.module)
                .find("disk       a save takes " + format_seconds(static_cast<double>(bytes) / 1e6) + ": " +
                      format_bytes(bytes) + "\n"),
            std::string::npos)
      << report_text(planned.plan, planned.module);
}

// A plan file may come from others, so its strings must stay within their lines. The console replaces characters that
// control a terminal.
TEST(Report, StringsOfAPlanCannotForgeLines) {
  const std::string hostile = "x\nforged: all is well";
  const Planned planned = make(2, true);
  Plan plan = planned.plan;
  plan.id = plan.model = plan.machine.name = plan.math_digest = plan.isa = hostile;
  plan.options = {{hostile, hostile}};
  plan.sources = {{hostile, hostile}};
  for (Reason& reason : plan.why) {
    reason = {.stored = {hostile, hostile, hostile}};
  }
  plan.why.push_back({.key = Reason::Key::kShards, .head = hostile});
  for (Alternative& other : plan.alternatives) {
    other.stored = StoredAlternative{hostile, hostile};
  }
  std::string all = report_text(plan, planned.module) + report_diff(planned.plan, plan) + report_diff(plan, plan) +
                    report_gantt(plan, planned.module, 80);
  for (const char* table : {"layers", "memory", "comm", "why"}) {
    all += report_table(plan, planned.module, table);
  }
  for (const std::string& key : why_keys(plan)) {
    all += report_why(plan, key);
  }
  EXPECT_NE(all.find("\u240Aforged"), std::string::npos);
  EXPECT_EQ(all.find("\nforged"), std::string::npos) << all;
}

TEST(Report, AHeadIsShownWithItsOwnBuffersOnly) {
  Planned planned = make(0, true);
  const Bytes alone = list_parts(planned.plan, planned.module)[1].memory;
  EXPECT_GT(alone, 0);
  std::vector<HeadPlan>& heads = planned.plan.training.heads;
  heads.push_back(heads[0]);  // adds a second head without buffers
  const std::vector<PlanPart> parts = list_parts(planned.plan, planned.module);
  EXPECT_EQ(parts[1].memory, alone);
  EXPECT_EQ(parts[2].memory, 0);
}

TEST(Report, TimesOfEpochAndRunArePrintedIfTheSamplesAreKnown) {
  Planned planned = make(0, true);
  Plan& plan = planned.plan;
  TrainSpec& train = planned.module.train;
  plan.predicted = {.step = 0.5, .images_per_second = 1024};
  const auto line = [&] {
    const std::string text = report_text(plan, planned.module);
    const size_t at = text.find("  predicted  ");
    return text.substr(at, text.find('\n', at) - at);
  };
  train.duration = {20, TrainSpan::kEpochs};
  EXPECT_EQ(line(), "  predicted  1 024 samples/s");
  plan.samples = 512 * 160;
  EXPECT_EQ(line(), "  predicted  1 024 samples/s     epoch 1 min 20 s     20 epochs 26 min 40 s");
  EXPECT_NE(report_json(plan, planned.module).find("\"run_seconds\": 1600.0"), std::string::npos);
  train.duration.amount = 1;
  EXPECT_EQ(line(), "  predicted  1 024 samples/s     epoch 1 min 20 s");
  train.duration = {1000, TrainSpan::kSteps};
  EXPECT_EQ(line(), "  predicted  1 024 samples/s     epoch 1 min 20 s     1 000 steps 8 min 20 s");
  plan.samples = 0;
  EXPECT_EQ(line(), "  predicted  1 024 samples/s     1 000 steps 8 min 20 s");
}

TEST(Report, SyntheticDataIsReported) {
  Planned planned = make(0, true);
  EXPECT_EQ(report_text(planned.plan, planned.module).find("synthetic"), std::string::npos);
  planned.module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "csv"),
                                 testing::source("more", "synthetic")};
  EXPECT_NE(report_text(planned.plan, planned.module)
                .find("\n  data       synthetic: train, more; not counted for readers: the files of test\n"),
            std::string::npos)
      << report_text(planned.plan, planned.module);
  EXPECT_NE(report_json(planned.plan, planned.module).find("\"synthetic\": [\n"), std::string::npos);
}

TEST(Report, DiffHasTheRowsThatChangedWithBothValues) {
  const Plan before = make(0, false).plan;
  Plan after = before;
  EXPECT_TRUE(diff_plans(before, after).empty());
  after.machine.memory *= 2;
  EXPECT_TRUE(diff_plans(before, after).empty()) << "what is free changes from minute to minute";
  EXPECT_EQ(report_diff(before, after), after.model + ": nothing differs, both are plan " + after.id + "\n");
  after.options = {{"file", "m.xgraph"}, {"deterministic", "true"}, {"devices", "2"}, {"set train.lr", "0.1"}};
  after.sources = {{"m.xgraph", "aabbccddee"}};
  after.training.arenas.back().bytes = 3 * kMiB;
  for (Reason& reason : after.why) {
    reason.value = reason.key == Reason::Key::kMicroBatches ? 77 : reason.value;
  }
  std::vector<std::string> rows;
  for (const PlanChange& change : diff_plans(before, after)) {
    rows.push_back(change.after.name + ": " + change.after.value);
  }
  const std::string device = "cpu " + std::to_string(after.training.arenas.back().device);
  EXPECT_EQ(rows, (std::vector<std::string>{"flags: --deterministic --devices 2 --set train.lr=0.1",
                                            "m.xgraph: aabbccdd", "micro_batches: 77", device + " memory: 3.0 MiB"}));
  // In the opposite direction, the row is removed.
  EXPECT_NE(report_diff(after, before).find("  m.xgraph       aabbccdd"), std::string::npos)
      << report_diff(after, before);
}

// Two plans differ in the logits that they keep, and their stages have passes for other numbers of rows.
TEST(Report, DiffNamesKeptLogitsAndTheRowsOfPasses) {
  const Plan before = make(2, true).plan;
  Plan after = before;
  for (Reason& reason : after.why) {
    if (reason.head_state) {
      reason.head_state->kept = 4864;
    }
  }
  after.training.micro_batches *= 2;
  std::map<std::string, std::string> rows;
  for (const PlanChange& change : diff_plans(before, after)) {
    rows[change.after.name] = change.before.value + " -> " + change.after.value;
  }
  EXPECT_EQ(rows["logits id"], "of all classes, 40.8 MiB -> of 4 864 of 20 902 classes, 40.8 MiB");
  EXPECT_NE(rows["stage 0"].find(" for 64 rows -> "), std::string::npos) << rows["stage 0"];
  EXPECT_TRUE(rows["stage 0"].ends_with(" for 32 rows")) << rows["stage 0"];
}

TEST(Report, DiffOfAPipelineAgainstOneStageIsStable) {
  const Plan one = make(0, true).plan;
  const Plan two = make(2, true).plan;
  EXPECT_TRUE(test::matches_golden(report_diff(one, two), "report/diff.txt"));
  const auto json = nlohmann::json::parse(diff_json(one, two));
  EXPECT_EQ(json["v"], 2);
  EXPECT_EQ(json["before"], one.id);
  for (const auto& row : json["changed"]) {
    if (row["row"] == "cpu 0 memory") {
      EXPECT_EQ(row["before"]["bytes"], std::ranges::find(one.training.arenas, 0, &Arena::device)->bytes);
      EXPECT_EQ(row["after"]["bytes"], std::ranges::find(two.training.arenas, 0, &Arena::device)->bytes);
    }
    if (row["row"] == "stage 1") {
      EXPECT_TRUE(row["before"].is_null());
      EXPECT_EQ(row["after"]["forward_seconds"], two.training.stages[1].forward_time);
    }
    if (row["row"] == "step") {
      EXPECT_EQ(row["before"]["seconds"], one.predicted.step);
      EXPECT_EQ(row["before"]["text"], format_seconds(one.predicted.step));
    }
  }
}

TEST(Report, LinesFitIntoTheColumnsOfTheTerminal) {
  const Planned planned = make(2, true);
  for (const int columns : {80, 100}) {
    std::istringstream lines(report_text(planned.plan, planned.module, columns));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(count_code_points(line), columns) << line;
    }
  }
  const auto words = [](std::string text) {  // the characters of the text, sorted
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    std::ranges::sort(text);
    return text;
  };
  EXPECT_EQ(words(report_text(planned.plan, planned.module, 80)), words(report_text(planned.plan, planned.module)));
  TextTable long_word({Align::kLeft, Align::kRight});
  long_word.add({std::string(200, 'x') + " y", "1"});
  EXPECT_EQ(long_word.text("", 40), std::string(200, 'x') + "  1\ny\n") << "a word stays whole";
  EXPECT_EQ(wrapped("a bb  ccc", 2, 6), "a bb\n  ccc");
  EXPECT_EQ(wrapped("aaaaaaaaaa b", 2, 6), "aaaaaaaaaa\n  b") << "a long word stays whole";
}

TEST(Report, TablesAndTheGanttViewHaveTheNumbersOfTheirTextAsJson) {
  const Planned planned = make(2, true);
  const auto table = [&](const char* name) {
    return nlohmann::json::parse(table_json(planned.plan, planned.module, name));
  };
  const auto layers = table("layers")["layers"];
  const std::vector<LayerSummary> expected = list_layers(planned.plan, planned.module);
  ASSERT_EQ(layers.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layers[i]["name"], expected[i].name);
    EXPECT_EQ(layers[i]["saved"], expected[i].saved);
    EXPECT_EQ(layers[i]["stage"].is_null(), expected[i].stage < 0);
  }
  EXPECT_EQ(table("comm")["comm"].size(), list_communication(planned.plan).size());
  EXPECT_EQ(table("why")["why"].size(), planned.plan.why.size());
  EXPECT_EQ(table("memory")["memory"].size(), list_devices(planned.plan, planned.module).size());
  const auto gantt = nlohmann::json::parse(gantt_json(planned.plan));
  const auto& instructions = gantt["instructions"];
  ASSERT_EQ(instructions.size(), planned.plan.training.instructions.size());
  double last = 0;
  for (const auto& one : instructions) {
    EXPECT_LE(one["begin"].get<double>(), one["end"].get<double>());
    last = std::max(last, one["end"].get<double>());
  }
  const double step = gantt["step_seconds"].get<double>();
  EXPECT_DOUBLE_EQ(step, planned.plan.predicted.step);
  EXPECT_DOUBLE_EQ(last + gantt["data_seconds"].get<double>(), step);
}

TEST(Report, RepeatedBlocksAreSeparateLayersUnlessTheDepthIsOne) {
  Planned planned = make(0, false);
  const std::vector<std::string> paths{"stem", "blocks.0.mlp.fc", "blocks.0.norm", "blocks.1.mlp.fc", "top.fc"};
  Stage& stage = planned.plan.training.stages[0];
  ASSERT_GE(stage.forward.size(), paths.size());
  stage.forward.resize(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    planned.module.graph.nodes[static_cast<size_t>(stage.forward[i].index)].path = paths[i];
  }
  const auto names = [&](int depth) {
    std::vector<std::string> list;
    for (const LayerSummary& layer : list_layers(planned.plan, planned.module, depth)) {
      list.push_back(layer.name);
    }
    return list;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(0), (Names{"stem", "blocks.0", "blocks.1", "top"}));
  EXPECT_EQ(names(1), (Names{"stem", "blocks", "top"}));
  EXPECT_EQ(names(3), (Names{"stem", "blocks.0.mlp", "blocks.0.norm", "blocks.1.mlp", "top.fc"}));
}

TEST(Report, ReasonsOfADecisionIncludePlansThatDecideOtherwise) {
  const Plan plan = make(0, true).plan;
  const std::vector<std::string> keys = why_keys(plan);
  ASSERT_EQ(keys.size(), 5U);
  EXPECT_EQ(keys[0], "stages");
  EXPECT_EQ(keys[3].substr(0, 7), "shards ");
  std::string all;
  for (const std::string& key : keys) {
    all += report_why(plan, key) + "\n";
  }
  EXPECT_TRUE(test::matches_golden(all, "report/why.txt"));
  EXPECT_EQ(report_why(plan, "shards"), report_why(plan, keys[3]));
  EXPECT_EQ(report_why(plan, "stage"), "") << "a part of a name is none";
  EXPECT_EQ(report_why(plan, ""), "");
  EXPECT_NE(why_json(plan, "stages").find("\"choice\": \"stages = "), std::string::npos);
}

TEST(Report, ReasonsOfAPipelineNameTheOtherOne) {
  const Planned planned = make(2, false);
  const Alternative& other = planned.plan.alternatives.at(0);
  ASSERT_NE(other.pipeline.kind, planned.plan.training.schedule);
  EXPECT_EQ(report_why(planned.plan, "pipeline").find("  why    pipeline = gpipe  one_f_one_b is 0.3 % slower\n"), 0U)
      << report_why(planned.plan, "pipeline");
  EXPECT_EQ(report_why(make(0, true).plan, "pipeline"), "") << "one stage has no pipeline";
  const auto loaded = load_plan_bytes(plan_bytes(planned.plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(report_why(*loaded, "pipeline"), report_why(planned.plan, "pipeline"));
}

TEST(Report, ComparedPlansAreSortedByTime) {
  for (const auto& planned : {make(0, true), make(0, false), make(2, true)}) {
    EXPECT_TRUE(std::ranges::is_sorted(planned.plan.alternatives, {}, &Alternative::step));
  }
}

TEST(Report, CountsAreGroupedAndNoIdleTimeIsNotNamed) {
  Rival rival{.stages = 2, .ratio = 0.054, .idle = 0.0004};
  Reason reason{.key = Reason::Key::kStages, .value = 1, .cause = Reason::Cause::kRival, .rival = rival};
  EXPECT_EQ(reason_text(reason), "two stages are 5.4 % slower");
  reason.rival->idle = 0.062;
  EXPECT_EQ(reason_text(reason), "two stages would idle 6.2 %: 5.4 % slower");
  EXPECT_EQ(choice_text({.key = Reason::Key::kRecompute, .value = 1000, .of = 1251}),
            "recompute = 1 000 of 1 251 layers");
  EXPECT_EQ(settings_text({.stages = 2, .recomputed = 1251}),
            "stages = 2, micro_batches = 1, pipeline = gpipe, recompute 1 251 layers");
}

TEST(Report, PageOfAPipelineIsStable) {
  const Planned planned = make(2, false);
  EXPECT_TRUE(test::matches_golden(report_text(planned.plan, planned.module), "report/pipeline.txt"));
}

TEST(Report, TablesAreStable) {
  const Planned planned = make(2, true);
  std::string all;
  for (const char* table : {"layers", "memory", "comm", "why"}) {
    const std::string text = report_table(planned.plan, planned.module, table);
    EXPECT_FALSE(text.empty()) << table;
    all += text + "\n";
  }
  EXPECT_TRUE(test::matches_golden(all, "report/tables.txt"));
  EXPECT_EQ(report_table(planned.plan, planned.module, "nothing"), "");
}

TEST(Report, GanttDrawsEveryPassOfEveryStage) {
  const Planned planned = make(2, false);
  const std::string text = report_gantt(planned.plan, planned.module, 100);
  EXPECT_TRUE(test::matches_golden(text, "report/gantt.txt"));
  for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    if (text.compare(at, 6, "stage ") == 0) {
      EXPECT_LE(end - at, 100U);
    }
  }
}

TEST(Report, JsonHasTheKeysOfTheFormat) {
  const Planned planned = make(2, true);
  const std::string text = report_json(planned.plan, planned.module);
  for (const char* key : {"v", "plan", "digests", "cluster", "parts", "stages", "shards", "ops", "memory", "run_memory",
                          "comm", "predicted", "alternatives"}) {
    EXPECT_NE(text.find("\n  \"" + std::string(key) + "\": "), std::string::npos) << key;
  }
  EXPECT_NE(text.find("\"" + planned.plan.id + "\""), std::string::npos);
}

TEST(Report, JsonOfAPathThatIsNotUtf8IsStillJson) {
  Planned planned = make(0, false);
  planned.plan.sources = {{"caf\xE9.xgraph", "aa11"}};  // a Latin-1 path
  const std::string text = report_json(planned.plan, planned.module);
  EXPECT_NE(text.find("\"caf\xEF\xBF\xBD.xgraph\": \"aa11\""), std::string::npos);
}

TEST(Report, LayersSumUpToTheModel) {
  const Planned planned = make(2, true);
  int64_t parameters = 0;
  for (const PlanPart& part : list_parts(planned.plan, planned.module)) {
    parameters += part.parameters;
  }
  EXPECT_EQ(parameters, planned.module.graph.parameter_count());
  parameters = 0;
  Seconds forward = 0;
  for (const LayerSummary& layer : list_layers(planned.plan, planned.module)) {
    parameters += layer.parameters;
    forward += layer.stage >= 0 ? layer.times->forward : 0;
  }
  EXPECT_EQ(parameters, planned.module.graph.parameter_count());
  EXPECT_NEAR(forward, planned.plan.training.stages[0].forward_time + planned.plan.training.stages[1].forward_time,
              1e-12);
}

// The page, the table of layers and the limit of the step have one time of the head.
TEST(Report, TheTimeOfAHeadIsTheSameEverywhere) {
  for (const int stages : {0, 2}) {
    const Planned planned = make(stages, true);
    const PlanPart part = list_parts(planned.plan, planned.module)[1];
    const LayerSummary layer = list_layers(planned.plan, planned.module).back();
    ASSERT_EQ(part.name, layer.name);
    EXPECT_NEAR(layer.times->forward + layer.times->backward, part.time, 1e-9 * part.time);
    ASSERT_EQ(planned.plan.certificate->limit, Certificate::Limit::kHead);
    EXPECT_NEAR(planned.plan.certificate->busy, part.time, 1e-9 * part.time);
  }
}

TEST(Report, FlopsOfTheLayersAreThoseOfTheForwardGraph) {
  const Planned planned = make(2, false);
  Flops sum = 0;
  for (const LayerSummary& layer : list_layers(planned.plan, planned.module)) {
    sum += layer.forward_flops;
  }
  EXPECT_DOUBLE_EQ(sum, total_cost(planned.module.graph, Phase::kForward).flops);
}

// Computes, from the graph alone, the bytes of the values that a backward pass reads but that neither its nodes nor the
// loader compute.
Bytes kept_for_backward(const Program& program, const Graph& graph, const Stage& stage) {
  std::set<NodeId> run(stage.recomputed.begin(), stage.recomputed.end());
  run.insert(stage.backward.begin(), stage.backward.end());
  std::set<ValueId> read;
  for (const NodeId id : run) {
    for (const ValueId value : graph.node(id).inputs) {
      const NodeId producer = graph.value(value).producer;
      if (producer.valid() && graph.node(producer).phase == Phase::kForward && !run.contains(producer)) {
        read.insert(value);
      }
    }
  }
  Bytes bytes = 0;
  for (const ValueId value : read) {
    bytes += graph.value(value).type.bytes(program.micro_batch_rows(), program.norm_rows);
  }
  return bytes;
}

TEST(Report, SavedBytesOfTheLayersAreThoseThatTheBackwardPassReads) {
  for (const int stages : {1, 2}) {
    for (const bool recompute : {false, true}) {
      const Planned planned = make(stages, true, recompute);
      const Program& program = planned.plan.training;
      ASSERT_EQ(program.stages.size(), static_cast<size_t>(stages));
      std::map<int, Bytes> saved;
      for (const LayerSummary& layer : list_layers(planned.plan, planned.module)) {
        saved[layer.stage] += layer.saved;
      }
      for (const Stage& stage : program.stages) {
        EXPECT_EQ(stage.recomputed.empty(), !recompute);
        EXPECT_TRUE(recompute || saved[stage.index] > 0);
        EXPECT_EQ(saved[stage.index], kept_for_backward(program, planned.module.graph, stage))
            << "stage " << stage.index << " of " << stages << (recompute ? ", recomputed" : "");
      }
    }
  }
}

TEST(Report, MemoryPartsAddUpToThePeak) {
  for (const bool head : {false, true}) {
    const Planned planned = make(2, head);
    for (const Arena& arena : planned.plan.training.arenas) {
      Bytes sum = 0;
      for (const MemoryPart& part : memory_parts(planned.plan.training, arena.device)) {
        sum += part.bytes;
      }
      EXPECT_EQ(sum, arena.live_max) << arena.device;
    }
  }
}

TEST(Report, AMemoryLimitAndItsEffectAreShown) {
  Module module = testing::make_module({.layers = 4, .input = 256, .width = 256, .batch = 512, .norm_rows = 32});
  const Module inference = testing::prepare_inference(module);
  module.schedule.pipeline = Hint<PipelineHint>{{.kind = PipelineKind::kGpipe}, {}};
  const Machine machine{.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = kGiB};
  const auto planned = [&](Bytes limit) {
    module.schedule.memory_limit = limit > 0 ? std::optional(Hint<Bytes>{limit, {}}) : std::nullopt;
    Planned made{testing::prepare_training(module), {}};
    made.plan =
        make_plan(made.module, inference, testing::make_facts(made.module), testing::make_facts(inference), machine, {})
            .value();
    return made;
  };
  const Planned free = planned(0);
  EXPECT_EQ(report_text(free.plan, free.module).find("memory_limit"), std::string::npos);
  const Bytes used = largest_device_of(free.plan.training);
  const Planned wide = planned(used + kMiB);
  EXPECT_NE(report_text(wide.plan, wide.module)
                .find("; the largest device uses " + format_bytes(used) + " of its " + format_bytes(used + kMiB) +
                      " (memory_limit)\n"),
            std::string::npos)
      << report_text(wide.plan, wide.module);
  EXPECT_NE(report_why(wide.plan, "recompute").find("activations fit\n"), std::string::npos);
  const auto json = nlohmann::json::parse(report_json(wide.plan, wide.module))["run_memory"];
  EXPECT_EQ(json["memory_limit"], used + kMiB);
  EXPECT_EQ(json["largest_device"], used);
  // With less memory a slower plan is chosen, although its activations fit.
  const Planned tight = planned(used * 9 / 10);
  ASSERT_EQ(recomputed_layers(tight.plan.training), 0);
  EXPECT_GT(tight.plan.predicted.step, free.plan.predicted.step);
  const std::string why = report_why(tight.plan, "recompute");
  EXPECT_NE(why.find("activations fit; "), std::string::npos) << report_text(tight.plan, tight.module);
  EXPECT_NE(why.find(" too much memory (estimated)\n"), std::string::npos) << why;
}

// The times of rows add up to the step, and their memory to the largest device, as far as they are on it.
TEST(Report, PartsOfAPlanAddUp) {
  Module apart = testing::make_module(
      {.layers = 6, .input = 512, .width = 512, .classes = 2000, .head = true, .batch = 256, .norm_rows = 32});
  apart.schedule.stages = Hint<int64_t>{2, {}};
  ShardHint hint;
  hint.head = "id";
  hint.shards = 1;
  apart.schedule.shards.push_back(hint);
  const Module inference = testing::prepare_inference(apart);
  Planned one{testing::prepare_training(apart), {}};
  const Machine machine{.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = kGiB};
  one.plan =
      make_plan(one.module, inference, testing::make_facts(one.module), testing::make_facts(inference), machine, {})
          .value();
  for (const Planned& planned : {make(0, true), make(2, true), make(2, false), make(2, true, true), one}) {
    Seconds time = 0;
    Bytes memory = 0;
    for (const PlanPart& part : list_parts(planned.plan, planned.module)) {
      time += part.time;
      memory += part.elsewhere ? 0 : part.memory;
    }
    const Seconds step = planned.plan.predicted.step;
    EXPECT_NEAR(time, step, 2e-6 * step) << report_text(planned.plan, planned.module);
    EXPECT_EQ(memory, largest_device_of(planned.plan.training));
  }
}

TEST(TextTable, AlignsByCodePointsAndEndsNoLineInSpaces) {
  TextTable table({Align::kLeft, Align::kRight, Align::kLeft});
  table.add({"ä", "1", "x"});
  table.add({"bcd", "22", ""});
  table.add_rule();
  EXPECT_EQ(table.text(" "), " ä     1  x\n bcd  22\n      --\n");
}

}  // namespace
}  // namespace xrun::planner
