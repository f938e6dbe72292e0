// The meaning of texts: constants, names of tensors, settings, --set, imports, defaults, limits.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/sha256.h"
#include "graph/print.h"
#include "lang/frontend.h"
#include "lang/lower/math_text.h"
#include "lang/print_module.h"
#include "ops/op.h"
#include "tests/lang/checked.h"
#include "tests/lang/test_ops.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FrontendOptions with_sets(std::vector<SetValue> sets) { return {.sets = std::move(sets)}; }

void expect_holds(const std::string& expression, const std::string& declarations = {}) {
  const Checked checked(declarations + "\ntest \"t\" {\n  expect " + expression + "\n}\n");
  EXPECT_TRUE(checked.file.has_value()) << checked.rendered();
}

TEST(Constants, WholeNumbersAreExactAndFractionsStayExactUntilUsed) {
  expect_holds("1 / 3 + 1 / 3 + 1 / 3 == 1");
  expect_holds("7 // 2 == 3 and -7 // 2 == -4 and -7 % 3 == 2 and 7 % -3 == -2");
  expect_holds("2 ^ 100 / 2 ^ 98 == 4");
  expect_holds("2 ^ -2 == 1 / 4");
  expect_holds("ceil(7 / 2) == 4 and floor(-7 / 2) == -4 and round(5 / 2) == 3");
  expect_holds("max(1, 5, 3) == 5 and min(2, 1) == 1 and abs(-3) == 3");
  expect_holds("0.1 + 0.2 != 0.3");
  expect_holds("16GiB / 2GiB == 8 and 2 * 3KiB == 6144B");
  expect_holds("[1, 2, N] == [1, 2, N] and [1, 2] != [1, 3]");
  expect_holds("\"a\" + \"b\" == \"ab\" and len(\"ab\") == 2 and [4, 5][1] == 5");
  expect_holds("(if 2 > 1 { 3 } else { 4 }) == 3");
  expect_holds("not (1 == 2 or 3 < 2)");
}

TEST(Constants, FunctionsAndLetsAreEvaluatedWhereTheyAreDeclared) {
  expect_holds("round_to(37) == 40 and round_to(3) == 8 and round_to(37, by=10) == 40",
               "fn round_to(c: float, by: int = 8) = by * max(1, floor((c + by / 2) / by))");
  expect_holds("a == 12", "let a = b * 2\nlet b = c + 1\nlet c = 5\n");
}

TEST(Constants, ExpressionsWithoutAValueAreRejected) {
  for (const auto& [expression, code] : std::vector<std::pair<std::string, std::string>>{{"1 / 0 == 1", "XG0307"},
                                                                                         {"1 % 0 == 1", "XG0307"},
                                                                                         {"2 ^ 200 > 0", "XG0109"},
                                                                                         {"1GiB + 1s == 1s", "XG0304"},
                                                                                         {"1 + true == 2", "XG0304"},
                                                                                         {"sqrt(-1) == 1", "XG0304"},
                                                                                         {"[1][1] == 1", "XG0304"},
                                                                                         {"N + 1 == 2", "XG0304"},
                                                                                         {"1 and true", "XG0304"},
                                                                                         {"1 < \"a\"", "XG0304"},
                                                                                         {"unknown == 1", "XG0201"}}) {
    const Checked checked("test \"t\" {\n  expect " + expression + "\n}\n");
    EXPECT_THAT(checked.codes(), ElementsAre(code)) << expression << "\n" << checked.rendered();
  }
}

TEST(Names, ComeFromTheStructureOfTheText) {
  const Checked checked(R"(
block unit(x: [N, D]) {
  return x -> residual { linear(D, bias=false) } -> linear(D, bias=false) as out
}
model net {
  input x: f32[N, 8]
  y = x -> linear(8, bias=false) -> linear(8, bias=false)
    -> unit -> unit -> unit as last
    -> repeat 2 as i { unit -> if i == 0 { linear(8, bias=false) } } as blocks
    -> repeat 1 { unit }
  output y
}
)");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_THAT(
      checked.tensors(),
      ElementsAre("linear.weight", "linear_2.weight", "unit.linear.weight", "unit.out.weight", "unit_2.linear.weight",
                  "unit_2.out.weight", "last.linear.weight", "last.out.weight", "blocks.0.unit.linear.weight",
                  "blocks.0.unit.out.weight", "blocks.0.linear.weight", "blocks.1.unit.linear.weight",
                  "blocks.1.unit.out.weight", "repeat.0.unit.linear.weight", "repeat.0.unit.out.weight"));
}

TEST(Names, TheWeightOfAHeadIsNamedAfterTheHead) {
  const Checked checked(small_run());
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  ASSERT_EQ(checked.module().graph.heads.size(), 1U);
  EXPECT_EQ(checked.module().graph.heads[0].name, "id");
  const auto& params = checked.module().graph.params;
  const auto weight = std::ranges::find(params, "id.weight", &Parameter::name);
  ASSERT_TRUE(weight != params.end());
  EXPECT_TRUE(weight->head);
}

TEST(Names, NodesRecordTheCallsThatCreatedThem) {
  const Checked checked(R"(
block inner(x: [N, D]) { return x -> linear(D) }
block outer(x: [N, D]) { return x -> inner as a }
model net {
  input x: f32[N, 8]
  y = x -> outer
  output y
}
)");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const Node& node = checked.module().graph.nodes[0];
  std::vector<std::string> steps;  // innermost first
  const auto& expansions = checked.module().graph.expansions;
  for (ExpansionId id = node.expansion; id.valid(); id = expansions[id].outer) {
    steps.push_back(expansions[id].step.name);
  }
  EXPECT_THAT(steps, testing::ElementsAre("a (inner)", "outer", "net"));
  EXPECT_EQ(checked.sources.text(node.span), "linear(D)");
}

TEST(Tests, ATestCanCheckShapesAndParametersOfItsBindings) {
  const Checked checked(R"(
test "sizes" {
  y = f32[N, 8] -> linear(4)
  z = f32[N, 3] -> linear(2)
  expect shape(y) == [N, 4] and params(y) == 36 and params(z) == 8
  expect params(y -> linear(2) as last) == 46 and params(y -> linear(1) as last) == 41
}
)");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_TRUE(checked.file->tests[0].passed);
}

TEST(Strict, RepeatedOperatorsWithoutLabelsAreRejected) {
  const std::string text =
      "model net {\n  input x: f32[N, 8]\n  y = x -> linear(8) -> relu -> linear(8)\n  output y\n}\n";
  EXPECT_THAT(Checked(text).codes(), IsEmpty());
  EXPECT_THAT(Checked(text, {.strict = true}).codes(), ElementsAre("XG0225"));
}

TEST(Pipelines, ATupleFillsTheFirstParameters) {
  const Checked checked(R"(
block cell(a: [N, D], b: [N, E], width: int) {
  return (b, (a -> linear(width)) + (b -> linear(width)))
}
model net {
  input x: f32[N, 8]
  (p, q) = (x, x) -> cell(4) -> repeat 2 { cell(6) }
  y = x -> fork { linear(2), linear(3) } -> concat(axis=1)
  output p, q, y
}
test "shapes" {
  expect shape(net.p) == [N, 6] and shape(net.q) == [N, 6] and shape(net.y) == [N, 5]
}
)");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_TRUE(checked.file->tests[0].passed);
}

TEST(Pipelines, EachOperationOfATensorAndANumberIsOneOperator) {
  const Checked checked("model net {\n  input x: f32[N, 8]\n  y = 1 - x * 2 / 4 + 3 / x + -x\n  output y\n}\n");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const std::string text = print(checked.module().graph);
  EXPECT_THAT(text, HasSubstr("scale_shift(%0) {scale=2.0, shift=0.0}"));
  EXPECT_THAT(text, HasSubstr("{scale=0.25, shift=0.0}"));
  EXPECT_THAT(text, HasSubstr("{scale=-1.0, shift=1.0}"));
  EXPECT_THAT(text, HasSubstr("= power(%0) {exponent=-1.0}"));  // an infinite x gives 0, unlike 0 * x + 3
  EXPECT_THAT(text, HasSubstr("{scale=3.0, shift=0.0}"));
  EXPECT_THAT(text, HasSubstr("= neg(%0)"));
}

TEST(Train, DefaultsAreThoseOfTheLanguage) {
  const Checked checked(small_run());
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const TrainSpec& train = checked.module().train;
  EXPECT_EQ(train.batch, 128);
  EXPECT_EQ(train.norm_rows, 8) << "16 blocks of the batch";
  EXPECT_EQ(train.seed, 1U);
  EXPECT_EQ(train.duration.amount, 2);
  EXPECT_EQ(train.duration.unit, TrainSpan::kEpochs);
  EXPECT_EQ(train.precision, PrecisionMode::kF32);
  EXPECT_EQ(train.checkpoint_keep, 3);
  EXPECT_EQ(train.checkpoint_every.unit, TrainSpan::kEpochs);
  EXPECT_EQ(train.log_every.amount, 10);
  EXPECT_FALSE(train.reduce_sum);
  EXPECT_EQ(train.order, SampleOrder::kShuffled);
  EXPECT_EQ(train.class_weights.kind, ClassWeightsSpec::kNone);
  EXPECT_FALSE(train.eval_every.has_value());
  EXPECT_EQ(train.optimizer.name, "sgd");
  EXPECT_EQ(train.optimizer.args.real("momentum"), 0.9);
  EXPECT_EQ(train.optimizer.args.real("weight_decay"), 0);
  ASSERT_EQ(train.lr.size(), 1U);
  EXPECT_EQ(train.lr[0].kind, "constant");
  EXPECT_THAT(checked.module().not_yet, IsEmpty());
}

TEST(Train, CheckpointIntervalsAreASpanOrAutomatic) {
  const auto every = [](const std::string& value) { return small_run("  checkpoint { every = " + value + " }"); };
  EXPECT_FALSE(Checked(every("7 steps")).file->run.auto_save.has_value());
  EXPECT_EQ(Checked(every("7 steps")).module().train.checkpoint_every.amount, 7);
  EXPECT_EQ(Checked(every("auto")).file->run.auto_save.value().mtbf, 24 * 3600);
  EXPECT_EQ(Checked(every("auto(mtbf=30min)")).file->run.auto_save.value().mtbf, 1800);
  for (const auto& [value, code] : std::vector<std::pair<std::string, std::string>>{{"auto(mtbf=0s)", "XG0214"},
                                                                                    {"auto(mtbf=1000000d)", "XG0214"},
                                                                                    {"auto(mtbf=3)", "XG0107"},
                                                                                    {"auto(24h, 1)", "XG0204"},
                                                                                    {"auto(every=24h)", "XG0203"},
                                                                                    {"sometimes", "XG0201"},
                                                                                    {"12", "XG0107"}}) {
    EXPECT_THAT(Checked(every(value)).codes(), ElementsAre(code)) << value;
  }
}

TEST(Train, TheLossMakesTheLabelAnInputWithTheClassesOfTheData) {
  const Checked checked(small_run());
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const Graph& graph = checked.module().graph;
  ASSERT_EQ(graph.inputs.size(), 2U);
  EXPECT_EQ(graph.inputs[1].name, "label");
  EXPECT_EQ(to_text(graph.value(graph.inputs[1].value).type), "index(10)[N]");
  EXPECT_EQ(graph.value(graph.loss[0].rows).type.dims, std::vector<int64_t>{kBatch});
}

TEST(Train, EqualMetricsOnSeveralSourcesShareANode) {
  const Checked checked(small_run(R"(
  metrics = [accuracy(id, label), accuracy(id, label, k=5)]
  eval {
    every = 100 steps
    val   = accuracy(id, label, source=val)
    again = accuracy(id, label, source=train)
  }
)"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const Module& module = checked.module();
  ASSERT_EQ(module.graph.metrics.size(), 4U);
  EXPECT_EQ(module.graph.metrics[0], module.graph.metrics[2]);
  EXPECT_EQ(module.graph.metrics[0], module.graph.metrics[3]);
  EXPECT_NE(module.graph.metrics[0], module.graph.metrics[1]);
  EXPECT_EQ(module.train.eval[0].name, "val");
  EXPECT_EQ(module.train.eval[0].source, "val");
  EXPECT_EQ(module.train.eval_every->amount, 100);
  EXPECT_EQ(module.train.metrics[0].source, "");
}

TEST(Train, CurvesHaveToCoverTheRun) {
  EXPECT_THAT(Checked(small_run("  epochs = 20\n  lr = [warmup(0 .. 1, 2 epochs), cosine(1 .. 0, 18 epochs)]")).codes(),
              IsEmpty());
  EXPECT_THAT(Checked(small_run("  epochs = 20\n  lr = [warmup(0 .. 1, 100 steps), cosine(1 .. 0)]")).codes(),
              IsEmpty());
  EXPECT_THAT(Checked(small_run("  epochs = 20\n  lr = [warmup(0 .. 1, 2 epochs), poly(1 .. 0, 19 epochs)]")).codes(),
              ElementsAre("XG0506"));
  EXPECT_THAT(Checked(small_run("  epochs = 20\n  lr = [warmup(0 .. 1, 21 epochs), cosine(1 .. 0)]")).codes(),
              ElementsAre("XG0506"));
  EXPECT_THAT(Checked(small_run("  epochs = 20\n  lr = [cosine(1 .. 0), constant(0.1)]")).codes(),
              ElementsAre("XG0506"));
}

TEST(Train, RowBlocksDivideTheBatch) {
  EXPECT_THAT(Checked(small_run("  norm_rows = 32")).codes(), IsEmpty());
  EXPECT_THAT(Checked(small_run("  norm_rows = 48")).codes(), ElementsAre("XG0507"));
}

// The default depends only on the batch.
TEST(Train, RowBlocksOfABatchNormAreAsLargeAsAllowed) {
  const std::string text = replaced(small_run(), "linear(4) as embed", "linear(4) as embed -> bn");
  const auto rows = [&](int64_t batch) {
    const Checked checked(text, with_sets({{"train.batch", std::to_string(batch)}}));
    EXPECT_THAT(checked.codes(), IsEmpty()) << checked.rendered();
    return checked.file ? checked.module().train.norm_rows : 0;
  };
  for (const auto& [batch, expected] : {std::pair{4, 4},
                                        {37, 37},
                                        {64, 64},
                                        {72, 36},
                                        {96, 48},
                                        {100, 50},
                                        {128, 64},
                                        {130, 26},
                                        {4096, 64},
                                        {88, 44}}) {
    EXPECT_EQ(rows(batch), expected) << batch;
  }
  const Checked prime(text, with_sets({{"train.batch", "101"}}));
  EXPECT_THAT(prime.codes(), ElementsAre("XG0507"));
  EXPECT_THAT(prime.rendered(), HasSubstr("no row block of 8 to 64 samples divides a batch of 101"));
  EXPECT_THAT(prime.rendered(),
              HasSubstr("write batch = 64 or batch = 128, or say the group yourself: norm_rows may be "
                        "one of 101"));
  EXPECT_THAT(Checked(text, with_sets({{"train.batch", "101"}, {"train.norm_rows", "101"}})).codes(), IsEmpty());
  EXPECT_THAT(Checked(text, with_sets({{"train.batch", "134"}})).codes(), ElementsAre("XG0507")) << "2 x 67";
}

TEST(Train, ABatchWithoutABatchNormHasAtLeastSixteenRowBlocksIfPossible) {
  for (const auto& [batch, expected] : {std::pair{1, 1},
                                        {15, 1},
                                        {16, 1},
                                        {32, 2},
                                        {64, 4},
                                        {100, 5},
                                        {101, 1},
                                        {256, 16},
                                        {1024, 64},
                                        {4096, 64},
                                        {1600, 64},
                                        {1000, 50}}) {
    const Checked checked(small_run(), with_sets({{"train.batch", std::to_string(batch)}}));
    ASSERT_THAT(checked.codes(), IsEmpty()) << checked.rendered();
    EXPECT_EQ(checked.module().train.norm_rows, expected) << batch;
  }
}

// Checkpoints of earlier builds were trained with the earlier default.
TEST(Train, RowBlocksOfEarlierVersionsAreGivenIfTheyDiffer) {
  const auto earlier = [](const std::string& text, const char* batch) {
    const Checked checked(text, with_sets({{"train.batch", batch}}));
    return checked.file ? checked.file->earlier_norm_rows : -1;
  };
  EXPECT_EQ(earlier(small_run(), "128"), 64);
  EXPECT_EQ(earlier(small_run(), "32"), 32);
  EXPECT_EQ(earlier(small_run(), "1024"), 0) << "the same";
  EXPECT_EQ(earlier(small_run(), "100"), 0) << "was refused";
  EXPECT_EQ(earlier(small_run("  norm_rows = 4"), "128"), 0) << "is said";
  EXPECT_EQ(earlier(replaced(small_run(), "linear(4) as embed", "linear(4) as embed -> bn"), "128"), 0) << "the same";
}

TEST(Train, UnavailableFeaturesPassTheCheckAndAreListed) {
  const Checked checked(small_run(R"(
  compress       = topk(0.1%, per_layer=false, on=embed)
  ema            = 0.999
)"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  std::vector<std::string> messages;
  for (const Diagnostic& d : checked.module().not_yet) {
    EXPECT_EQ(d.code, "XG0199");
    messages.push_back(d.message);
  }
  EXPECT_THAT(messages, ElementsAre("`per_layer = false` of `topk` is not available yet",
                                    "`ema` with `compress` is not available yet"));
}

// `gather` lists all classes in the order of their numbers.
TEST(Model, LogitsOfASmallHeadAreGathered) {
  const auto model = [](const std::string& classes) {
    return Checked("model m {\n  input x: f32[N, 8]\n\n  head id = classifier(x, " + classes +
                       ")\n\n  logits = gather(id)\n  output logits\n}\n",
                   {.ops = &ops::registry()});
  };
  const Checked small = model("12");
  ASSERT_TRUE(small.file.has_value()) << small.rendered();
  EXPECT_THAT(small.codes(), IsEmpty()) << small.rendered();
  const Graph& graph = small.module().graph;
  const Node& node = graph.node(graph.value(graph.outputs[0].value).producer);
  EXPECT_EQ(node.op->name, "topk");
  EXPECT_EQ(node.attrs.integer("k"), 12);
  EXPECT_EQ(to_text(graph.value(graph.outputs[0].value).type), "f32[N, 12]");
  EXPECT_THAT(model("2000").rendered(), HasSubstr("`gather` takes heads of at most 1024 classes, not 2000"));
}

TEST(Train, HintsGroupsAndClipAreRead) {
  const Checked checked(small_run(R"(
  clip   = norm(5, heads=true)
  freeze = [embed]
  groups {
    embed.weight { lr = 0.5 }
    id { weight_decay = 0 }
  }
)",
                                  R"(
cluster here {
  reserve = 1GiB
  node {
    cores  = 4
    memory = 16GiB
  }
}
schedule hints {
  stages        = 2
  micro_batches = auto
  pipeline      = one_f_one_b
  recompute     = [embed]
  overlap       = true
  memory_limit  = 2GiB
  shard id {
    over        = 3
    granularity = step
  }
  pin {
    embed = stage(1)
  }
}
)"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const Module& module = checked.module();
  EXPECT_EQ(module.train.clip.kind, ClipSpec::kNorm);
  EXPECT_TRUE(module.train.clip.heads);
  ASSERT_EQ(module.train.groups.size(), 2U);
  EXPECT_EQ(module.train.groups[0].path, "embed.weight");
  EXPECT_EQ(*module.train.groups[0].lr, 0.5);
  EXPECT_EQ(*module.train.groups[1].weight_decay, 0);
  EXPECT_EQ(module.cluster.cores, 4);
  EXPECT_EQ(module.cluster.memory, 16 * kGiB);
  EXPECT_EQ(module.cluster.reserve, kGiB);
  const ScheduleSpec& schedule = module.schedule;
  EXPECT_EQ(schedule.stages->value, 2);
  EXPECT_EQ(checked.sources.text(schedule.stages->span), "2");
  EXPECT_FALSE(schedule.micro_batches.has_value());
  EXPECT_EQ(schedule.pipeline->value.kind, PipelineKind::kOneFOneB);
  EXPECT_EQ(schedule.recompute->value.mode, RecomputeHint::kPaths);
  EXPECT_TRUE(schedule.overlap->value);
  EXPECT_EQ(schedule.memory_limit->value, 2 * kGiB);
  ASSERT_EQ(schedule.shards.size(), 1U);
  EXPECT_EQ(schedule.shards[0].shards, 3);
  EXPECT_EQ(schedule.shards[0].granularity, "step");
  ASSERT_EQ(schedule.pins.size(), 1U);
  EXPECT_EQ(schedule.pins[0].path, "embed");
}

TEST(SetFlag, ReplacesSettingsMakesDeclarationsAndSetsOptions) {
  const Checked checked(small_run(), with_sets({{"train.lr", "0.25"},
                                                {"train.epochs", "7"},
                                                {"schedule.stages", "2"},
                                                {"schedule.shard.id.over", "4"},
                                                {"train.eval.every", "50 steps"},
                                                {"cluster.node.cores", "1"},
                                                {"classes", "20 + 1"}}));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const Module& module = checked.module();
  EXPECT_EQ(module.train.lr[0].from, 0.25);
  EXPECT_EQ(module.train.duration.amount, 7);
  EXPECT_EQ(module.schedule.stages->value, 2);
  EXPECT_EQ(module.schedule.shards[0].shards, 4);
  EXPECT_EQ(module.train.eval_every->amount, 50);
  EXPECT_EQ(module.cluster.cores, 1);
  EXPECT_EQ(to_text(module.graph.value(module.graph.inputs[1].value).type), "index(21)[N]");
}

TEST(SetFlag, IsCheckedLikeTheText) {
  EXPECT_THAT(Checked(small_run(), with_sets({{"train.batchsize", "2"}})).codes(), ElementsAre("XG0210"));
  EXPECT_THAT(Checked(small_run(), with_sets({{"trian.batch", "2"}})).codes(), ElementsAre("XG0210"));
  EXPECT_THAT(Checked(small_run(), with_sets({{"clases", "2"}})).codes(), ElementsAre("XG0201"));
  EXPECT_THAT(Checked(small_run(), with_sets({{"classes", "\"many\""}})).codes(), testing::Contains("XG0205"));
  EXPECT_THAT(Checked(small_run(), with_sets({{"classes", "5000"}})).codes(), ElementsAre("XG0214"));
  EXPECT_THAT(Checked(small_run(), with_sets({{"train.lr", "0.1 +"}})).codes(), testing::Contains("XG0110"));
  EXPECT_THAT(Checked(small_run(), with_sets({{"schedule.stages", "0"}})).codes(), ElementsAre("XG0214"));
}

TEST(Digest, ChangesOnlyWithSettingsThatChangeTheTraining) {
  const auto digest = [](const std::string& text, std::vector<SetValue> sets = {}) {
    const Checked checked(text, with_sets(std::move(sets)));
    EXPECT_TRUE(checked.file.has_value()) << checked.rendered();
    return checked.file ? checked.module().math_digest : "";
  };
  const std::string base = digest(small_run());
  EXPECT_EQ(base.size(), 64U);
  for (const auto& [path, value] :
       std::vector<std::pair<std::string, std::string>>{{"schedule.stages", "2"},
                                                        {"cluster.node.cores", "3"},
                                                        {"train.eval.every", "3 steps"},
                                                        {"train.eval.val", "accuracy(id, label, source=val)"},
                                                        {"train.metrics", "[accuracy(id, label)]"},
                                                        {"train.checkpoint.keep", "9"},
                                                        {"train.log.every", "3 steps"},
                                                        {"train.deterministic", "true"}}) {
    EXPECT_EQ(digest(small_run(), {{path, value}}), base) << path;
  }
  for (const auto& [path, value] :
       std::vector<std::pair<std::string, std::string>>{{"train.lr", "0.2"},
                                                        {"train.batch", "64"},
                                                        {"train.seed", "2"},
                                                        {"train.norm_rows", "32"},
                                                        {"train.precision", "mixed(bf16)"},
                                                        {"train.precision", "mixed(f16)"},
                                                        {"train.loss", "softmax_ce(id, label, scale=17)"},
                                                        {"train.optimizer", "sgd(momentum=0.8)"},
                                                        {"train.epochs", "3"},
                                                        {"train.clip", "norm(1)"},
                                                        {"train.freeze", "[embed]"},
                                                        {"train.reduce", "sum"},
                                                        {"train.order", "sequential"},
                                                        {"train.groups.embed.lr", "0.5"},
                                                        {"train.groups.id.weights", "bf16"},
                                                        {"train.groups.id.states", "bf16"},
                                                        {"classes", "11"}}) {
    EXPECT_NE(digest(small_run(), {{path, value}}), base) << path;
  }
}

// One text has every setting of `train` that changes the result of the training; the other text has none of them.
TEST(Digest, HasAStableText) {
  const std::string all =
      "  lr = [warmup(0 .. 1, 2 epochs), poly(1 .. 0.1, 500 steps, power=2), steps(0.1, at=[3 epochs, 9k samples], "
      "by=0.5)]\n"
      "  steps = 1200\n  precision = mixed(bf16)\n  seed = 7\n  grad_accumulation = 2\n  clip = norm(5, heads=true)\n"
      "  norm_rows = 32\n  reduce = sum\n  freeze = [embed.bias]\n  init = checkpoint(\"old/runs/latest\")\n"
      "  order = sequential\n  groups {\n    id { weight_decay = 0 }\n    embed { lr = 0.5 }\n  }\n"
      "  metrics = [accuracy(id, label)]\n  log { every = 3 steps }\n";
  std::string text;
  const std::string rows = "  groups {\n    id {\n      weights = fp8\n      states = bf16\n    }\n  }\n";
  const std::string narrow = "  precision = mixed(f16)\n";
  const std::string fixed = "  precision = mixed(f16, loss_scale=512)\n";
  for (const std::string& settings : {std::string(), std::string("  clip = value(0.5)\n"), all, rows, narrow, fixed}) {
    const Checked checked(small_run(settings));
    ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
    text += math_text(checked.module()) + "\n";
    EXPECT_EQ(checked.module().math_digest, sha256_hex(math_text(checked.module())));
  }
  EXPECT_TRUE(test::matches_golden(text, "math/settings.txt"));
}

TEST(Module, PrintsItsDeclarationsWithEveryDefault) {
  const Checked checked(
      small_run("  epochs = 20\n  lr = [warmup(0 .. 1, 2 epochs), cosine(1 .. 0)]\n"
                "  eval {\n    val = accuracy(id, label, source=val)\n  }\n"
                "  groups {\n    id { weight_decay = 0 }\n  }\n",
                "schedule s {\n  stages = 2\n  shard id { over = 2 }\n}\n"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  std::string text = print_module(checked.module());
  EXPECT_TRUE(test::matches_golden(text, "check/small_run.txt"));
}

TEST(Imports, AreRelativeLoadedOnceAndRejectedInCircles) {
  namespace fs = std::filesystem;
  const fs::path dir = fs::path(testing::TempDir()) / "xrun_imports";
  fs::create_directories(dir / "parts");
  const auto write = [&](const std::string& name, const std::string& text) { std::ofstream(dir / name) << text; };
  write("parts/unit.xgraph", "xgraph 1\nlet width = 6\nblock unit(x: [N, D]) { return x -> linear(width) }\n");
  write("main.xgraph",
        "xgraph 1\nimport \"parts/unit.xgraph\" as u\nfrom \"parts/unit.xgraph\" use unit\n"
        "model net {\n  input x: f32[N, 8]\n  y = x -> unit -> u.unit -> linear(u.width)\n  output y\n}\n");
  write("a.xgraph", "xgraph 1\nimport \"b.xgraph\" as b\n");
  write("b.xgraph", "xgraph 1\nimport \"a.xgraph\" as a\n");
  write("missing.xgraph", "xgraph 1\nimport \"nowhere.xgraph\" as x\n");
  const OpRegistry ops = test_ops::registry();
  {
    SourceMap sources;
    Diagnostics diagnostics;
    const auto file = load((dir / "main.xgraph").string(), sources, diagnostics, {.ops = &ops});
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ(file->module.sources.size(), 2U);
    EXPECT_EQ(file->module.graph.params[0].name, "unit.linear.weight");
  }
  {
    // A file that a flag imports is checked like the others.
    write("machines.xgraph", "xgraph 1\ncluster c {\n  node { cores = 2 }\n}\nblock b(x: floot[N, C]) { return x }\n");
    SourceMap sources;
    Diagnostics diagnostics;
    FrontendOptions options{.ops = &ops};
    options.cluster = (dir / "machines.xgraph").string();
    EXPECT_FALSE(load((dir / "main.xgraph").string(), sources, diagnostics, options).has_value());
    ASSERT_EQ(diagnostics.all().size(), 1U);
    EXPECT_EQ(diagnostics.all()[0].code, "XG0303");
  }
  for (const auto& [name, code] : std::vector<std::pair<std::string, std::string>>{
           {"a.xgraph", "XG0206"}, {"missing.xgraph", "XG0207"}, {"none.xgraph", "XG0207"}}) {
    SourceMap sources;
    Diagnostics diagnostics;
    EXPECT_FALSE(load((dir / name).string(), sources, diagnostics, {.ops = &ops}).has_value());
    ASSERT_EQ(diagnostics.all().size(), 1U) << name;
    EXPECT_EQ(diagnostics.all()[0].code, code);
  }
  fs::remove_all(dir);
}

TEST(Run, ARunIsChosenByItsName) {
  const std::string text =
      "model one {\n  input x: f32[N, 4]\n  y = x -> linear(2)\n  output y\n}\n"
      "model two {\n  input x: f32[N, 4]\n  y = x -> linear(3)\n  output y\n}\n"
      "run first { model = one }\nrun second { model = two }\n";
  EXPECT_THAT(Checked(text).codes(), ElementsAre("XG0213"));
  EXPECT_EQ(Checked(text, {.run = "second"}).module().model, "two");
  EXPECT_EQ(Checked(text, {.run = "first"}).module().model, "one");
  EXPECT_THAT(Checked(text, {.run = "secnd"}).codes(), ElementsAre("XG0213"));
}

TEST(Unused, UnusedBindingsCauseAWarning) {
  const Checked checked(R"(
block b(x: [N, D]) {
  lost  = x -> linear(2)
  _kept = x -> linear(2)
  return x -> linear(3)
}
model net {
  input x: f32[N, 8]
  y = x -> b
  output y
}
)");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_THAT(checked.codes(), ElementsAre("XG0215"));
}

}  // namespace
}  // namespace xrun::lang
