#include "planner/planner.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

#include "graph/base/diagnostic.h"
#include "graph/base/random.h"
#include "planner/report/reason_text.h"
#include "tests/planner/test_graphs.h"
#include "tests/support/golden.h"
#include "tests/support/optimizers.h"

namespace xrun::planner {
namespace {

using testing::make_facts;
using testing::make_module;
using testing::ModelOptions;
using testing::prepare_inference;
using testing::prepare_training;

Machine machine_of(int devices, Bytes memory = 4 * kGiB, int threads = 0) {
  return {.name = std::to_string(devices) + " x cpu",
          .cores = std::max(devices, threads),
          .devices = devices,
          .threads = std::max(devices, threads),
          .memory = memory};
}

Result<Plan> plan(const Module& module, const Machine& machine, const PlannerOptions& options = {}) {
  const Module training = prepare_training(module);
  const Module inference = prepare_inference(module);
  return make_plan(training, inference, make_facts(training), make_facts(inference), machine, options);
}

// Returns a model that is so large that a pass takes longer than the overhead of starting it.
ModelOptions wide() { return {.layers = 4, .input = 256, .width = 512, .batch = 128, .norm_rows = 16}; }

TEST(Planner, OneDeviceGetsOneStage) {
  const auto made = plan(make_module(wide()), machine_of(1));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->training.stages.size(), 1U);
  EXPECT_EQ(made->training.replicas, 1);
  EXPECT_EQ(made->training.micro_batches, 1);
  EXPECT_EQ(made->id.size(), 8U);
  EXPECT_GT(made->predicted.step, 0);
  EXPECT_FALSE(made->why.empty());
}

TEST(Planner, TwoEqualDevicesGetTwoReplicasAndNoPipeline) {
  ModelOptions options = wide();
  options.batch = 4096;
  options.norm_rows = 64;
  const auto made = plan(make_module(options), machine_of(2));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->training.stages.size(), 1U);
  EXPECT_EQ(made->training.replicas, 2);
  ASSERT_FALSE(made->alternatives.empty());
  EXPECT_GE(made->alternatives[0].step, made->predicted.step);
}

// For a program that was made, `why` and `also` give the same values.
TEST(Planner, ReasonsAgreeWithTheListedAlternatives) {
  ModelOptions options = wide();
  options.batch = 4096;
  options.norm_rows = 64;
  const auto made = plan(make_module(options), machine_of(2));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto also = std::ranges::find(made->alternatives, 2, &Alternative::stages);
  ASSERT_NE(also, made->alternatives.end());
  const Reason& stages = made->why[0];
  ASSERT_EQ(stages.key, Reason::Key::kStages);
  ASSERT_EQ(stages.cause, Reason::Cause::kRival);
  EXPECT_EQ(stages.rival->verdict, Rival::Verdict::kSlower);
  EXPECT_FALSE(stages.rival->is_estimate);
  EXPECT_EQ(stages.rival->micro_batches, also->micro_batches);
  EXPECT_EQ(stages.rival->step, also->step);
  EXPECT_EQ(stages.rival->memory, also->memory);
  EXPECT_EQ(stages.rival->ratio, also->ratio);
  EXPECT_EQ(stages.rival->idle, also->idle);
}

TEST(Planner, ModelsThatTakeTooLongToPlanAreRejected) {
  ModelOptions options{.layers = 11'000, .input = 4, .width = 4, .batch = 16, .norm_rows = 8};
  const auto made = plan(make_module(options), machine_of(2));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0198");
  EXPECT_NE(made.error().message.find("at most 12 288"), std::string::npos) << made.error().message;
}

TEST(Planner, ForATooLargeBatchASmallerOneIsProposed) {
  ModelOptions options = wide();
  options.batch = 16 * 3001;
  const auto made = plan(make_module(options), machine_of(2, 16 * kMiB));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0601");
  ASSERT_FALSE(made.error().choices.empty());
  EXPECT_NE(made.error().choices.back().find("changes training"), std::string::npos) << made.error().choices.back();
}

// Half of the batch may have no legal settings. Then it is not proposed as a fix, and its error is not reported.
TEST(Planner, RefusalsOfAccumulatedBatchesProposeNoIllegalBatch) {
  // In the first case, the weights alone are too large; in the second case, one row block is too large.
  for (const auto& [width, norm_rows] : {std::pair<int64_t, int64_t>{512, 64}, {64, 512}}) {
    Module module = make_module({.layers = 6, .input = 64, .width = width, .batch = 16'384, .norm_rows = norm_rows});
    module.train.grad_accumulation = 4;
    module.schedule.memory_limit = Hint<Bytes>{kMiB, {0, 11, 13}};
    const auto made = plan(module, machine_of(1));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, "XG0601") << made.error().message;
    EXPECT_TRUE(made.error().choices.empty()) << made.error().choices[0];
  }
}

TEST(Planner, NothingIsReportedAsTooLargeWithoutAMemoryLimit) {
  for (const int devices : {2, 3, 4}) {
    for (const int64_t batch : {256, 1024, 4096}) {
      for (const int64_t width : {64, 256, 512}) {
        Module module = make_module({.layers = 4, .input = 256, .width = width, .batch = batch, .norm_rows = 32});
        const Machine crowded{.name = "cpu", .cores = 2, .devices = devices, .threads = 4, .memory = 1024 * kGiB};
        const auto made = plan(module, crowded);
        ASSERT_TRUE(made.ok()) << made.error().message;
        for (const Reason& reason : made->why) {
          EXPECT_FALSE(reason.rival && reason.rival->verdict == Rival::Verdict::kDoesNotFit)
              << devices << " devices, batch " << batch << ", width " << width << ": " << choice_text(reason) << "  "
              << reason_text(reason);
        }
      }
    }
  }
}

TEST(Planner, ChoicesExcludedByHintsAreNotBlamedOnTheModel) {
  Module module = make_module(wide());
  module.schedule.replicas = Hint<int64_t>{2, {}};
  auto made = plan(module, machine_of(2));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->why[0].cause, Reason::Cause::kReplicasOnAll);
  EXPECT_EQ(made->why[0].count, 2);
  EXPECT_EQ(choice_text(made->why[0]) + ": " + reason_text(made->why[0]), "stages = 1: 2 replicas use all devices");

  module.schedule = {};
  module.schedule.stages = Hint<int64_t>{1, {}};
  module.schedule.micro_batches = Hint<int64_t>{1, {}};
  made = plan(module, machine_of(2));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->why[1].cause, Reason::Cause::kMicroBatches);
  EXPECT_EQ(made->why[1].count, 1);
  EXPECT_EQ(choice_text(made->why[1]) + ": " + reason_text(made->why[1]),
            "replicas = 1: no other number divides the 1 micro-batch asked for");

  module.schedule = {};
  for (const char* path : {"out", "loss", "accuracy"}) {
    module.schedule.pins.push_back({path, 0, {}});
  }
  made = plan(module, machine_of(2));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->why[0].cause, Reason::Cause::kPins);
  EXPECT_EQ(choice_text(made->why[0]) + ": " + reason_text(made->why[0]), "stages = 1: the pins leave no other cuts");

  module.schedule = {};
  module.train.deterministic = true;
  module.train.batch = 9 * module.train.norm_rows;  // four partials cannot be divided evenly among three replicas
  module.schedule.stages = Hint<int64_t>{1, {}};
  made = plan(module, machine_of(3));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->why[1].cause, Reason::Cause::kPartials);
  EXPECT_EQ(made->why[1].count, 4);
  EXPECT_EQ(choice_text(made->why[1]) + ": " + reason_text(made->why[1]),
            "replicas = 1: no other number divides the 4 partials of gradients (deterministic)");
}

TEST(Planner, StagesHintIsObeyed) {
  Module module = make_module(wide());
  module.schedule.stages = Hint<int64_t>{2, {0, 5, 6}};
  module.schedule.micro_batches = Hint<int64_t>{4, {0, 7, 8}};
  for (const PipelineKind kind : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
    module.schedule.pipeline = Hint<PipelineHint>{{kind}, {}};
    for (const bool head : {false, true}) {
      ModelOptions options = wide();
      options.head = head;
      options.classes = 1000;
      Module with = make_module(options);
      with.schedule = module.schedule;
      const auto made = plan(with, machine_of(2));
      ASSERT_TRUE(made.ok()) << made.error().message;
      EXPECT_EQ(made->training.stages.size(), 2U);
      EXPECT_EQ(made->training.micro_batches, 4);
      EXPECT_EQ(made->training.schedule, kind);
      EXPECT_EQ(made->inference.stages.size(), 2U);
      EXPECT_EQ(made->training.heads.size(), head ? 1U : 0U);
    }
  }
}

// Every forward node of the chain is in exactly one stage, in printed order, and its backward nodes are in the same
// stage.
TEST(Planner, EveryNodeIsInExactlyOneStage) {
  ModelOptions options = wide();
  options.skips = true;
  options.head = true;
  Module module = make_module(options);
  module.schedule.stages = Hint<int64_t>{3, {}};
  const auto made = plan(module, machine_of(3));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Graph graph = prepare_training(module).graph;
  std::vector<NodeId> seen;
  for (const Stage& stage : made->training.stages) {
    EXPECT_FALSE(stage.forward.empty());
    seen.insert(seen.end(), stage.forward.begin(), stage.forward.end());
    for (const NodeId node : stage.backward) {
      EXPECT_TRUE(std::find(stage.forward.begin(), stage.forward.end(), graph.node(node).forward) !=
                  stage.forward.end());
    }
  }
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(std::set<NodeId>(seen.begin(), seen.end()).size(), seen.size());
  size_t forward = 0;
  for (const Node& node : graph.nodes) {
    forward += node.phase == Phase::kForward ? 1 : 0;
  }
  EXPECT_EQ(seen.size() + 3, forward);  // classifier, loss and accuracy belong to the head
  int64_t rows = 0;
  for (const HeadShard& shard : made->training.heads[0].shards) {
    EXPECT_EQ(shard.row_begin, rows);
    rows = shard.row_end;
  }
  EXPECT_EQ(rows, options.classes);
}

struct BadHint {
  const char* code;
  void (*set)(ScheduleSpec& schedule);
  const char* help;
};

TEST(Planner, AHintThatCannotBeSatisfiedIsRejectedWithItsPlaceAndAFix) {
  const Span place{0, 11, 13};
  for (const BadHint& bad :
       {BadHint{"XG0602",
                [](ScheduleSpec& s) {
                  s.stages = Hint<int64_t>{3, {0, 11, 13}};
                },
                "--devices 3"},
        BadHint{"XG0603",
                [](ScheduleSpec& s) {
                  s.replicas = Hint<int64_t>{4, {0, 11, 13}};
                },
                "--devices 4"},
        BadHint{"XG0605",
                [](ScheduleSpec& s) {
                  s.micro_batches = Hint<int64_t>{16, {0, 11, 13}};
                },
                "micro_batches = 8"},
        BadHint{"XG0605",
                [](ScheduleSpec& s) {
                  s.micro_batches = Hint<int64_t>{3, {0, 11, 13}};
                },
                "1, 2, 4, 8"},
        BadHint{"XG0606",
                [](ScheduleSpec& s) {
                  s.stages = Hint<int64_t>{2, {}};
                  s.replicas = Hint<int64_t>{2, {0, 11, 13}};
                },
                "number of devices"},
        BadHint{"XG0606",
                [](ScheduleSpec& s) {
                  s.micro_batches = Hint<int64_t>{1, {}};
                  s.replicas = Hint<int64_t>{2, {0, 11, 13}};
                },
                "divides micro_batches"},
        BadHint{"XG0604",
                [](ScheduleSpec& s) {
                  s.recompute = Hint<RecomputeHint>{{RecomputeHint::kPaths, {"layer9"}}, {0, 11, 13}};
                },
                "path"},
        BadHint{"XG0604",
                [](ScheduleSpec& s) {
                  s.pins.push_back({"layer9", 0, {0, 11, 13}});
                },
                "path"},
        BadHint{"XG0608",
                [](ScheduleSpec& s) {
                  s.pins.push_back({"stem", 1, {0, 11, 13}});
                },
                "order"},
        BadHint{"XG0604",
                [](ScheduleSpec& s) {
                  s.shards.push_back({"id", 2, false, "", {0, 11, 13}});
                },
                "no head"}}) {
    Module module = make_module(wide());
    bad.set(module.schedule);
    const auto made = plan(module, machine_of(2));
    ASSERT_FALSE(made.ok()) << bad.code;
    EXPECT_EQ(made.error().code, bad.code) << made.error().message;
    EXPECT_EQ(made.error().span, place) << bad.code << made.error().message;
    std::string fix = made.error().help;
    for (const std::string& choice : made.error().choices) {
      fix += "\n" + choice;
    }
    EXPECT_NE(fix.find(bad.help), std::string::npos) << fix;
    EXPECT_EQ(made.error().kind, ErrorKind::kContent);
  }
}

TEST(Planner, AMachineWithoutMemoryIsReported) {
  Module module = make_module(wide());
  module.cluster.memory = 10 * kKiB;
  const auto made = plan(module, make_machine(module.cluster, {}, 2, 0));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kInfeasible);
  EXPECT_EQ(made.error().message,
            "no memory is left for a plan: the system keeps 256 MiB or more of the 10.0 KiB of `node.memory`");
  module.cluster.reserve = kGiB;
  EXPECT_NE(plan(module, make_machine(module.cluster, {}, 2, 0)).error().message.find("`reserve` keeps back 1.0 GiB"),
            std::string::npos);
}

TEST(Planner, AHeadHasNoMoreShardsThanClassBlocks) {
  ModelOptions options = wide();
  options.head = true;
  options.classes = 130;  // three blocks of 64
  Module module = make_module(options);
  module.schedule.shards.push_back({"id", 4, false, "", {0, 11, 13}});
  const auto made = plan(module, machine_of(2));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0604");
  EXPECT_EQ(made.error().message, "`shard id` asks for 4 shards of 130 classes, which are 3 blocks of 64");
  EXPECT_EQ(made.error().help, "ask for at most 3");
  module.schedule.shards[0].shards = 3;
  EXPECT_TRUE(plan(module, machine_of(2)).ok());
}

TEST(Planner, MicroBatchMessageNamesBothNumbers) {
  Module module = make_module(wide());
  module.schedule.micro_batches = Hint<int64_t>{16, {}};
  const auto made = plan(module, machine_of(2));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "micro-batches of 8 rows cannot hold row blocks of 16");
}

TEST(Planner, PinsMoveLayersToTheirStage) {
  Module module = make_module(wide());
  module.schedule.stages = Hint<int64_t>{2, {}};
  module.schedule.pins.push_back({"layer3", 0, {}});
  const auto made = plan(module, machine_of(2));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Graph graph = prepare_training(module).graph;
  for (const NodeId node : made->training.stages[1].forward) {
    EXPECT_NE(graph.node(node).path.substr(0, 6), "layer3");
  }
}

Bytes total(const Program& program) {
  Bytes sum = 0;
  for (const Arena& arena : program.arenas) {
    sum += arena.bytes;
  }
  return sum;
}

TEST(Planner, RecomputesValuesIfMemoryIsTooSmall) {
  ModelOptions options{.layers = 6, .input = 64, .width = 64, .batch = 4096, .norm_rows = 64};
  Module module = make_module(options);
  module.schedule.pipeline = Hint<PipelineHint>{{PipelineKind::kGpipe}, {}};
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  const auto ample = plan(module, machine_of(1));
  ASSERT_TRUE(ample.ok());
  EXPECT_TRUE(ample->training.stages[0].recomputed.empty());
  const Bytes limit = (total(ample->training) + total(ample->inference)) * 8 / 10;
  const auto tight = plan(module, machine_of(1, limit));
  ASSERT_TRUE(tight.ok()) << tight.error().message << "\n" << tight.error().help;
  EXPECT_FALSE(tight->training.stages[0].recomputed.empty());
  EXPECT_LE(total(tight->training), limit);
  EXPECT_GE(tight->predicted.step, ample->predicted.step);
}

TEST(Planner, RefusalsListPartsAndPlansThatFit) {
  ModelOptions options{.layers = 6, .input = 64, .width = 64, .batch = 4096, .norm_rows = 64};
  Module module = make_module(options);
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  module.train.batch_span = {0, 3, 4};
  const auto ample = plan(module, machine_of(1));
  ASSERT_TRUE(ample.ok());
  const Bytes all = total(ample->training) + total(ample->inference);
  const auto made = plan(module, machine_of(1, all / 4));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0601");
  EXPECT_EQ(made.error().kind, ErrorKind::kInfeasible);
  EXPECT_EQ(made.error().span, module.train.batch_span);
  ASSERT_EQ(made.error().notes.size(), 1U);
  EXPECT_NE(made.error().notes[0].find("<- largest"), std::string::npos) << made.error().notes[0];
  ASSERT_FALSE(made.error().choices.empty());
  EXPECT_NE(made.error().choices.back().find("batch = "), std::string::npos) << made.error().choices.back();
}

// The memory of the plans that fit is comparable with the limit that the refused plan exceeds.
TEST(Planner, PlansThatFitAreListedWithTheMemoryThatIsLimited) {
  ModelOptions options{.layers = 6, .input = 64, .width = 64, .batch = 4096, .norm_rows = 64};
  options.head = true;
  options.classes = 1000;
  Module module = make_module(options);
  module.schedule.memory_limit = Hint<Bytes>{2 * kMiB, {0, 11, 13}};
  const auto limited = plan(module, machine_of(2));
  ASSERT_FALSE(limited.ok());
  EXPECT_NE(limited.error().help.find("with the memory of the largest device"), std::string::npos);
  ASSERT_FALSE(limited.error().choices.empty());
  for (const std::string& line : limited.error().choices) {
    const double size = std::strtod(line.c_str() + 44, nullptr) * (line.find(" MiB") != std::string::npos ? 1024 : 1);
    EXPECT_LE(size, 2 * 1024) << line;
    EXPECT_GT(size, 0) << line;
  }
  module.schedule.memory_limit.reset();
  const auto whole = plan(module, machine_of(2, 6 * kMiB));
  ASSERT_FALSE(whole.ok());
  EXPECT_NE(whole.error().help.find("with the memory of the run"), std::string::npos);
}

// Returns the sum of the rows of a list of memory, without its first line.
double sum_of_rows(const std::string& note) {
  std::istringstream lines(note);
  std::string line;
  std::getline(lines, line);
  double sum = 0;
  while (std::getline(lines, line)) {
    char unit[8] = "";
    double value = 0;
    std::sscanf(line.c_str() + 40, "%lf %7s", &value, unit);
    sum += value * (unit[0] == 'M' ? kMiB : unit[0] == 'K' ? kKiB : 1);
  }
  return sum;
}

// The rows name all memory of a run: those of the largest device, of the others, of the host, of evaluation and saves.
TEST(Planner, RowsOfARefusalAddUpToItsMemory) {
  ModelOptions options{.layers = 6, .input = 64, .width = 64, .batch = 4096, .norm_rows = 64};
  options.head = true;
  options.classes = 3000;
  Module module = make_module(options);
  module.data.sources = {testing::glyphs_source("train", {"one", "two"}, 32), testing::source("test", "synthetic")};
  for (const bool clustered : {false, true}) {
    Machine machine = machine_of(2, 6 * kMiB);
    if (clustered) {
      machine.device_nodes = {0, 1};
      machine.ranks = 2;
      machine.memory = kGiB;
      machine.node_memory = 3 * kMiB;
    }
    const auto made = plan(module, machine);
    ASSERT_FALSE(made.ok());
    const std::string& message = made.error().message;
    ASSERT_EQ(message.find("does not fit: the smallest plan found needs "), 0U) << message;
    EXPECT_EQ(message.find(" on a node, ") != std::string::npos, clustered) << message;
    const double needed = std::strtod(message.c_str() + message.find("needs ") + 6, nullptr) * kMiB;
    EXPECT_NEAR(sum_of_rows(made.error().notes[0]), needed, 0.3 * kMiB) << message << "\n" << made.error().notes[0];
    EXPECT_EQ(made.error().notes[0].find("\nother devices") != std::string::npos, !clustered);
  }
}

// Compares the whole text of XG0601; costs are computed by formula.
TEST(Planner, RefusalsPointAtTheBatchOrTheLimit) {
  SourceMap sources;
  const std::string text =
      "xgraph 1\n\ntrain once {\n  batch     = 4096\n}\n\nschedule deep {\n  stages        = 2\n"
      "  micro_batches = 2\n  memory_limit  = 64KiB\n}\n";
  const int32_t file = sources.add("wide.xgraph", text);
  const auto span_of = [&](std::string_view word) {
    const auto at = static_cast<uint32_t>(text.find(word));
    return Span{file, at, at + static_cast<uint32_t>(word.size())};
  };
  ModelOptions options{.layers = 6, .input = 64, .width = 64, .batch = 4096, .norm_rows = 64};
  options.head = true;
  options.classes = 1000;
  Module module = make_module(options);
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  module.train.batch_span = span_of("4096");
  module.schedule.stages = Hint<int64_t>{2, span_of("2\n  micro")};
  module.schedule.micro_batches = Hint<int64_t>{2, span_of("2\n  memory")};
  const auto open = plan(module, machine_of(2, 6 * kMiB));
  ASSERT_FALSE(open.ok());
  EXPECT_TRUE(test::matches_golden(render(open.error(), sources), "refusals/memory.txt"));
  module.schedule.memory_limit = Hint<Bytes>{64 * kKiB, span_of("64KiB")};
  const auto limited = plan(module, machine_of(2));
  ASSERT_FALSE(limited.ok());
  EXPECT_TRUE(test::matches_golden(render(limited.error(), sources), "refusals/memory_limit.txt"));
}

TEST(Planner, RecomputeHintsAreObeyed) {
  Module module = make_module(wide());
  const Graph graph = prepare_training(module).graph;
  module.schedule.recompute = Hint<RecomputeHint>{{RecomputeHint::kPaths, {"layer1"}}, {}};
  const auto some = plan(module, machine_of(1));
  ASSERT_TRUE(some.ok()) << some.error().message;
  ASSERT_FALSE(some->training.stages[0].recomputed.empty());
  for (const NodeId node : some->training.stages[0].recomputed) {
    EXPECT_EQ(graph.node(node).path.substr(0, 6), "layer1");
  }
  module.schedule.recompute = Hint<RecomputeHint>{{RecomputeHint::kAll, {}}, {}};
  const auto all = plan(module, machine_of(1));
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_GT(all->training.stages[0].recomputed.size(), some->training.stages[0].recomputed.size());
  EXPECT_GT(all->predicted.step, some->predicted.step);
}

TEST(Planner, EqualInputsGiveEqualPlans) {
  const Module module = make_module(wide());
  const auto a = plan(module, machine_of(3));
  const auto b = plan(module, machine_of(3));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->id, b->id);
  const auto c = plan(module, machine_of(2));
  EXPECT_NE(a->id, c->id);
}

TEST(Planner, DeterministicPlansHaveFourPartials) {
  Module module = make_module(wide());
  module.train.deterministic = true;
  const auto made = plan(module, machine_of(2));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->training.partials, 4);
  EXPECT_TRUE(made->training.deterministic);
}

// Any model on any machine under any hints gives a verified plan (make_plan verifies it) or an error with a reason.
TEST(Planner, EveryRandomCaseIsPlannedOrRejectedWithAReason) {
  int planned = 0;
  int refused = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const RandomStream stream(seed, 4);
    uint64_t at = 0;
    const auto below = [&](uint64_t n) { return static_cast<int>(stream.below(at++, n)); };
    ModelOptions options{.layers = 1 + below(5), .input = 16, .width = 32};
    options.head = below(2) == 0;
    options.classes = options.head ? 200 : 10;
    options.head_bias = below(2) == 0;
    options.norm = below(2) == 0;
    options.skips = below(2) == 0;
    options.random = below(2) == 0;
    options.precision = below(2) == 0 ? PrecisionMode::kMixedBf16 : PrecisionMode::kF32;
    options.norm_rows = 4;
    options.batch = 4 * (1 + below(12));
    Module module = make_module(options);
    module.train.deterministic = below(2) == 0;
    ScheduleSpec& schedule = module.schedule;
    if (below(2) == 0) {
      schedule.stages = Hint<int64_t>{1 + below(4), {}};
    }
    if (below(3) == 0) {
      schedule.micro_batches = Hint<int64_t>{1 + below(4), {}};
    }
    if (below(3) == 0) {
      schedule.replicas = Hint<int64_t>{1 + below(3), {}};
    }
    if (below(3) == 0) {
      schedule.pipeline = Hint<PipelineHint>{{below(2) == 0 ? PipelineKind::kGpipe : PipelineKind::kOneFOneB}, {}};
    }
    if (below(3) == 0) {
      schedule.recompute = Hint<RecomputeHint>{{below(2) == 0 ? RecomputeHint::kAll : RecomputeHint::kNone, {}}, {}};
    }
    if (options.head && below(3) == 0) {
      schedule.shards.push_back({"id", 1 + below(5), false, below(2) == 0 ? "micro_batch" : "", {}});
    }
    if (below(8) == 0) {
      module.train.clip = {ClipSpec::kNorm, 1.0, below(2) == 0};
    }
    const Machine machine = machine_of(1 + below(4), kGiB, below(2) == 0 ? 6 : 0);
    const auto made = plan(module, machine);
    if (!made.ok()) {
      ++refused;
      EXPECT_EQ(made.error().code.substr(0, 5), "XG060") << "seed " << seed << ": " << made.error().message;
      EXPECT_NE(made.error().help, "") << "seed " << seed;
      continue;
    }
    ++planned;
    EXPECT_TRUE(!schedule.stages || schedule.stages->value == static_cast<int64_t>(made->training.stages.size()));
    EXPECT_TRUE(!schedule.micro_batches || schedule.micro_batches->value == made->training.micro_batches);
    EXPECT_TRUE(!schedule.replicas || schedule.replicas->value == made->training.replicas);
    EXPECT_TRUE(!schedule.pipeline || schedule.pipeline->value.kind == made->training.schedule);
    EXPECT_GT(made->predicted.step, 0) << "seed " << seed;
  }
  EXPECT_GT(planned, 40);
  EXPECT_GT(refused, 10);
}

TEST(Planner, AHeadDirectlyOnTheInputHasAStageWithoutLayers) {
  Module module;
  module.model = "linear";
  Graph& graph = module.graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 16}});
  TensorType label_type{DType::kI32, {kBatch}};
  label_type.classes = 100;
  const ValueId label = graph.add_input("label", label_type);
  const auto call = [&](const char* op, std::vector<ValueId> inputs, Attrs attrs) {
    const NodeId node =
        call_op(graph, *testing::test_registry().find(op), std::move(inputs), std::move(attrs), op, {}).value();
    return graph.node(node).outputs[0];
  };
  const ValueId logits = call("classifier", {x}, {{"classes", int64_t{100}}});
  graph.heads.push_back({"id", graph.value(logits).producer, {}});
  module.train.loss = {{call("softmax_ce", {logits, label}, {})}};
  module.train.batch = 32;
  module.train.norm_rows = 8;
  module.train.optimizer = test::optimizer("sgd", {{"momentum", 0.9}});
  const auto made = plan(module, machine_of(2));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->training.stages.size(), 1U);
}

}  // namespace
}  // namespace xrun::planner
