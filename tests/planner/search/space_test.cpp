// Every hint of a schedule changes the plan, or is rejected if it cannot be satisfied.
#include "planner/search/space.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/report/reason_text.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using testing::make_facts;
using testing::make_module;
using testing::ModelOptions;
using testing::prepare_inference;
using testing::prepare_training;

// Returns a model with a head and two layers that are large enough to be distributed.
Module subject() {
  return make_module(
      {.layers = 4, .input = 256, .width = 512, .classes = 1000, .head = true, .batch = 1024, .norm_rows = 64});
}

Machine two_devices() { return {.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = 4 * kGiB}; }

struct Printed {
  Program program;
  std::string text;
};

Result<Printed> plan(const Module& module) {
  const Module training = prepare_training(module);
  const Module inference = prepare_inference(module);
  XRUN_ASSIGN(Plan made,
              make_plan(training, inference, make_facts(training), make_facts(inference), two_devices(), {}));
  std::string text = print(made.training, training.graph);
  return Printed{std::move(made.training), std::move(text)};
}

Bytes largest_device(const Program& program) {
  Bytes largest = 0;
  for (const Arena& arena : program.arenas) {
    largest = std::max(largest, arena.device == kHost ? 0 : arena.bytes);
  }
  return largest;
}

// If a batch has one row block on two devices, the plan proposes a smaller row block with its gain, unless a hint asks
// for the choice.
TEST(Hints, ARowBlockThatLeavesDevicesIdleIsReported) {
  // Returns the proposals of a plan. They must be reasons of replicas and micro-batches.
  const auto proposals = [](ModelOptions options, const std::function<void(ScheduleSpec&)>& set) {
    Module module = make_module(options);
    set(module.schedule);
    const Module training = prepare_training(module);
    const Module inference = prepare_inference(module);
    const KernelFacts facts = make_facts(training);
    const KernelFacts inference_facts = make_facts(inference);
    auto made = make_plan(training, inference, facts, inference_facts, two_devices(), {});
    EXPECT_TRUE(made.ok()) << made.error().message;
    const Status said = explain_idle_devices(*made, training, inference, facts, inference_facts,
                                             [](const Module& other, bool) { return Result(make_facts(other)); });
    EXPECT_TRUE(said.ok()) << said.error().message;
    std::vector<Reason> found;
    for (const Reason& reason : made->why) {
      if (reason.smaller_block) {
        EXPECT_TRUE(reason.key == Reason::Key::kReplicas || reason.key == Reason::Key::kMicroBatches);
        found.push_back(reason);
      }
    }
    return found;
  };
  const auto nothing = [](ScheduleSpec&) {};
  const auto one_stage = [](ScheduleSpec& schedule) {
    for (const char* path : {"stem", "layer0", "out", "loss", "accuracy"}) {
      schedule.pins.push_back({path, 0, {}});
    }
  };
  const ModelOptions one{.layers = 1, .input = 256, .width = 512, .batch = 64, .norm_rows = 64};
  const std::vector<Reason> found = proposals(one, one_stage);
  ASSERT_EQ(found.size(), 2U);
  for (const Reason& reason : found) {
    const SmallerBlock& block = *reason.smaller_block;
    EXPECT_EQ(block.batch, 64);
    EXPECT_EQ(block.blocks, 1);
    EXPECT_EQ(block.norm_rows, 32);
    EXPECT_EQ(block.devices, 2);
    EXPECT_EQ(block.used, 2);
    EXPECT_TRUE(block.idle);
    EXPECT_TRUE(block.coupled);
    EXPECT_GT(block.faster, 0.01);
    const std::string text = reason_text(reason);
    EXPECT_NE(text.find("; 64 rows are one block: `norm_rows=32` would use both devices, "), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with(" % faster, with statistics of fewer rows")) << text;
  }
  const ModelOptions deep{.layers = 4, .input = 256, .width = 512, .batch = 64, .norm_rows = 64};
  const std::vector<Reason> stages = proposals(deep, nothing);
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_FALSE(stages[0].smaller_block->idle) << "two stages use both devices, one after the other";
  EXPECT_NE(reason_text(stages[0]).find("; 64 rows are one block: `norm_rows=32` would be "), std::string::npos);
  ModelOptions without = one;
  without.norm = false;
  const std::vector<Reason> uncoupled = proposals(without, one_stage);
  ASSERT_EQ(uncoupled.size(), 2U);
  EXPECT_FALSE(uncoupled[0].smaller_block->coupled);
  EXPECT_TRUE(reason_text(uncoupled[0]).ends_with(" % faster"));
  ModelOptions enough = one;
  enough.norm_rows = 32;
  EXPECT_TRUE(proposals(enough, one_stage).empty());
  EXPECT_TRUE(proposals(one, [](ScheduleSpec& s) { s.replicas = {{1, {}}}; }).empty()) << "was asked for";
}

TEST(Hints, EveryHintChangesThePlan) {
  struct Case {
    const char* name;
    std::function<void(ScheduleSpec&)> set;
    std::function<bool(const Program&)> held;
  };
  const auto free = plan(subject());
  ASSERT_TRUE(free.ok()) << free.error().message;
  ASSERT_EQ(free->program.stages.size(), 1U);
  ASSERT_EQ(free->program.replicas, 2);
  const Bytes limit = largest_device(free->program) * 9 / 10;
  const std::vector<Case> cases{
      {"stages",
       [](ScheduleSpec& s) {
         s.stages = Hint<int64_t>{2, {}};
       },
       [](const Program& p) { return p.stages.size() == 2; }},
      {"micro_batches",
       [](ScheduleSpec& s) {
         s.micro_batches = Hint<int64_t>{16, {}};
       },
       [](const Program& p) { return p.micro_batches == 16; }},
      {"replicas",
       [](ScheduleSpec& s) {
         s.replicas = Hint<int64_t>{1, {}};
       },
       [](const Program& p) { return p.replicas == 1; }},
      {"pipeline",
       [](ScheduleSpec& s) {
         s.pipeline = Hint<PipelineHint>{{PipelineKind::kOneFOneB}, {}};
       },
       [](const Program& p) { return p.schedule == PipelineKind::kOneFOneB; }},
      {"recompute",
       [](ScheduleSpec& s) {
         s.recompute = Hint<RecomputeHint>{{RecomputeHint::kAll, {}}, {}};
       },
       [](const Program& p) { return !p.stages[0].recomputed.empty(); }},
      {"overlap",
       [](ScheduleSpec& s) {
         s.overlap = Hint<bool>{false, {}};
       },
       [](const Program& p) {
         return !p.overlap && std::none_of(p.instructions.begin(), p.instructions.end(),
                                           [](const Instruction& i) { return i.stream == Stream::kComm; });
       }},
      {"memory_limit",
       [&](ScheduleSpec& s) {
         s.memory_limit = Hint<Bytes>{limit, {}};
       },
       [&](const Program& p) { return largest_device(p) <= limit; }},
      {"shard.over", [](ScheduleSpec& s) { s.shards.push_back({.head = "id", .shards = 1}); },
       [](const Program& p) { return p.heads[0].shards.size() == 1; }},
      {"shard.granularity",
       [](ScheduleSpec& s) {
         s.micro_batches = Hint<int64_t>{8, {}};
         s.shards.push_back({.head = "id", .granularity = "micro_batch"});
       },
       [](const Program& p) { return p.heads[0].rows == p.batch / 8 * p.replicas; }},
      {"pin",
       [](ScheduleSpec& s) {
         s.pins.push_back({"layer1", 1, {}});
       },
       [](const Program& p) { return p.stages.size() > 1; }},
  };
  for (const Case& c : cases) {
    Module module = subject();
    c.set(module.schedule);
    const auto made = plan(module);
    ASSERT_TRUE(made.ok()) << c.name << ": " << made.error().message;
    EXPECT_NE(made->text, free->text) << c.name;
    EXPECT_TRUE(c.held(made->program)) << c.name;
    EXPECT_FALSE(c.held(free->program)) << c.name << ": the plan is like that without the hint";
  }
}

TEST(Hints, OneHeadPassPerStepExcludesOneFOneB) {
  Module module = subject();
  module.schedule.stages = Hint<int64_t>{2, {}};
  module.schedule.micro_batches = Hint<int64_t>{8, {}};
  module.schedule.shards.push_back({.head = "id", .granularity = "step"});
  const auto made = plan(module);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->program.schedule, PipelineKind::kGpipe);
  EXPECT_EQ(made->program.heads[0].rows, module.train.batch);
}

TEST(Hints, AGranularityThatContradictsThePipelineIsRejected) {
  Module module = subject();
  module.schedule.pipeline = Hint<PipelineHint>{{PipelineKind::kOneFOneB}, {}};
  module.schedule.micro_batches = Hint<int64_t>{8, {}};
  module.schedule.shards.push_back({.head = "id", .granularity = "step", .span = {0, 3, 5}});
  auto made = plan(module);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0607");
  EXPECT_EQ(made.error().span, (Span{0, 3, 5}));
  module = subject();
  module.schedule.shards.push_back({.head = "id", .granularity = "step"});
  module.schedule.shards.push_back({.head = "other", .granularity = "micro_batch", .span = {0, 3, 5}});
  made = plan(module);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0607");
  EXPECT_EQ(made.error().span, (Span{0, 3, 5}));
}

TEST(Hints, EachPipelineIsPlannedAsAskedFor) {
  for (const PipelineHint& hint :
       {PipelineHint{.kind = PipelineKind::kOneFOneB, .warm_up = 2},
        PipelineHint{.kind = PipelineKind::kInterleaved, .chunks = 2}, PipelineHint{.kind = PipelineKind::kZbV},
        PipelineHint{.kind = PipelineKind::kZeroBubble}}) {
    SCOPED_TRACE(word_of(hint.kind));
    Module module = subject();
    module.schedule.pipeline = Hint<PipelineHint>{hint, {}};
    module.schedule.stages = Hint<int64_t>{2 * hint.stages_of_device(), {}};
    const auto made = plan(module);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->program.schedule, hint.kind);
    EXPECT_EQ(made->program.warm_up, hint.warm_up);
    EXPECT_EQ(made->program.stages_of_device(), hint.stages_of_device());
    const bool splits = std::ranges::any_of(made->program.instructions, [&](const Instruction& one) {
      return one.kind == Kind::kBackward && *made->program.letter_of(one) == 'W';
    });
    EXPECT_EQ(splits, splits_backward(hint.kind) || setting_of(made->program).one_head_pass);
  }
}

TEST(Hints, StagesThatAPipelineCannotHaveAreRejected) {
  const auto refusal = [](Module module, int64_t stages) {
    module.schedule.pipeline = Hint<PipelineHint>{{PipelineKind::kZbV}, {0, 7, 9}};
    module.schedule.stages = Hint<int64_t>{stages, {0, 3, 5}};
    const auto made = plan(module);
    return made.ok() ? Error{} : made.error();
  };
  const Error odd = refusal(subject(), 3);
  EXPECT_EQ(odd.code, "XG0602");
  EXPECT_EQ(odd.message, "3 stages cannot be shared out: `zb_v` has 2 on each device");
  EXPECT_EQ(odd.help, "stages = a multiple of 2");
  EXPECT_EQ(odd.span, (Span{0, 3, 5}));
  const Error many = refusal(subject(), 6);
  EXPECT_EQ(many.message, "6 stages need 3 devices, but there are only 2");
  EXPECT_EQ(many.help, "stages = at most 4, or --devices 3");
  const Error tied = refusal(make_module({.layers = 4, .tied = 1, .batch = 64, .norm_rows = 8}), 4);
  EXPECT_EQ(tied.code, "XG0609");
  EXPECT_EQ(tied.span, (Span{0, 7, 9}));
}

TEST(Hints, InterleavedMicroBatchesRunInGroupsOfEqualSize) {
  EXPECT_TRUE(permits(PipelineKind::kInterleaved, 3, 2, 6));
  EXPECT_TRUE(permits(PipelineKind::kInterleaved, 3, 2, 2)) << "fewer micro-batches than devices are one group";
  EXPECT_TRUE(permits(PipelineKind::kInterleaved, 3, 2, 8)) << "two groups of four";
  EXPECT_FALSE(permits(PipelineKind::kInterleaved, 3, 2, 7));
  EXPECT_TRUE(permits(PipelineKind::kZbV, 3, 2, 7));
}

// A third of 21 micro-batches cannot run in groups of equal size on three devices, although all of them can.
TEST(Hints, InterleavedStepsOfAGrowingBatchRunInGroupsToo) {
  const Machine machine{.name = "3 x cpu", .cores = 3, .devices = 3, .threads = 3, .memory = 64 * kGiB};
  Module module = make_module({.layers = 8, .batch = 21 * 8, .norm_rows = 8});
  module.schedule.pipeline = Hint<PipelineHint>{{.kind = PipelineKind::kInterleaved}, {}};
  module.schedule.micro_batches = Hint<int64_t>{21, {}};
  const auto has_three_ranks = [&] {
    const Module training = prepare_training(module);
    const KernelFacts facts = make_facts(training);
    const auto settings =
        legal_settings(training, make_chain(training, CostModel(facts, machine)), machine, false).value();
    return std::ranges::any_of(settings, [](const Setting& one) { return one.ranks() == 3; });
  };
  EXPECT_TRUE(has_three_ranks());
  module.train.growth = GrowthSpec{.first = 7 * 8, .times = 3};
  EXPECT_FALSE(has_three_ranks());
}

// Each replica has one row on one of 300 devices; the program never runs.
TEST(Hints, NoSettingHasMoreReplicasThanASumSupports) {
  const Machine machine{.name = "300 x cpu", .cores = 300, .devices = 300, .threads = 300, .memory = 64 * kGiB};
  Module module = make_module({.layers = 1, .batch = 300, .norm_rows = 1});
  const auto settings = [&] {
    const Module training = prepare_training(module);
    const KernelFacts facts = make_facts(training);
    return legal_settings(training, make_chain(training, CostModel(facts, machine)), machine, false);
  };
  const auto all = settings();
  ASSERT_TRUE(all.ok()) << all.error().message;
  for (const Setting& setting : *all) {
    EXPECT_LE(setting.replicas, kMostReplicas);
  }
  module.schedule.replicas = Hint<int64_t>{300, {0, 11, 13}};
  const auto refused = settings();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0603");
  EXPECT_EQ(refused.error().message, "300 replicas: their gradients are summed over 256 at most");
  EXPECT_NE(refused.error().help.find("1 .. 256"), std::string::npos) << refused.error().help;
  EXPECT_EQ(refused.error().span, (Span{0, 11, 13}));
}

TEST(Space, DivisorsAreCompleteAndAscending) {
  EXPECT_EQ(divisors(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(divisors(36), (std::vector<int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
  for (int64_t n = 1; n <= 200; ++n) {
    std::vector<int64_t> all;
    for (int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) {
        all.push_back(d);
      }
    }
    EXPECT_EQ(divisors(n), all) << n;
  }
  const std::vector<int64_t> large = divisors(1'000'000'000);  // 2^9 x 5^9
  EXPECT_EQ(large.size(), 100U);
  EXPECT_TRUE(std::ranges::is_sorted(large));
  EXPECT_EQ(large[99], 1'000'000'000);
  EXPECT_EQ(large[98], 500'000'000);
  EXPECT_EQ(divisors(1'000'000'007).size(), 2U);
}

}  // namespace
}  // namespace xrun::planner
