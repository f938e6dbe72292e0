#include "planner/plan_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <span>
#include <string>

#include "planner/codec/plan_codec.h"
#include "planner/report/diff.h"
#include "planner/report/reason_text.h"
#include "planner/verify/verify_program.h"
#include "tests/planner/decisions.h"
#include "tests/support/golden.h"

namespace xrun::planner::testing {
namespace {

namespace fs = std::filesystem;

constexpr PlanTexts kTexts{choice_text, reason_text, settings_text, note_text};

struct Made {
  Module training;
  Module inference;
  KernelFacts facts;
  Plan plan;
};

Made make_plan_to_store() {
  Made made;
  const Module module = make_module({.layers = 2, .classes = 700, .head = true, .head_bias = true});
  made.training = prepare_training(module);
  made.inference = prepare_inference(module);
  made.training.sources = {{"small.xgraph", "aa11"}, {"parts.xgraph", "bb22"}};
  made.facts = make_facts(made.training);
  const Layout layout{.stages = 2, .micro_batches = 4, .shards = 3, .devices = 3, .recompute_seed = 7};
  Plan& plan = made.plan;
  plan.id = "12345678";
  plan.model = "small";
  plan.machine = make_test_machine(3);
  plan.training = emit_layout(made.training, layout).value();
  plan.inference = emit_layout(made.inference, layout, false).value();
  plan.options = {{"devices", "3"}, {"set train.batch", "64"}};
  plan.sources = made.training.sources;
  plan.math_digest = made.training.math_digest;
  plan.facts_digest = made.facts.digest;
  plan.isa = made.facts.isa;
  plan.predicted = {0.25, 256, 0.1, 0.05, 0.001};
  plan.samples = 5'179'510;
  plan.why = {{.key = Reason::Key::kStages, .value = 2, .cause = Reason::Cause::kRival, .rival = Rival{.ratio = 0.1}}};
  plan.alternatives = {
      {.replicas = 2, .micro_batches = 4, .recomputed = 3, .step = 0.5, .memory = 1000, .ratio = 1, .idle = 0.25},
      {.stages = 6,
       .micro_batches = 8,
       .pipeline = {PipelineKind::kInterleaved, 0, 3},
       .one_head_pass = true,
       .head = "id",
       .step = 0.5}};
  plan.other_kinds = {{.stages = 3, .step = 0.75, .is_estimate = true}};
  plan.certificate = Certificate{.bound = 0.125,
                                 .stages = {1, 2},
                                 .replicas = {1},
                                 .micro_batches = {1, 4},
                                 .pipelines = {false, true},
                                 .limit = Certificate::Limit::kHead,
                                 .busy = 0.0625,
                                 .complete = false,
                                 .compared = 2};
  return made;
}

std::vector<std::string> files_of(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string code_of(const std::vector<std::byte>& bytes) {
  const auto plan = load_plan_bytes(bytes);
  return plan.ok() ? "" : plan.error().code;
}

// Adds a valid digest, so that the checks after that of the digest are reached.
std::vector<std::byte> sign(std::vector<std::byte> bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  for (const unsigned char byte : digest) {
    bytes.push_back(static_cast<std::byte>(byte));
  }
  return bytes;
}

TEST(PlanFile, SavingAndLoadingKeepsEverything) {
  const Made made = make_plan_to_store();
  const auto loaded = load_plan_bytes(plan_bytes(made.plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(print(loaded->training, made.training.graph), print(made.plan.training, made.training.graph));
  EXPECT_EQ(print(loaded->inference, made.inference.graph), print(made.plan.inference, made.inference.graph));
  // The printed text leaves out some values, so the bytes of a second file are also compared.
  EXPECT_EQ(plan_bytes(*loaded), plan_bytes(made.plan));
  EXPECT_EQ(loaded->id, "12345678");
  EXPECT_EQ(loaded->options, made.plan.options);
  EXPECT_EQ(loaded->machine.memory, made.plan.machine.memory);
  EXPECT_EQ(note_text(loaded->alternatives[0]), "100 % slower, idles 25 %");
  EXPECT_EQ(loaded->alternatives[0].replicas, 2);
  EXPECT_EQ(loaded->alternatives[0].micro_batches, 4);
  EXPECT_EQ(loaded->alternatives[0].recomputed, 3);
  EXPECT_EQ(settings_text(loaded->alternatives[1]),
            "stages = 6, micro_batches = 8, pipeline = interleaved(chunks=3), shard id { granularity = step }");
  EXPECT_EQ(note_text(loaded->other_kinds[0]), "as fast, estimated");
  ASSERT_TRUE(loaded->certificate.has_value());
  EXPECT_EQ(loaded->certificate->bound, 0.125);
  EXPECT_EQ(loaded->certificate->micro_batches, (std::vector<int>{1, 4}));
  EXPECT_EQ(loaded->certificate->limit, Certificate::Limit::kHead);
  EXPECT_FALSE(loaded->certificate->complete);
  EXPECT_EQ(loaded->samples, 5'179'510);
  EXPECT_EQ(loaded->training.heads[0].shards[2].row_end, 700);
  EXPECT_TRUE(verify_program(loaded->training, made.training).ok());
  EXPECT_TRUE(verify_program(loaded->inference, made.inference).ok());
}

TEST(PlanFile, KeepsTheValuesOfReasons) {
  using Key = Reason::Key;
  using Cause = Reason::Cause;
  Made made = make_plan_to_store();
  const Rival rival{.stages = 2,
                    .micro_batches = 8,
                    .verdict = Rival::Verdict::kNotCompared,
                    .is_estimate = true,
                    .step = 0.3,
                    .memory = 700,
                    .ratio = -0.125,
                    .idle = 0.25};
  const SmallerBlock block{
      .batch = 64, .blocks = 1, .norm_rows = 32, .devices = 2, .used = 2, .faster = 0.43, .coupled = true};
  const HeadState state{.bytes = 4096, .mapped = true, .active = 100, .is_subset = true, .kept = 50, .logits = 2048};
  const Rival warm{.pipeline = {PipelineKind::kOneFOneB, 2}, .ratio = 0.05};
  HeadState narrow = state;
  narrow.states = RowFormat::kBf16;
  made.plan.why = {{.key = Key::kStages, .value = 1, .cause = Cause::kRival, .rival = rival},
                   {.key = Key::kReplicas, .value = 1, .cause = Cause::kPartials, .count = 4, .smaller_block = block},
                   {.key = Key::kMicroBatches, .value = 1, .rows = 64},
                   {.key = Key::kShards, .head = "id", .value = 3, .cause = Cause::kHeadState, .head_state = state},
                   {.key = Key::kShards, .head = "b", .value = 3, .cause = Cause::kHeadState, .head_state = narrow},
                   {.key = Key::kRecompute, .value = 3, .of = 10, .cause = Cause::kCheapestThatFits},
                   {.key = Key::kRecompute, .value = 4, .of = 10, .cause = Cause::kFits},
                   {.key = Key::kPipeline, .value = 2, .of = 3, .cause = Cause::kRival, .rival = warm},
                   {.key = Key::kGranularity, .head = "id", .value = 1, .cause = Cause::kRival, .rival = warm}};
  const auto loaded = load_plan_bytes(plan_bytes(made.plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(plan_bytes(*loaded), plan_bytes(made.plan));
  std::vector<std::string> lines;
  for (const Reason& reason : loaded->why) {
    lines.push_back(choice_text(reason) + ": " + reason_text(reason));
  }
  const std::string logits = "; logits of 50 of the 100 active classes 2.0 KiB, kept for the backward pass";
  EXPECT_EQ(lines,
            (std::vector<std::string>{
                "stages = 1: two stages were not compared",
                "replicas = 1: no other number divides the 4 partials of gradients (deterministic); 64 rows are one "
                "block: `norm_rows=32` would use both devices, 43 % faster, with statistics of fewer rows",
                "micro_batches = 1: 64 rows each", "shards id = 3: weights and states 4.0 KiB in a file" + logits,
                "shards b = 3: weights and states 4.0 KiB in a file (rows in f32, states in bf16)" + logits,
                "recompute = 3 of 10 layers: the cheapest that fits, by estimated memory",
                "recompute = 4 of 10 layers: fits; a plan that runs fewer layers again may fit too",
                "pipeline = interleaved(chunks=3): one_f_one_b(warm_up=2) is 5.0 % slower",
                "granularity id = step: micro_batch is 5.0 % slower"}));
  EXPECT_EQ(loaded->why[0].rival->step, rival.step);
  EXPECT_EQ(loaded->why[0].rival->memory, rival.memory);
  EXPECT_FALSE(loaded->why[3].head_state->states.has_value());
}

// Files of earlier versions have only the texts of reasons and of compared programs.
TEST(PlanFile, AFileWithoutTheValuesOfReasonsKeepsItsTexts) {
  Made made = make_plan_to_store();
  made.plan.why = {{.stored = {"stages", "2", "asked for"}},
                   {.stored = {"shards id", "3", "weights and states 4.6 KiB"}}};
  made.plan.alternatives = {{.stages = 1, .step = 0.5, .stored = StoredAlternative{"stages = 1", "slower"}}};
  const auto loaded = load_plan_bytes(plan_bytes(made.plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(plan_bytes(*loaded), plan_bytes(made.plan));
  EXPECT_EQ(choice_text(loaded->why[1]), "shards id = 3");
  EXPECT_EQ(reason_text(loaded->why[1]), "weights and states 4.6 KiB");
  EXPECT_EQ(settings_text(loaded->alternatives[0]), "stages = 1");
  EXPECT_EQ(note_text(loaded->alternatives[0]), "slower");
  // A plan with values has the same rows, so that the two can be compared.
  made.plan.why = {{.key = Reason::Key::kStages, .value = 2, .cause = Reason::Cause::kAskedFor},
                   {.key = Reason::Key::kShards, .head = "id", .value = 3}};
  EXPECT_TRUE(diff_plans(*loaded, made.plan).empty());
}

TEST(PlanFile, IllegalValuesOfReasonsAreRejected) {
  const PlanTexts no_texts{[](const Reason&) { return std::string(); }, [](const Reason&) { return std::string(); },
                           [](const Alternative&) { return std::string(); },
                           [](const Alternative&) { return std::string(); }};
  Plan plan = make_plan_to_store().plan;
  const auto code_with = [&](const Reason& reason) {
    plan.why = {reason};
    return code_of(sign(encode_plan(plan, kPlanSchema, no_texts)));
  };
  using Key = Reason::Key;
  EXPECT_EQ(code_with({.key = Key::kStages, .value = 1}), "");
  EXPECT_EQ(code_with({.key = Key::kStages, .value = -1}), "XG0621");
  EXPECT_EQ(code_with({.key = static_cast<Key>(99)}), "XG0621");
  EXPECT_EQ(code_with({.key = Key::kStages, .cause = static_cast<Reason::Cause>(99)}), "XG0621");
  EXPECT_EQ(code_with({.key = Key::kStages, .cause = Reason::Cause::kRival}), "XG0621") << "there is no rival";
  EXPECT_EQ(code_with({.key = Key::kStages, .rival = Rival()}), "XG0621");
  EXPECT_EQ(code_with({.key = Key::kShards, .cause = Reason::Cause::kHeadState}), "XG0621");
}

// The version of xrun is recorded; only the schema decides whether a plan can be read.
TEST(PlanFile, APlanOfAnEarlierVersionLoads) {
  const Made made = make_plan_to_store();
  std::vector<std::byte> bytes = encode_plan(made.plan, kPlanSchema, kTexts);
  const auto written = decode_plan(bytes, kPlanSchema, "now.xplan");
  ASSERT_TRUE(written.ok()) << written.error().message;
  const std::string now = written->xrun_version;
  const std::string earlier = "0.1.0";
  ASSERT_EQ(now.size(), earlier.size()) << now << ": the text in the file cannot be replaced";
  ASSERT_NE(now, earlier);
  const std::span<const std::byte> text = std::as_bytes(std::span(now));
  const auto at = std::ranges::search(bytes, text).begin();
  ASSERT_NE(at, bytes.end());
  std::ranges::copy(std::as_bytes(std::span(earlier)), at);
  EXPECT_EQ(decode_plan(bytes, kPlanSchema, "earlier.xplan").value().xrun_version, earlier);
  const auto loaded = load_plan_bytes(sign(bytes), "earlier.xplan");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(plan_bytes(*loaded), plan_bytes(made.plan));
}

TEST(PlanFile, EveryTruncationIsRejected) {
  const std::vector<std::byte> bytes = plan_bytes(make_plan_to_store().plan);
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    ASSERT_EQ(code_of(cut), "XG0621") << size;
  }
}

TEST(PlanFile, EveryFlippedBitIsRejected) {
  std::vector<std::byte> bytes = plan_bytes(make_plan_to_store().plan);
  for (size_t at = 0; at < bytes.size(); at += 41) {
    bytes[at] ^= std::byte{0x10};
    ASSERT_EQ(code_of(bytes), "XG0621") << at;
    bytes[at] ^= std::byte{0x10};
  }
  EXPECT_EQ(code_of(bytes), "");
}

TEST(PlanFile, OtherSchemasAreReported) {
  const Plan plan = make_plan_to_store().plan;
  const auto newer = load_plan_bytes(sign(encode_plan(plan, kPlanSchema + 1, kTexts)), "big.xplan");
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, "XG0624");
  EXPECT_NE(newer.error().message.find("newer than"), std::string::npos) << newer.error().message;
  const auto older = load_plan_bytes(sign(encode_plan(plan, kPlanSchema - 1, kTexts)), "big.xplan");
  ASSERT_FALSE(older.ok());
  EXPECT_NE(older.error().message.find("older than"), std::string::npos) << older.error().message;
}

// This file was written by the last version with the first schema, whose tables have another layout.
TEST(PlanFile, APlanOfTheFirstSchemaIsRejectedWithAMessage) {
  const std::string text = test::read_source_file("tests/golden/plans/schema_1");
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  const auto plan = load_plan_bytes(sign(bytes), "old.xplan");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, "XG0624");
  EXPECT_NE(plan.error().message.find("plan schema 1, older than"), std::string::npos) << plan.error().message;
  EXPECT_NE(plan.error().help.find("xrun plan"), std::string::npos) << plan.error().help;
}

TEST(PlanFile, AnUnsoundProgramIsNotLoaded) {
  Plan plan = make_plan_to_store().plan;
  plan.training.instructions[5].operands[0].buffer = BufferId(1'000'000);
  EXPECT_EQ(code_of(plan_bytes(plan)), "XG0622");
  plan = make_plan_to_store().plan;
  plan.inference.heads[0].shards[1].row_begin += 64;
  EXPECT_EQ(code_of(plan_bytes(plan)), "XG0622");
}

TEST(PlanFile, IsWrittenAsAWholeOrNotAtAll) {
  const Plan plan = make_plan_to_store().plan;
  const fs::path folder = fs::path(::testing::TempDir()) / "xrun_plan_file_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string path = folder / "small.xplan";
  ASSERT_TRUE(save_plan(plan, path).ok());
  ASSERT_TRUE(save_plan(plan, path).ok()) << "replaces what was there";
  const auto loaded = load_plan(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(files_of(folder), (std::vector<std::string>{"small.xplan"}));
  // The temporary file may belong to another process, so it is left alone.
  fs::create_directory(path + ".tmp");
  EXPECT_TRUE(save_plan(plan, path).ok());
  EXPECT_EQ(files_of(folder), (std::vector<std::string>{"small.xplan", "small.xplan.tmp"}));
  // A temporary file that cannot be renamed into place is removed.
  const Status refused = save_plan(plan, path + ".tmp");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(files_of(folder), (std::vector<std::string>{"small.xplan", "small.xplan.tmp"}));
  fs::remove_all(folder);
  const Status nowhere = save_plan(plan, "/no/such/folder/x.xplan");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kWorld);
  const auto missing = load_plan("/no/such/folder/x.xplan");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kContent);
}

TEST(PlanFile, AStalePlanIsRejectedWithTheCause) {
  const Made made = make_plan_to_store();
  const auto why = [&](const Module& module, const KernelFacts& facts, const Machine& machine) {
    const Status fresh = check_fresh(made.plan, module, facts, machine, &made.inference);
    return fresh.ok() ? std::string() : fresh.error().code + " " + fresh.error().message;
  };
  const Machine machine = made.plan.machine;
  EXPECT_EQ(why(made.training, made.facts, machine), "");
  Module module = made.training;
  module.sources[1].sha256 = "cc33";
  EXPECT_EQ(why(module, made.facts, machine), "XG0625 `parts.xgraph` has changed since plan 12345678 was made");
  module = made.training;
  module.sources.push_back({"new.xgraph", "dd"});
  EXPECT_EQ(why(module, made.facts, machine), "XG0625 plan 12345678 was made without `new.xgraph`");
  module = made.training;
  module.math_digest = "other";
  EXPECT_NE(why(module, made.facts, machine).find("mathematics"), std::string::npos);
  KernelFacts facts = made.facts;
  facts.isa = "amx";
  EXPECT_NE(why(made.training, facts, machine).find("runs amx"), std::string::npos);
  facts = made.facts;
  facts.digest = "other";
  EXPECT_NE(why(made.training, facts, machine).find("kernels"), std::string::npos);
  Machine other = machine;
  other.devices = 2;
  EXPECT_NE(why(made.training, made.facts, other).find("this machine has 2"), std::string::npos);
  other = machine;
  other.memory = 1000;
  EXPECT_NE(why(made.training, made.facts, other).find("1000 B to give"), std::string::npos);
}

TEST(PlanFile, APlanThatBreaksAHintOrNeedsMoreOfTheMachineIsRejected) {
  const Made made = make_plan_to_store();
  const auto why = [&](const Plan& plan, const Module& module, const Machine& machine) {
    const Status fresh = check_fresh(plan, module, made.facts, machine, &made.inference);
    return fresh.ok() ? std::string() : fresh.error().code + " " + fresh.error().message;
  };
  Module module = made.training;
  module.schedule.stages = Hint<int64_t>{3};
  EXPECT_EQ(why(made.plan, module, made.plan.machine), "XG0625 the plan has stages = 2, where the schedule asks for 3");
  Plan plan = made.plan;
  plan.inference.threads[1] = 2;
  EXPECT_EQ(why(plan, made.training, plan.machine),
            "XG0625 plan 12345678 gives device 1 2 threads, this machine has 1 for it");
  Machine cluster = made.plan.machine;
  cluster.device_nodes = {0, 0, 1};
  cluster.node_memory = 1000;
  EXPECT_NE(why(made.plan, made.training, cluster).find("on a node, this machine has 1000 B"), std::string::npos);
}

TEST(PlanFile, APlanWithUnknownValuesIsRejectedForTheGraph) {
  Made made = make_plan_to_store();
  made.plan.training.stages[0].saved.push_back(ValueId(100'000));
  ASSERT_EQ(code_of(plan_bytes(made.plan)), "") << "the file alone cannot know";
  const Status fresh = check_fresh(made.plan, made.training, made.facts, made.plan.machine, &made.inference);
  ASSERT_FALSE(fresh.ok());
  EXPECT_EQ(fresh.error().code, "XG0622");
}

}  // namespace
}  // namespace xrun::planner::testing
