// Runs whose class rows are in a file: they have the bits of runs in memory, can be stopped, are read correctly, and
// reject files that have changed.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "runtime/checkpoint/store.h"
#include "runtime/checkpoint/tensors/describe.h"
#include "runtime/train/evaluation/inference.h"
#include "tests/runtime/checkpoint/rows_run.h"
#include "tests/runtime/runs/run_fixture.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::make_module;
using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::RunsTest;
using testing::SyntheticRows;

constexpr int64_t kClasses = kLeastMappedClasses + 100;  // the last class block ends within a page

class MappedRuns : public RunsTest {
 protected:
  MappedRuns() {
    options_ = {.input = 4, .width = 8, .classes = kClasses, .head = true, .cosine = true, .steps = 9};
    options_.arguments = {{"momentum", 0.9}};
    options_.active = {.kind = ActiveSpec::kSample, .amount = 600};
    choose(RowFormat::kFp8, RowFormat::kBf16);
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = (fs::temp_directory_path() / ("xrun_mapped_" + std::string(info->name()) + "_" + std::to_string(getpid())))
                .string();
    fs::remove_all(root_);
  }
  ~MappedRuns() override { fs::remove_all(root_); }

  void choose(RowFormat weights, RowFormat states, RowPlace rows = RowPlace::kMapped) {
    options_.weights = weights;
    options_.states = states;
    options_.rows = rows;
    prepared_ = prepare_for(make_module(options_));
    prepared_.module.train.checkpoint_every = {2, TrainSpan::kSteps};
  }

  Result<std::unique_ptr<CheckpointStore>> store(const std::string& directory = "ckpt",
                                                 const std::string& resume = "auto") {
    return make_checkpoint_store(
        {.directory = root_ + "/" + directory, .resume = resume, .math_digest = "m", .range_bytes = kMiB, .io = &io_});
  }

  Result<TrainOutcome> run(int64_t steps = -1, const std::string& directory = "ckpt",
                           const std::string& resume = "auto", RowSource* measured = nullptr) {
    XRUN_ASSIGN(const auto kept, store(directory, resume));
    SyntheticRows rows(prepared_.module.graph, options_, 1000);
    return train_on(rows, kept.get(), steps, nullptr, measured);
  }

  // Trains without a file, with otherwise equal settings.
  TrainOutcome in_memory() {
    const RowPlace place = options_.rows;
    choose(options_.weights, options_.states, RowPlace::kMemory);
    const auto outcome = train_with(nullptr, -1);
    EXPECT_TRUE(outcome.ok()) << outcome.error().message;
    choose(options_.weights, options_.states, place);
    return outcome.ok() ? *outcome : TrainOutcome();
  }

  void expect_same(const Result<TrainOutcome>& outcome, const TrainOutcome& wanted, const std::string& what = "") {
    ASSERT_TRUE(outcome.ok()) << what << ": " << outcome.error().message;
    EXPECT_EQ(outcome->weights, wanted.weights) << what;
    EXPECT_EQ(outcome->loss, wanted.loss) << what;
  }

  // Lets the fifth step of a run fail after it has changed some rows of the last checkpoint, as a kill would leave
  // them.
  void break_off() {
    auto kept = store();
    ASSERT_TRUE(kept.ok()) << kept.error().message;
    SyntheticRows rows(prepared_.module.graph, options_, 1000);
    rows.poison(options_.batch * 5 + 3);
    prepared_.module.train.checkpoint_every = {4, TrainSpan::kSteps};
    const auto outcome = train_on(rows, kept->get());
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, "XG0810");
  }

  std::string rows_file(const std::string& directory = "ckpt") const { return root_ + "/" + directory + "/rows.id"; }
  std::string newest(const std::string& directory = "ckpt") const {
    const auto info = open_checkpoint(root_ + "/" + directory);
    return info.ok() ? info->path : "";
  }

  // Evaluates a checkpoint with a program whose class rows are in memory or in a file, as `place` says.
  double evaluated(RowPlace place, const std::string& checkpoint) {
    ModelOptions other = options_;
    other.rows = place;
    const auto prepared = prepare_for(make_module(other));
    const auto program = make_program(prepared, {.devices = 2, .threads = 2, .shards = 3}, false).value();
    const auto devices = make_cpu_devices(program.threads);
    auto session = Session::create(prepared.inference, program, *devices, {.isa = prepared.isa});
    EXPECT_TRUE(session.ok());
    const auto info = open_checkpoint(checkpoint);
    EXPECT_TRUE(info.ok()) << info.error().message;
    const Status loaded = load_checkpoint(*info, (*session)->state());
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_TRUE((*session)->weights_changed().ok());
    SyntheticRows rows(prepared.inference.graph, options_, 101);
    const auto evaluation = evaluate(**session, {&rows}, nullptr, nullptr);
    EXPECT_TRUE(evaluation.ok()) << evaluation.error().message;
    return evaluation->metrics.at(0).value;
  }

  std::string root_;
  xrun::testing::UnsyncedIo io_;
};

TEST_F(MappedRuns, HaveTheBitsOfRunsInMemoryForEveryPlan) {
  for (const auto& [weights, states] : {std::pair(RowFormat::kFp8, RowFormat::kBf16),
                                        {RowFormat::kBf16, RowFormat::kF32},
                                        {RowFormat::kF32, RowFormat::kF32}}) {
    options_.cosine = weights != RowFormat::kF32;  // f32 rows have a head with a bias
    choice_ = {};
    choose(weights, states);
    const TrainOutcome whole = in_memory();
    int number = 0;
    for (const PlanChoice& choice :
         {PlanChoice{}, PlanChoice{.devices = 2, .threads = 3, .stages = 2, .micro_batches = 3, .shards = 3},
          PlanChoice{.devices = 2,
          .threads = 2,
          .stages = 2,
          .micro_batches = 4,
          .pipeline = PipelineKind::kOneFOneB,
          .shards = 2}}) {
      choice_ = choice;
      const std::string directory = std::string(name_of(weights)) + std::to_string(number++);
      const auto mapped = run(-1, directory);
      expect_same(mapped, whole, choice.text());
      EXPECT_TRUE(fs::exists(rows_file(directory)));
    }
  }
}

TEST_F(MappedRuns, AStoppedRunResumesWithAnotherPlan) {
  const TrainOutcome whole = in_memory();
  for (const int64_t steps : {1, 4, 5}) {
    const std::string directory = std::to_string(steps);
    choice_ = {.devices = 2, .threads = 2, .shards = 3};
    ASSERT_TRUE(run(steps, directory).ok());
    choice_ = {.devices = 2, .threads = 2, .shards = 2};
    expect_same(run(-1, directory), whole, directory);
    EXPECT_EQ(open_checkpoint(root_ + "/" + directory)->manifest.rows.size(), 1u);
  }
}

TEST_F(MappedRuns, RowsThatChangedAfterTheCheckpointAreRestored) {
  const TrainOutcome whole = in_memory();
  break_off();
  ASSERT_EQ(open_checkpoint(root_ + "/ckpt")->manifest.step, 4);
  expect_same(run(), whole);
}

TEST_F(MappedRuns, ResumeInMemoryAndFromMemory) {
  const TrainOutcome whole = in_memory();
  ASSERT_TRUE(run(4).ok());
  choose(options_.weights, options_.states, RowPlace::kMemory);
  ASSERT_TRUE(run(6).ok());
  EXPECT_EQ(open_checkpoint(root_ + "/ckpt")->manifest.rows.size(), 0u);
  choose(options_.weights, options_.states, RowPlace::kMapped);
  expect_same(run(), whole);
}

// An evaluation during the run maps the rows of training. Commands that read a checkpoint map the rows of its file or
// copy them.
TEST_F(MappedRuns, EveryReaderHasTheSameRows) {
  SyntheticRows val(prepared_.inference.graph, options_, 101);
  const auto outcome = run(-1, "ckpt", "auto", &val);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  ASSERT_FALSE(events_.evals.empty());
  const double accuracy = events_.evals.back().metrics.at(0).value;
  EXPECT_LT(events_.ends.back().arenas, kMiB * 16);
  EXPECT_EQ(evaluated(RowPlace::kMapped, root_ + "/ckpt"), accuracy);
  EXPECT_EQ(evaluated(RowPlace::kMemory, root_ + "/ckpt"), accuracy);
  const auto shown = describe_checkpoint(root_ + "/ckpt", false);
  ASSERT_TRUE(shown.ok()) << shown.error().message;
  EXPECT_THAT(*shown, HasSubstr("rows of id in "));
  EXPECT_THAT(*shown, HasSubstr("id.weight                       F8_E4M3 [262244, 8]"));
  EXPECT_THAT(*shown, HasSubstr("id.weight.scale                 F32     [262244]"));
  // A new run starts from the checkpoint.
  options_.steps = 2;
  choose(RowFormat::kF32, RowFormat::kF32);
  prepared_.module.train.init_checkpoint = root_ + "/ckpt";
  EXPECT_TRUE(run(-1, "other").ok());
}

TEST_F(MappedRuns, OnlyTheNewestCheckpointHasItsRows) {
  ASSERT_TRUE(run(2).ok());
  fs::copy(root_ + "/ckpt/step-000002", root_ + "/ckpt/step-000001", fs::copy_options::recursive);
  ASSERT_TRUE(run(4).ok());
  EXPECT_FALSE(fs::exists(root_ + "/ckpt/step-000002")) << "a step without its rows is kept";
  // The user has renamed a checkpoint.
  fs::rename(root_ + "/ckpt/step-000001", root_ + "/ckpt/step-000002");
  for (const auto& refused : {run(-1, "ckpt", root_ + "/ckpt/step-000002")}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, "XG0710");
    EXPECT_THAT(refused.error().message, HasSubstr("no longer has class rows of `id`"));
    EXPECT_THAT(refused.error().help, HasSubstr("/ckpt/latest"));
  }
  EXPECT_TRUE(run(5).ok());
}

TEST_F(MappedRuns, RowsOfACheckpointAreNotOverwritten) {
  ASSERT_TRUE(run(2).ok());
  const auto anew = run(2, "ckpt", "never");
  ASSERT_FALSE(anew.ok());
  EXPECT_EQ(anew.error().code, "XG0722");
  const auto elsewhere = run(-1, "other", root_ + "/ckpt");
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_EQ(elsewhere.error().code, "XG0713");
  EXPECT_TRUE(run(4).ok());
}

TEST(MappedManifest, NamesItsRowsOrIsRefused) {
  const ManifestRows rows{"id", std::string(32, 'a'), std::string(32, 'b')};
  const auto refusal = [](const Manifest& manifest) {
    const auto parsed = parse_manifest(print_manifest(manifest), "m");
    return parsed.ok() ? "" : parsed.error().code;
  };
  const Manifest good{.format = 4, .step = 2, .samples = 6, .rows = {rows}};
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(parse_manifest(print_manifest(good), "m")->rows.at(0).log, rows.log);
  EXPECT_EQ(refusal({.format = 5, .step = 2, .samples = 6, .rows = {rows}}), "");
  EXPECT_EQ(refusal({.format = 5, .step = 2, .samples = 6}), "");
  EXPECT_EQ(refusal({.format = 3, .step = 2, .samples = 6, .rows = {rows}}), "XG0710") << "of an older format";
  EXPECT_EQ(refusal({.format = 4, .step = 2, .samples = 6}), "XG0710") << "without rows";
  for (const ManifestRows& bad : {ManifestRows{"../id", rows.rows, rows.log}, ManifestRows{"", rows.rows, rows.log},
                                  ManifestRows{"id", "a", rows.log}, ManifestRows{"id", rows.rows, "../../b"}}) {
    EXPECT_EQ(refusal({.format = 4, .step = 2, .samples = 6, .rows = {bad}}), "XG0710") << bad.head << bad.log;
  }
}

TEST_F(MappedRuns, ChangedFilesAreRefused) {
  const TrainOutcome whole = in_memory();
  break_off();
  fs::copy(root_ + "/ckpt", root_ + "/good", fs::copy_options::recursive);
  const auto refusal = [&](const std::string& what) {
    const auto refused = run();
    EXPECT_FALSE(refused.ok()) << what;
    fs::remove_all(root_ + "/ckpt");
    fs::copy(root_ + "/good", root_ + "/ckpt", fs::copy_options::recursive);
    return refused.ok() ? "" : refused.error().code;
  };
  const auto log = [&] {
    for (const auto& entry : fs::directory_iterator(root_ + "/ckpt")) {
      if (entry.path().filename().string().starts_with("rows.id.undo-")) {
        return entry.path().string();
      }
    }
    return std::string();
  };
  const auto change = [](const std::string& path, int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  };
  fs::remove(rows_file());
  EXPECT_EQ(refusal("no file"), "XG0710");
  fs::resize_file(rows_file(), 100'000);
  EXPECT_EQ(refusal("a short file"), "XG0710");
  change(rows_file(), 20);
  EXPECT_EQ(refusal("a changed header"), "XG0710");
  change(log(), 5000);
  EXPECT_EQ(refusal("a changed log"), "XG0710");
  ASSERT_FALSE(log().empty());
  fs::remove(log());
  EXPECT_EQ(refusal("no log"), "XG0710");
  fs::remove(rows_file());
  ASSERT_EQ(::symlink((root_ + "/good/rows.id").c_str(), rows_file().c_str()), 0);
  EXPECT_EQ(refusal("a link"), "XG0711");
  choose(RowFormat::kBf16, RowFormat::kBf16);
  EXPECT_EQ(refusal("another format"), "XG0702");
  choose(RowFormat::kFp8, RowFormat::kBf16);
  expect_same(run(), whole);
}

}  // namespace
}  // namespace xrun::runtime
