// Runs that save in the background (`checkpoint.async`) write the same checkpoints as runs that save between two steps.
#include "runtime/checkpoint/store.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <thread>
#include <unistd.h>

#include "runtime/checkpoint/background/save_memory.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "tests/runtime/runs/run_fixture.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::make_module;
using testing::make_program;
using testing::PlanChoice;
using testing::prepare_for;
using testing::RunsTest;
using testing::SyntheticRows;

// A disk whose writes and syncs take some time, so that steps run during a save. It is full after a given number of
// writes.
class SlowIo final : public Io {
 public:
  std::chrono::microseconds write_time{0};
  std::chrono::microseconds sync_time{0};
  std::atomic<int64_t> writes_left = INT64_MAX;
  std::function<void()> before_write = [] {};

  int write(int file, std::span<const std::byte> bytes) override {
    before_write();
    std::this_thread::sleep_for(write_time);
    return --writes_left < 0 ? ENOSPC : Io::write(file, bytes);
  }
  int sync(int /*file*/) override {  // the real file is not synced, since its power stays on
    std::this_thread::sleep_for(sync_time);
    return 0;
  }
};

struct Saved {
  std::map<std::string, std::string> files;  // files of all steps, with manifests: "step-000002/trunk.safetensors"
  std::string weights;
};

class BackgroundSaves : public RunsTest {
 protected:
  void SetUp() override {
    root_ = (fs::temp_directory_path() / ("xrun_background_saves_" + std::to_string(getpid()))).string();
    fs::remove_all(root_);
    options_ = {.classes = 700, .head = true, .dropout = 0.1, .steps = 12};
  }
  // Trains the prepared module and reports to `events`.
  Result<TrainOutcome> train_watched(CheckpointStore* store, EventSink& events,
                                     const std::atomic<bool>* stop = nullptr) {
    const auto program = make_program(prepared_, choice_).value();
    const auto devices = make_cpu_devices(program.threads);
    SyntheticRows rows(prepared_.module.graph, options_, 1000);
    return train({.module = prepared_.module,
                  .training = program,
                  .devices = *devices,
                  .batches = rows,
                  .checkpoints = store,
                  .events = events,
                  .session = {.isa = prepared_.isa},
                  .stop = stop});
  }
  void TearDown() override { fs::remove_all(root_); }

  CheckpointOptions store_options() {
    return {.directory = root_,
            .keep = 100,
            .math_digest = "m",
            .range_bytes = 64 * 200,
            .writers = 3,
            .staging = staging_,
            .io = &io_};
  }

  void prepare(bool async, TrainSpan every) {
    prepared_ = prepare_for(make_module(options_));
    prepared_.module.train.checkpoint_every = every;
    prepared_.module.train.checkpoint_async = async;
  }

  Result<Saved> run(bool async, TrainSpan every = {3, TrainSpan::kSteps}) {
    prepare(async, every);
    fs::remove_all(root_);
    XRUN_ASSIGN(auto store, make_checkpoint_store(store_options()));
    XRUN_ASSIGN(const TrainOutcome outcome, train_with(store.get(), -1));
    Saved saved{.weights = outcome.weights};
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.is_regular_file() && entry.path().filename() != "lock") {
        std::ifstream in(entry.path(), std::ios::binary);
        saved.files[fs::relative(entry.path(), root_).string()] = {std::istreambuf_iterator<char>(in), {}};
      }
    }
    return saved;
  }

  // Expects that both kinds of saves write files with the same bytes.
  void expect_same(const std::string& what, TrainSpan every = {3, TrainSpan::kSteps}) {
    const auto between = run(false, every);
    ASSERT_TRUE(between.ok()) << what << ": " << between.error().message;
    auto beside = run(true, every);
    ASSERT_TRUE(beside.ok()) << what << ": " << beside.error().message;
    EXPECT_EQ(beside->weights, between->weights) << what;
    ASSERT_GT(between->files.size(), 12U) << what;
    ASSERT_EQ(beside->files.size(), between->files.size()) << what;
    for (const auto& [name, bytes] : between->files) {
      EXPECT_TRUE(beside->files.at(name) == bytes) << what << ": " << name;
    }
  }

  std::string root_;
  SlowIo io_;
  Bytes staging_ = 60'000;  // memory for copies: enough for some of the files
};

TEST_F(BackgroundSaves, WriteTheSameBytesAsSavesBetweenSteps) {
  io_.write_time = std::chrono::microseconds(100);
  for (const PlanChoice& choice :
       {PlanChoice{}, PlanChoice{.devices = 2, .threads = 3, .shards = 2},
        PlanChoice{.devices = 2, .threads = 2, .stages = 2, .micro_batches = 3, .shards = 2},
        PlanChoice{.devices = 2,
        .threads = 2,
        .stages = 2,
        .micro_batches = 4,
        .pipeline = PipelineKind::kOneFOneB,
        .shards = 2},
        PlanChoice{.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 3}}) {
    choice_ = choice;
    expect_same(choice.text());
    expect_same(choice.text() + ", each step", {1, TrainSpan::kSteps});
  }
}

TEST_F(BackgroundSaves, SaveClassRowsInEveryFormat) {
  io_.write_time = std::chrono::microseconds(100);
  choice_ = {.devices = 2, .threads = 2, .shards = 2};
  for (const RowFormat weights : {RowFormat::kF32, RowFormat::kBf16, RowFormat::kFp8}) {
    for (const RowFormat states : {RowFormat::kF32, RowFormat::kBf16}) {
      options_.weights = weights;
      options_.states = states;
      expect_same(std::string(name_of(weights)) + " and " + std::string(name_of(states)));
    }
  }
}

// The memory for copies suffices for no rows, for those of some files, or for all rows.
TEST_F(BackgroundSaves, SaveTheRowsOfActiveClasses) {
  io_.write_time = std::chrono::microseconds(100);
  options_.cosine = true;
  options_.arguments = {{"momentum", 0.9}};
  for (const bool knn : {false, true}) {
    for (const Untouched untouched : {Untouched::kAsIs, Untouched::kExact}) {
      const Bytes pages = knn == (untouched == Untouched::kExact) ? 3 : 40;
      staging_ = pages * SaveMemory::kPage;
      options_.active = {.kind = knn ? ActiveSpec::kKnn : ActiveSpec::kSample, .amount = 0.2};
      if (knn) {
        options_.active.neighbours = 8;
        options_.active.rebuild = {4, TrainSpan::kSteps};
      }
      options_.untouched = untouched;
      const std::string what =
          std::string(knn ? "knn" : "sample") + (untouched == Untouched::kExact ? ", exact" : ", as it is");
      expect_same(what, {1, TrainSpan::kSteps});
      staging_ = 60'000;
      expect_same(what);
    }
  }
}

TEST_F(BackgroundSaves, SaveTheRowsOfActiveClassesInEveryPlanAndFormat) {
  io_.write_time = std::chrono::microseconds(300);
  staging_ = 12 * SaveMemory::kPage;
  options_.active = {.kind = ActiveSpec::kSample, .amount = 0.1};
  for (const PlanChoice& choice :
       {PlanChoice{.devices = 2, .threads = 3, .shards = 2},
        PlanChoice{.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 3}}) {
    choice_ = choice;
    for (const RowFormat weights : {RowFormat::kF32, RowFormat::kFp8}) {
      options_.weights = weights;
      expect_same(choice.text() + ", " + std::string(name_of(weights)), {2, TrainSpan::kSteps});
    }
  }
}

// The state of the head does not fit into the memory for copies, but the few rows that steps change do. The disk holds
// the first write of the save until ten more steps have ended, so a step that waited for the save would never end.
TEST_F(BackgroundSaves, DoNotDelayStepsThatChangeFewRows) {
  struct Watch final : EventSink {
    std::atomic<int64_t> step = 0;
    int64_t saves = 0;
    bool wants_step(bool /*due*/) override { return true; }
    void on(const Event& event) override {
      if (const auto* const reported = std::get_if<StepEvent>(&event)) {
        step = reported->report.step;
      } else if (std::holds_alternative<CheckpointEvent>(event)) {
        ++saves;
      }
    }
  } watch;
  constexpr int64_t kSave = 100;
  std::atomic<bool> delayed = false;
  io_.before_write = [&] {
    for (int waits = 0; watch.step >= kSave - 1 && watch.step < kSave + 10 && !delayed; ++waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (waits == 6000) {
        delayed = true;
      }
    }
  };
  options_.classes = 20'000;
  options_.active = {.kind = ActiveSpec::kSample, .amount = 40};
  options_.steps = 2 * kSave;
  prepare(true, {kSave, TrainSpan::kSteps});
  prepared_.module.train.log_every = {1, TrainSpan::kSteps};
  CheckpointOptions to = store_options();
  to.range_bytes = 512 * kKiB;
  to.staging = 2 * kMiB;
  auto store = make_checkpoint_store(to);
  ASSERT_TRUE(store.ok()) << store.error().message;
  const auto outcome = train_watched(store->get(), watch);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_EQ(watch.saves, 2);
  EXPECT_FALSE(delayed) << "steps wait for the save";
}

// The event is sent only when a power cut can lose nothing of the checkpoint: after it was renamed and `latest` names
// it.
TEST_F(BackgroundSaves, AreReportedWhenTheyAreDurable) {
  struct Watch final : EventSink {
    std::string root;
    std::vector<int64_t> saved, late;
    int64_t done = 0;
    bool wants_step(bool /*due*/) override { return true; }
    void on(const Event& event) override {
      if (const auto* const reported = std::get_if<StepEvent>(&event)) {
        done = reported->report.step;
      } else if (const auto* const save = std::get_if<CheckpointEvent>(&event)) {
        check(*save);
      }
    }
    void check(const CheckpointEvent& save) {
      const auto newest = newest_in(root);
      EXPECT_TRUE(newest.ok() && *newest && root + "/" + **newest == save.path) << save.path;
      EXPECT_TRUE(open_checkpoint(save.path).ok());
      EXPECT_LE(save.waited, save.seconds);
      saved.push_back(save.step);
      if (done > save.step) {
        late.push_back(save.step);
      }
    }
  };
  io_.sync_time = std::chrono::milliseconds(3);
  options_.steps = 200;
  prepare(true, {50, TrainSpan::kSteps});
  prepared_.module.train.log_every = {1, TrainSpan::kSteps};
  auto store = make_checkpoint_store(store_options());
  ASSERT_TRUE(store.ok()) << store.error().message;
  Watch watch;
  watch.root = root_;
  const auto outcome = train_watched(store->get(), watch);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_THAT(watch.saved, ::testing::ElementsAre(50, 100, 150, 200));
  EXPECT_FALSE(watch.late.empty()) << "no step ran beside a save";
}

TEST_F(BackgroundSaves, EndTheRunOnAFullDiskAndKeepTheOlderCheckpoint) {
  for (const int64_t writes : {0, 1, 5, 12, 17, 18, 19}) {
    prepare(true, {1000, TrainSpan::kSteps});
    fs::remove_all(root_);
    io_.writes_left = INT64_MAX;
    {
      auto store = make_checkpoint_store(store_options());
      ASSERT_TRUE(store.ok()) << store.error().message;
      ASSERT_TRUE(train_with(store->get(), 4).ok());
    }
    std::set<std::string> before;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      before.insert(entry.path().string());
    }
    prepare(true, {2, TrainSpan::kSteps});
    auto store = make_checkpoint_store(store_options());
    ASSERT_TRUE(store.ok()) << store.error().message;
    io_.writes_left = writes;
    const auto outcome = train_with(store->get(), -1);
    ASSERT_FALSE(outcome.ok()) << writes;
    EXPECT_EQ(outcome.error().code, "XG0711") << writes;
    EXPECT_EQ(outcome.error().kind, ErrorKind::kWorld);
    EXPECT_THAT(outcome.error().message, HasSubstr("No space left on device"));
    std::set<std::string> after;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      after.insert(entry.path().string());
    }
    EXPECT_EQ(after, before) << writes;
    EXPECT_EQ(newest_in(root_).value().value_or(""), "step-000004");
  }
}

// A run that is asked to stop saves its last step after the running save has ended.
TEST_F(BackgroundSaves, AStopWaitsForTheRunningSave) {
  std::atomic<bool> stop = false;
  io_.write_time = std::chrono::milliseconds(1);
  io_.sync_time = std::chrono::milliseconds(2);
  prepare(true, {2, TrainSpan::kSteps});
  struct Stopping final : EventSink {
    std::atomic<bool>* stop = nullptr;
    std::vector<int64_t> saved;
    bool wants_step(bool /*due*/) override { return true; }
    void on(const Event& event) override {
      if (const auto* const reported = std::get_if<StepEvent>(&event)) {
        *stop = reported->report.step >= 5;
      } else if (const auto* const save = std::get_if<CheckpointEvent>(&event)) {
        saved.push_back(save->step);
      }
    }
  } events;
  events.stop = &stop;
  prepared_.module.train.log_every = {1, TrainSpan::kSteps};
  auto store = make_checkpoint_store(store_options());
  ASSERT_TRUE(store.ok()) << store.error().message;
  const auto outcome = train_watched(store->get(), events, &stop);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_TRUE(outcome->interrupted);
  EXPECT_EQ(outcome->step, 6);
  EXPECT_THAT(events.saved, ::testing::ElementsAre(2, 4, 6));
  EXPECT_EQ(newest_in(root_).value().value_or(""), "step-000006");
}

// Values that are not finite end the run at a step after the save began.
TEST_F(BackgroundSaves, KeepTheOlderCheckpointIfValuesAreNotFinite) {
  prepare(true, {2, TrainSpan::kSteps});
  auto store = make_checkpoint_store(store_options());
  ASSERT_TRUE(store.ok());
  struct Spoiling final : CheckpointStore {
    CheckpointStore* real = nullptr;
    Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t samples) override {
      return real->save(state, step, samples);
    }
    Status begin_save(const TrainState& state, int64_t step, int64_t samples) override {
      if (step == 4) {
        auto& changed = const_cast<TrainState&>(state);
        const StateTensor& tensor = *state.find("id.weight");
        std::vector<float> row(static_cast<size_t>(tensor.row_elements()), NAN);
        changed.write_values(tensor, tensor.rows() - 1, tensor.rows(), row.data());
      }
      return real->begin_save(state, step, samples);
    }
    ChangeGuard* guard() override { return real->guard(); }
    void read_rest() override { real->read_rest(); }
    Result<std::optional<SavedCheckpoint>> saved(bool wait) override { return real->saved(wait); }
    Result<std::optional<Resumed>> resume(TrainState& state) override { return real->resume(state); }
    Result<StartedParts> start_from(const std::string& path, const std::vector<std::string>& skip,
                                    TrainState& state) override {
      return real->start_from(path, skip, state);
    }
  } spoiling;
  spoiling.real = store->get();
  const auto outcome = train_with(&spoiling, -1);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, "XG0810");
  EXPECT_EQ(newest_in(root_).value().value_or(""), "step-000002");
}

}  // namespace
}  // namespace xrun::runtime
