// The power goes at any call of a run that saves, and the disk keeps any part of the data that was not synced
// (losing_io.h). After each cut the run resumes from the step that was last announced as saved, or from the step that
// was being saved.
#include <filesystem>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <set>

#include "graph/base/xxh128.h"
#include "runtime/checkpoint/files/class_names.h"
#include "runtime/checkpoint/files/directory.h"
#include "tests/fault_injection/losing_io.h"
#include "tests/fault_injection/runs.h"
#include "tests/runtime/checkpoint/checkpoint_model.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

using testing::CheckpointModel;
using xrun::testing::LosingIo;
using Random = LosingIo::Random;

constexpr int64_t kReopens = 1000;
constexpr int64_t kReopensOfADirectory = 25;
constexpr int64_t kBestKept = 2;

// The steps and best steps that the run has announced, which must survive a power cut.
struct Promise {
  std::optional<int64_t> latest;
  std::map<int64_t, uint64_t> steps;  // seed of the weights of each announced step
  std::vector<BestStep> best;         // the best steps that the manifest of `latest` names
};

class Course {
 public:
  Course(std::string parent, uint64_t seed)
      : parent_(std::move(parent)), directory_(parent_ + "/ckpt"), random_(seed), keep_(1 + below(3)) {}

  // Runs until the power goes.
  void live(bool with_syncs = true) {
    LosingIo io(parent_);
    if (!with_syncs) {
      io.forget_syncs();
    }
    if (random_() % 2 == 0) {
      io.forget_exchange();
    }
    io.cut_at(1 + below(random_() % 4 == 0 ? 100 : 1000));
    ASSERT_NO_FATAL_FAILURE(run(io));
    io.lose(random_);
  }

  // Checks that every step that the run announced is still there.
  void look() {
    // Opening the store takes the lock of the directory, and may restore the name of a step.
    auto store = make_checkpoint_store(options(system_io()));
    ASSERT_TRUE(store.ok()) << store.error().message;
    std::map<int64_t, uint64_t> found;
    for (const int64_t step : steps_in(directory_)) {
      ASSERT_NO_FATAL_FAILURE(look_at(step, found[step]));
    }
    for (const auto& [step, seed] : promise_.steps) {
      const bool may_be_gone = coming_ && !coming_->steps.contains(step);
      const bool may_be_new = coming_ && coming_->steps.contains(step);
      ASSERT_TRUE(found.contains(step) || may_be_gone) << step_name(step) << " is lost";
      ASSERT_TRUE(!found.contains(step) || found[step] == seed ||
                  (may_be_new && found[step] == coming_->steps.at(step)))
          << step_name(step) << " has the weights of another save";
    }
    // The newest step must be the one that was announced last, or the one that was being saved.
    const auto resumed = (*store)->resume(read_.state());
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    const auto latest = *resumed ? std::optional((*resumed)->step) : std::nullopt;
    if (coming_ && latest == coming_->latest && found[*latest] == coming_->steps.at(*latest)) {
      promise_ = *coming_;
    }
    ASSERT_EQ(latest, promise_.latest);
    EXPECT_TRUE(!latest || (*resumed)->records.empty() == promise_.best.empty());
    const auto best = best_in(directory_);
    ASSERT_TRUE(best.ok()) << best.error().message;
    EXPECT_TRUE(best->has_value() || !best_is_named_);
    EXPECT_TRUE(best_may_be_named_ || !best->has_value());
    promise_.steps = found;  // including steps that were about to be removed
    coming_.reset();
  }

  int64_t announced() const { return announced_; }

 private:
  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }

  CheckpointOptions options(Io& io) {
    return {.directory = directory_,
            .keep = keep_,
            .math_digest = "math",
            .seed = 7,
            .classes = {{"label", true, {"one", "two"}}},
            .model = {.files = {{"/w/m.xgraph", "xgraph 1\n"}}, .options = {{"file", "/w/m.xgraph"}}},
            .range_bytes = 96 * 128,
            .io = &io};
  }

  // Acts like the trainer: resumes and rewrites the records, then saves, evaluates and records the best steps until a
  // call fails.
  void run(LosingIo& io) {
    CheckpointOptions with = options(io);
    const bool goes_back = promise_.steps.size() > 1 && random_() % 2 == 0;
    if (goes_back) {
      with.resume = directory_ + "/" + step_name(promise_.steps.begin()->first);
    }
    auto store = make_checkpoint_store(with);
    if (!store.ok()) {
      ASSERT_TRUE(io.is_off()) << store.error().message;
      return;
    }
    const auto resumed = (*store)->resume(model_.state());
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    int64_t step = *resumed ? (*resumed)->step : 0;
    std::vector<BestStep> best;
    if (*resumed && !(*resumed)->records.empty()) {
      best = (*resumed)->records[0].best;
      std::erase_if(best, [&](const BestStep& one) { return one.step > step; });
    }
    if (*resumed && !(remember(**store, best) && evaluate(**store, step, best))) {
      return;
    }
    while (true) {
      step += 1 + below(3);
      if (!save(**store, step, best) || !evaluate(**store, step, best)) {
        ASSERT_TRUE(io.is_off()) << "a save failed with the power on";
        return;
      }
    }
  }

  bool save(CheckpointStore& store, int64_t step, const std::vector<BestStep>& best) {
    const uint64_t seed = ++seeds_;
    model_.fill(seed);
    seed_of_[digest_of(model_)] = seed;
    Promise next = promise_;
    next.latest = step;
    next.steps[step] = seed;
    next.best = best;
    int64_t kept = 0;
    for (int64_t other = step; other >= 0; --other) {
      const bool is_best = std::ranges::find(best, other, &BestStep::step) != best.end();
      if (next.steps.contains(other) && (other == step || !is_best) && ++kept > keep_) {
        next.steps.erase(other);
      }
    }
    coming_ = next;
    if (!(random_() % 2 == 0 ? store.save(model_.state(), step, step).ok() : save_beside_a_step(store, step))) {
      return false;
    }
    promise_ = std::move(next);
    coming_.reset();
    ++announced_;
    return true;
  }

  // Saves in the background, while the weights are changed.
  bool save_beside_a_step(CheckpointStore& store, int64_t step) {
    if (!store.begin_save(model_.state(), step, step).ok()) {
      return false;
    }
    store.read_rest();
    model_.fill(++seeds_);
    const auto saved = store.saved(true);
    return saved.ok() && saved->has_value();
  }

  bool evaluate(CheckpointStore& store, int64_t step, std::vector<BestStep>& best) {
    std::erase_if(best, [&](const BestStep& one) { return one.step == step; });
    best.push_back({step, static_cast<double>(below(1000)) / 1000});
    std::ranges::stable_sort(best, std::greater(), &BestStep::value);
    best.resize(std::min<size_t>(best.size(), kBestKept));
    return remember(store, best);
  }

  bool remember(CheckpointStore& store, const std::vector<BestStep>& best) {
    const bool done = store.remember({{.metric = "accuracy", .keep = kBestKept, .best = best}}).ok();
    best_may_be_named_ = best_may_be_named_ || !best.empty();
    // The run may have gone back to an earlier step, and the best steps may have been removed since.
    if (!best.empty()) {
      const bool there =
          std::ranges::any_of(best, [&](const BestStep& one) { return promise_.steps.contains(one.step); });
      best_is_named_ = there && (done || best_is_named_);
    }
    return done;
  }

  // Checks a step. If it has a manifest, it must be complete and have the weights of a single save; `seed` receives the
  // seed of those weights.
  void look_at(int64_t step, uint64_t& seed) {
    const auto info = open_checkpoint(directory_ + "/" + step_name(step));
    ASSERT_TRUE(info.ok()) << info.error().message;
    const auto names = read_classes(*info);
    ASSERT_TRUE(names.ok()) << names.error().message;
    const Status loaded = load_checkpoint(*info, read_.state(), true);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    seed = seed_of_[digest_of(read_)];
    ASSERT_NE(seed, 0u) << step_name(step) << " is a mixture";
  }

  static std::string digest_of(CheckpointModel& model) {
    Xxh128 hash;
    for (const auto& [name, bytes] : model.contents()) {
      hash.add(bytes);
    }
    return hash.hex();
  }

  std::string parent_;
  std::string directory_;
  Random random_;
  int64_t keep_;
  CheckpointModel model_{2};
  CheckpointModel read_{3};
  std::map<std::string, uint64_t> seed_of_;  // seed of the weights, by the digest of the weights
  Promise promise_;
  std::optional<Promise> coming_;  // the promise of the save during which the power went
  uint64_t seeds_ = 0;
  int64_t announced_ = 0;
  bool best_is_named_ = false;
  bool best_may_be_named_ = false;
};

// Makes the directory that a power cut leaves on a file system that cannot exchange two directories.
TEST(PowerCuts, AStepThatWasMovedAsideGetsItsNameBack) {
  const xrun::testing::TemporaryDirectory parent;
  const std::string directory = parent.path() + "/ckpt";
  CheckpointModel model(2);
  model.fill(1);
  ASSERT_TRUE(make_checkpoint_store({.directory = directory}).value()->save(model.state(), 4, 4).ok());
  const std::string step = directory + "/" + step_name(4);
  fs::rename(step, step + former_tail());
  fs::create_directory(step + pending_tail());
  EXPECT_FALSE(open_checkpoint(directory).ok());
  std::ofstream(directory + "/lock") << host_name() << " " << to_text(this_process()) << "\n";
  CheckpointModel read(1);
  const auto resumed = make_checkpoint_store({.directory = directory}).value()->resume(read.state());
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  ASSERT_TRUE(resumed->has_value());
  EXPECT_EQ((*resumed)->step, 4);
  EXPECT_EQ(read.contents(), model.contents());
  int64_t names = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names += entry.is_directory() ? 1 : 0;
  }
  EXPECT_EQ(names, 1);
}

TEST(PowerCuts, LoseNothingThatWasSaved) {
  const int64_t reopens = xrun::testing::fault_runs(50, kReopens);
  const uint64_t seed = xrun::testing::fault_seed();
  int64_t announced = 0;
  for (int64_t done = 0; done < reopens; done += kReopensOfADirectory) {
    const xrun::testing::TemporaryDirectory parent;
    Course course(parent.path(), seed + static_cast<uint64_t>(done));
    for (int64_t i = 0; i < kReopensOfADirectory; ++i) {
      course.live();
      if (!HasFailure()) {
        course.look();
      }
      if (HasFailure()) {
        FAIL() << "directory of seed " << seed + static_cast<uint64_t>(done) << ", cut " << i;
      }
    }
    announced += course.announced();
  }
  EXPECT_GT(announced, reopens) << "the runs came to nothing";
  std::cout << reopens << " cuts, " << announced << " saves between them\n";
}

// Proves that the checks above can fail: if the same run leaves out its syncs, they fail for most cuts. Runs that
// announced no save before the cut have nothing to lose and are not counted.
TEST(PowerCuts, MostCutsLoseDataThatWasNotSynced) {
  const int64_t cuts = xrun::testing::fault_runs(50, kReopens);
  const uint64_t seed = xrun::testing::fault_seed();
  int64_t seen = 0;
  int64_t runs = 0;
  for (int64_t done = 0; done < cuts; ++runs) {
    ASSERT_LT(runs, 10 * cuts) << "the runs announce nothing";
    const xrun::testing::TemporaryDirectory parent;
    Course course(parent.path(), seed + static_cast<uint64_t>(runs));
    ASSERT_NO_FATAL_FAILURE(course.live(false));
    if (course.announced() == 0) {
      continue;
    }
    ::testing::TestPartResultArray failures;
    {
      const ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      course.look();
    }
    ++done;
    seen += failures.size() > 0 ? 1 : 0;
  }
  std::cout << cuts << " cuts of runs without syncs, " << seen << " of them seen\n";
  EXPECT_GE(seen * 10, cuts * 8);
}

}  // namespace
}  // namespace xrun::runtime
