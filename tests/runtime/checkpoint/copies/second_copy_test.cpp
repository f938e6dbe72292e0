// Second copies of checkpoints (`checkpoint.copy`): their contents, and runs that resume from them.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/checkpoint/copies/restore.h"
#include "runtime/checkpoint/step_copies.h"
#include "tests/runtime/checkpoint/checkpoint_model.h"
#include "tests/runtime/runs/rank_worlds.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Model = testing::CheckpointModel;

// A disk below `root` that is slow, or fails writes after a given number of them.
class OtherDisk final : public Io {
 public:
  explicit OtherDisk(std::string root) : root_(std::move(root)) {}
  std::atomic<int64_t> writes_left = INT64_MAX;
  std::atomic<bool> holds = false;  // writes wait while this is set

  int open(const std::string& path, int flags) override {
    const int file = Io::open(path, flags);
    const std::lock_guard lock(mutex_);
    if (path.starts_with(root_)) {
      here_.insert(file);
    } else {
      here_.erase(file);
    }
    return file;
  }
  int write(int file, std::span<const std::byte> bytes) override {
    const bool here = [&] {
      const std::lock_guard lock(mutex_);
      return here_.contains(file);
    }();
    while (here && holds) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return here && --writes_left < 0 ? ENOSPC : Io::write(file, bytes);
  }

 private:
  std::string root_;
  std::mutex mutex_;
  std::set<int> here_;
};

class SecondCopies : public testing::CheckpointDirectory {
 protected:
  void SetUp() override {
    CheckpointDirectory::SetUp();
    copy_ = root_ + "_copy";
    fs::remove_all(copy_);
    model_.fill(1);
  }
  void TearDown() override {
    CheckpointDirectory::TearDown();
    fs::remove_all(copy_);
  }
  CheckpointOptions with_copy() {
    CheckpointOptions with = options();
    with.copy = copy_;
    with.batch = 64;
    return with;
  }
  // Returns the contents of the files below a directory by path, without lock files.
  static std::map<std::string, std::string> files_below(const std::string& directory) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      if (entry.is_regular_file() && entry.path().filename() != "lock") {
        files[fs::relative(entry.path(), directory).string()] = read(entry.path().string());
      }
    }
    return files;
  }
  // Saves these steps in a new store and destroys the store.
  void save(const std::vector<int64_t>& steps) {
    auto saves = store(with_copy());
    for (const int64_t step : steps) {
      model_.fill(static_cast<uint64_t>(step));
      ASSERT_TRUE(saves->save(model_.state(), step, step * 64).ok());
      const auto copies = saves->copies(true);
      ASSERT_TRUE(copies.ok());
      ASSERT_THAT(*copies, SizeIs(1));
      EXPECT_EQ((*copies)[0].fault, "");
      EXPECT_EQ((*copies)[0].path, fmt::format("{}/step-{:06}", copy_, step));
    }
  }
  void flip_a_bit(const std::string& path) {
    std::string bytes = read(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    write(path, bytes);
  }

  std::string copy_;
  Model model_{2};
};

TEST_F(SecondCopies, EqualTheCheckpointsByteByByte) {
  save({10, 20});
  const auto here = files_below(root_);
  EXPECT_GT(here.size(), 15U);
  EXPECT_EQ(files_below(copy_), here);
  Model read(1);
  ASSERT_TRUE(load(copy_ + "/latest", read.state(), true).ok());
  EXPECT_EQ(read.contents(), model_.contents());
}

TEST_F(SecondCopies, FollowSavesInTheBackground) {
  auto saves = store(with_copy());
  ASSERT_TRUE(saves->begin_save(model_.state(), 10, 640).ok());
  EXPECT_THAT(saves->copies(true).value(), IsEmpty()) << "the checkpoint is not there yet";
  ASSERT_TRUE(saves->saved(true).value().has_value());
  const auto copies = saves->copies(true);
  ASSERT_TRUE(copies.ok());
  ASSERT_THAT(*copies, SizeIs(1));
  EXPECT_EQ((*copies)[0].fault, "");
  EXPECT_EQ(files_below(copy_), files_below(root_));
}

TEST_F(SecondCopies, RestoreFilesThatAreLostOrDamaged) {
  save({10, 20});
  const auto whole = files_below(root_);
  const auto wanted = model_.contents();
  const std::string step = root_ + "/step-000020";
  const std::string shard = "head.id.r0000000064.safetensors";
  std::map<std::string, std::function<void()>> damages;
  for (const auto& entry : fs::directory_iterator(step)) {
    const std::string path = entry.path().string();
    damages["a bit of " + path] = [this, path] { flip_a_bit(path); };
    damages["no " + path] = [path] { fs::remove(path); };
  }
  damages["a short file"] = [&] { fs::resize_file(step + "/" + shard, 100); };
  damages["a link"] = [&] {
    fs::rename(step + "/" + shard, root_ + "/elsewhere");
    fs::create_symlink(root_ + "/elsewhere", step + "/" + shard);
  };
  damages["several"] = [&] {
    flip_a_bit(step + "/trunk.safetensors");
    fs::remove(step + "/" + shard);
    fs::remove(step + "/manifest.json");
  };
  damages["no step"] = [&] { fs::remove_all(step); };
  damages["no step and no latest"] = [&] {
    fs::remove_all(step);
    fs::remove(root_ + "/latest");
  };
  damages["nothing"] = [&] { fs::remove_all(root_); };
  ASSERT_GT(damages.size(), 20U);
  for (const auto& [what, damage] : damages) {
    damage();
    for (const bool again : {false, true}) {
      Model read(3);
      const auto resumed = store(with_copy())->resume(read.state());
      ASSERT_TRUE(resumed.ok()) << what << ": " << resumed.error().message;
      ASSERT_TRUE(resumed->has_value()) << what;
      EXPECT_EQ((*resumed)->step, 20) << what;
      EXPECT_EQ((*resumed)->path, step) << what;
      EXPECT_EQ(read.contents(), wanted) << what;
      if (again) {
        EXPECT_THAT((*resumed)->warnings, IsEmpty()) << what;
      } else {
        ASSERT_THAT((*resumed)->warnings, SizeIs(1)) << what;
        EXPECT_EQ((*resumed)->warnings[0].code, "XG0721");
        EXPECT_THAT(
            (*resumed)->warnings[0].message,
            HasSubstr(step + " were missing or damaged and were restored from the second copy in " + copy_ + ": "));
      }
    }
    fs::remove(root_ + "/elsewhere");
    for (const auto& [name, bytes] : files_below(root_)) {
      EXPECT_TRUE(whole.at(name) == bytes) << what << ": " << name;
    }
    EXPECT_THAT(files_below(step), SizeIs(9)) << what;
    ASSERT_FALSE(fs::exists(root_ + "/step-000021"));
    fs::remove_all(root_);
    fs::remove_all(copy_);
    save({10, 20});
  }
}

// The disk of the checkpoints is full after a given number of writes. The first write is the one to the lock file.
TEST_F(SecondCopies, AreRestoredByTheNextAttemptIfTheDiskWasFull) {
  save({20});
  const auto whole = files_below(root_);
  int failed = 0;
  for (int64_t writes = 1; writes < 14; ++writes) {
    fs::remove_all(root_ + "/step-000020");
    OtherDisk disk(root_ + "/");
    disk.writes_left = writes;
    CheckpointOptions with = with_copy();
    with.io = &disk;
    {
      const auto resumed = store(with)->resume(model_.state());
      failed += resumed.ok() ? 0 : 1;
      EXPECT_TRUE(resumed.ok() || resumed.error().code == "XG0711") << writes << ": " << resumed.error().message;
      EXPECT_EQ(fs::exists(root_ + "/step-000020/manifest.json"), resumed.ok()) << writes;
    }
    ASSERT_TRUE(store(with_copy())->resume(model_.state()).ok()) << writes;
    EXPECT_EQ(files_below(root_), whole) << writes;
  }
  EXPECT_GT(failed, 7);
  EXPECT_LT(failed, 13);
}

TEST_F(SecondCopies, RestoreTheStepThatResumeNames) {
  save({10, 20});
  model_.fill(10);
  for (const std::string& named : {root_ + "/step-000010", root_ + "/step-000010/"}) {
    fs::remove_all(root_ + "/step-000010");
    CheckpointOptions with = with_copy();
    with.resume = named;
    Model read(1);
    const auto resumed = store(with)->resume(read.state());
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    EXPECT_EQ((*resumed)->step, 10);
    EXPECT_EQ(read.contents(), model_.contents());
  }
  // `latest` names the newest checkpoint, even if there are copies of a later step.
  write(root_ + "/latest", "step-000010\n");
  fs::remove_all(root_ + "/step-000010");
  EXPECT_EQ(store(with_copy())->resume(model_.state()).value()->step, 10);
  // A new run restores nothing.
  fs::remove_all(root_);
  CheckpointOptions never = with_copy();
  never.resume = "never";
  EXPECT_FALSE(store(never)->resume(model_.state()).value().has_value());
  EXPECT_THAT(names(), ElementsAre("lock"));
}

TEST_F(SecondCopies, DoNotHideTheErrorIfTheyAreAlsoDamaged) {
  save({10, 20});
  const std::string name = "/step-000020/trunk.safetensors";
  flip_a_bit(root_ + name);
  flip_a_bit(root_ + "/step-000020/model.json");
  flip_a_bit(copy_ + name);
  const auto refused = store(with_copy())->resume(model_.state());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0710");
  EXPECT_THAT(refused.error().message, HasSubstr(root_ + name + " does not match its digest"));
  EXPECT_THAT(refused.error().notes, ElementsAre("no complete second copy was found in " + copy_));
  EXPECT_THAT(refused.error().help, HasSubstr("--resume " + root_ + "/step-000010"));
  fs::remove_all(copy_ + "/step-000020");
  fs::remove(root_ + "/step-000020/manifest.json");
  const auto lost = store(with_copy())->resume(model_.state());
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code, "XG0713");
  EXPECT_THAT(lost.error().message, HasSubstr("latest names step-000020, which has no manifest.json"));
  EXPECT_THAT(lost.error().notes, SizeIs(1));
  for (const std::string& left : names()) {
    EXPECT_EQ(left.find(".tmp-"), std::string::npos) << left;
  }
}

TEST_F(SecondCopies, AreRemovedTogetherWithTheirCheckpoints) {
  CheckpointOptions with = with_copy();
  with.keep = 2;
  auto saves = store(with);
  for (int64_t step = 1; step <= 6; ++step) {
    ASSERT_TRUE(saves->remember({{.metric = "accuracy", .keep = 1, .best = {{std::min<int64_t>(step, 2), 0.5}}}}).ok());
    ASSERT_TRUE(saves->save(model_.state(), step, step * 64).ok());
    ASSERT_TRUE(saves->copies(true).ok());
  }
  EXPECT_THAT(names(), ElementsAre("best", "latest", "lock", "step-000002", "step-000005", "step-000006"));
  std::set<std::string> copied;
  for (const auto& entry : fs::directory_iterator(copy_)) {
    const std::string name = entry.path().filename().string();
    copied.insert(name.starts_with("classes-") ? "classes" : name);
  }
  EXPECT_THAT(copied, ElementsAre("classes", "latest", "lock", "step-000002", "step-000005", "step-000006"));
}

// When step 3 is saved, the copy of step 1 is being written and that of step 2 waits, so step 2 is not copied.
TEST_F(SecondCopies, SkipCheckpointsOnASlowDiskAndDelayNoSave) {
  OtherDisk disk(copy_);
  CheckpointOptions with = with_copy();
  with.io = &disk;
  with.keep = 1;
  auto saves = store(with);
  disk.holds = true;
  for (int64_t step = 1; step <= 3; ++step) {
    ASSERT_TRUE(saves->save(model_.state(), step, step * 64).ok());
  }
  EXPECT_THAT(names(), ElementsAre("latest", "lock", "step-000001", "step-000002", "step-000003"))
      << "steps stay until they are copied";
  auto first = saves->copies(false);
  ASSERT_THAT(first.value(), SizeIs(1));
  EXPECT_EQ((*first)[0].step, 2);
  EXPECT_THAT((*first)[0].fault, HasSubstr("step-000003 was saved before the copy of step-000001 was done"));
  disk.holds = false;
  const auto rest = saves->copies(true);
  ASSERT_THAT(rest.value(), SizeIs(2));
  EXPECT_EQ((*rest)[0].step, 1);
  EXPECT_EQ((*rest)[1].step, 3);
  EXPECT_EQ((*rest)[1].fault, "");
  EXPECT_THAT(names(), ElementsAre("latest", "lock", "step-000003"));
  EXPECT_EQ(files_below(copy_), files_below(root_));
}

TEST_F(SecondCopies, LeaveNoTemporaryFilesIfTheStoreIsDestroyedEarly) {
  OtherDisk disk(copy_);
  CheckpointOptions with = with_copy();
  with.io = &disk;
  auto saves = store(with);
  disk.holds = true;
  ASSERT_TRUE(saves->save(model_.state(), 1, 64).ok());
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    disk.holds = false;
  });
  saves = nullptr;
  later.join();
  for (const auto& entry : fs::directory_iterator(copy_)) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
  }
}

TEST_F(SecondCopies, ReportAFullDiskAndKeepTheOlderCopies) {
  for (int64_t writes = 0; writes < 12; ++writes) {
    fs::remove_all(root_);
    fs::remove_all(copy_);
    OtherDisk disk(copy_);
    CheckpointOptions with = with_copy();
    with.io = &disk;
    auto saves = store(with);
    ASSERT_TRUE(saves->save(model_.state(), 1, 64).ok());
    ASSERT_TRUE(saves->copies(true).ok());
    const auto before = files_below(copy_);
    disk.writes_left = writes;
    ASSERT_TRUE(saves->save(model_.state(), 2, 128).ok());
    const auto copies = saves->copies(true);
    ASSERT_THAT(copies.value(), SizeIs(1));
    if ((*copies)[0].fault.empty()) {
      EXPECT_GT(writes, 9) << "all was written";
      continue;
    }
    EXPECT_THAT((*copies)[0].fault, AllOf(HasSubstr("cannot write " + copy_), HasSubstr("No space left on device")));
    EXPECT_EQ(files_below(copy_), before) << writes;
    // The next checkpoint is copied again.
    disk.writes_left = INT64_MAX;
    ASSERT_TRUE(saves->save(model_.state(), 3, 192).ok());
    EXPECT_EQ(saves->copies(true).value()[0].fault, "");
  }
}

TEST_F(SecondCopies, AreNotPublishedForADamagedCheckpoint) {
  OtherDisk disk(copy_);
  CheckpointOptions with = with_copy();
  with.io = &disk;
  auto saves = store(with);
  disk.holds = true;
  ASSERT_TRUE(saves->save(model_.state(), 1, 64).ok());
  flip_a_bit(root_ + "/step-000001/model.json");
  disk.holds = false;
  const auto copies = saves->copies(true);
  ASSERT_THAT(copies.value(), SizeIs(1));
  EXPECT_THAT((*copies)[0].fault, HasSubstr("model.json does not match its digest"));
  EXPECT_FALSE(fs::exists(copy_ + "/step-000001"));
}

TEST_F(SecondCopies, AreRefusedInUnsuitableDirectories) {
  const auto refusal = [&](const std::string& path) {
    CheckpointOptions with = with_copy();
    with.copy = path;
    const auto made = make_checkpoint_store(with);
    return made.ok() ? Error{.code = "none"} : made.error();
  };
  fs::create_directories(root_);
  fs::create_directory_symlink(root_, copy_);
  for (const std::string& path : {root_, root_ + "/", root_ + "/copies",
                                  root_ + "/../" + fs::path(root_).filename().string(), copy_, copy_ + "/below"}) {
    const Error error = refusal(path);
    EXPECT_EQ(error.code, "XG0720") << path;
    EXPECT_EQ(error.kind, ErrorKind::kContent) << path;
    EXPECT_THAT(error.message, HasSubstr("it is inside the directory of the checkpoints, " + root_)) << path;
  }
  EXPECT_FALSE(fs::exists(root_ + "/copies"));
  fs::remove(copy_);
  write(copy_, "a file");
  for (const std::string& path : {copy_, copy_ + "/below"}) {
    const Error error = refusal(path);
    EXPECT_EQ(error.code, "XG0720") << path;
    EXPECT_EQ(error.kind, ErrorKind::kWorld) << path;
    EXPECT_THAT(error.message, HasSubstr("no second copies of checkpoints in " + path)) << path;
    EXPECT_THAT(error.help, HasSubstr("`checkpoint { copy }`")) << path;
  }
  fs::remove(copy_);
  EXPECT_EQ(refusal(root_ + "_co").code, "none") << "only the beginning of the name is the same";
  fs::remove_all(root_ + "_co");
  {
    const auto holder = store(with_copy());
    CheckpointOptions other = with_copy();
    other.directory = root_ + "_other";
    const auto taken = make_checkpoint_store(other);
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().code, "XG0712");
    EXPECT_THAT(taken.error().message, HasSubstr("another run writes its checkpoints into " + copy_));
  }
  save({10});
  CheckpointOptions other = with_copy();
  other.directory = root_ + "_other";
  other.math_digest = "another";
  const auto taken = make_checkpoint_store(other);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, "XG0701");
  EXPECT_THAT(taken.error().help, HasSubstr("`checkpoint { copy }`"));
  fs::remove_all(root_ + "_other");
}

// Ranks 0 and 2 are on one host, and ranks 1 and 3 on another. Each host has copies of the other host's files.
class CopiesOfRanks : public SecondCopies {
 protected:
  static constexpr int kRanks = 4;

  void SetUp() override {
    SecondCopies::SetUp();
    ASSERT_TRUE(store()->save(model_.state(), 20, 1280).ok());
    whole_ = files_below(root_);
    const auto info = open_checkpoint(root_);
    files_.resize(kRanks);
    for (size_t i = 0; i < info->manifest.files.size(); ++i) {
      if (info->manifest.files[i].name != "model.json") {
        files_[i % kRanks].push_back(info->manifest.files[i]);
      }
    }
    testing::on_worlds(kRanks, [&](World& world) {
      const auto copies = StepCopies::open(options_of(world));
      ASSERT_TRUE(copies.ok()) << copies.error().message;
      EXPECT_EQ((*copies)->copies(), world.rank() < 2);
      (*copies)->add(20, files_);
      EXPECT_THAT((*copies)->needed(), ElementsAre(20));
      const auto ended = (*copies)->follow(true);
      ASSERT_TRUE(ended.ok()) << ended.error().message;
      ASSERT_THAT(*ended, SizeIs(1));
      EXPECT_EQ((*ended)[0].fault, "");
      EXPECT_THAT((*copies)->needed(), IsEmpty());
      EXPECT_TRUE(world.agree(Status()).ok());
    });
  }

  std::string copy_of(int host) const { return copy_ + "/" + std::to_string(host); }
  CheckpointOptions options_of(World& world) {
    CheckpointOptions with = with_copy();
    with.copy = copy_of(world.rank() % 2);
    with.rank_hosts = {0, 1, 0, 1};
    with.peers = &world;
    return with;
  }
  // Restores the copies on all ranks. Returns for each rank the restored files or the error.
  std::vector<Result<std::vector<std::string>>> put_all_back() {
    std::vector<Result<std::vector<std::string>>> results(kRanks, std::vector<std::string>());
    testing::on_worlds(kRanks, [&](World& world) {
      const CopyPlaces places{
          .directory = root_, .copies = copy_of(world.rank() % 2), .reads = world.rank() < 2, .peers = &world};
      const auto run = [&]() -> Result<std::vector<std::string>> {
        XRUN_ASSIGN(const auto name, step_meant(places, "auto"));
        XRUN_ASSIGN(const FoundStep step, find_step(places, *name));
        return restore_files(places, step);
      };
      results[static_cast<size_t>(world.rank())] = run();
    });
    return results;
  }

  std::map<std::string, std::string> whole_;
  RankFiles files_;
};

TEST_F(CopiesOfRanks, LieOnTheNextHost) {
  std::set<std::string> all;
  for (int host = 0; host < 2; ++host) {
    std::set<std::string> wanted{"manifest.json"};
    if (host == 1) {
      wanted.insert("model.json");
    }
    for (size_t rank = 0; rank < kRanks; ++rank) {
      for (const ManifestFile& file : files_[rank]) {
        if (static_cast<int>(rank) % 2 != host) {
          wanted.insert(file.name);
        }
      }
    }
    std::set<std::string> found;
    for (const auto& [name, bytes] : files_below(copy_of(host) + "/step-000020")) {
      found.insert(name);
      EXPECT_EQ(bytes, whole_.at("step-000020/" + name));
    }
    EXPECT_EQ(found, wanted) << host;
    all.merge(found);
  }
  EXPECT_EQ(all.size(), 9U);
  EXPECT_EQ(fs::exists(copy_of(0) + "/step-000020/model.json"), false);
}

TEST_F(CopiesOfRanks, TogetherRestoreTheStep) {
  const auto expect_whole = [&](size_t files, const std::string& what) {
    for (const auto& result : put_all_back()) {
      ASSERT_TRUE(result.ok()) << what << ": " << result.error().message;
      EXPECT_THAT(*result, SizeIs(files)) << what;
    }
    for (const auto& [name, bytes] : whole_) {
      if (name.starts_with("step-")) {
        EXPECT_TRUE(read(root_ + "/" + name) == bytes) << what << ": " << name;
      }
    }
  };
  expect_whole(0, "nothing");
  flip_a_bit(root_ + "/step-000020/trunk.safetensors");
  flip_a_bit(root_ + "/step-000020/trunk.optim.safetensors");
  expect_whole(2, "of both hosts");
  fs::remove_all(root_ + "/step-000020");
  expect_whole(9, "the step");
  fs::remove_all(root_);
  fs::create_directories(root_);
  expect_whole(9, "all");
}

TEST_F(CopiesOfRanks, DoNotHideTheErrorIfTheirHostIsLost) {
  fs::remove_all(copy_of(1));
  flip_a_bit(root_ + "/step-000020/" + files_[1][0].name);
  for (const auto& result : put_all_back()) {
    ASSERT_TRUE(result.ok()) << result.error().message;
  }
  flip_a_bit(root_ + "/step-000020/" + files_[0][0].name);
  for (const auto& result : put_all_back()) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, "XG0710");
    EXPECT_THAT(result.error().message, HasSubstr(files_[0][0].name));
    EXPECT_THAT(result.error().notes, SizeIs(1));
  }
}

}  // namespace
}  // namespace xrun::runtime
