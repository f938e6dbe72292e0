#include "runtime/checkpoint/tensors/checkpoint.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph/base/random.h"
#include "graph/base/xxh128.h"
#include "runtime/checkpoint/files/class_names.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/lock.h"
#include "tests/runtime/checkpoint/checkpoint_model.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

using Model = testing::CheckpointModel;
using Checkpoint = testing::CheckpointDirectory;

TEST_F(Checkpoint, LoadsOnAnyNumberOfShards) {
  for (int saved = 1; saved <= 8; ++saved) {
    Model from(saved);
    from.fill(static_cast<uint64_t>(saved));
    ASSERT_TRUE(store()->save(from.state(), 10, 640).ok());
    for (int loaded = 1; loaded <= 8; ++loaded) {
      Model to(loaded);
      to.fill(99);
      const auto resumed = store()->resume(to.state());
      ASSERT_TRUE(resumed.ok()) << resumed.error().message;
      ASSERT_TRUE(resumed->has_value());
      EXPECT_EQ((*resumed)->step, 10);
      ASSERT_EQ(to.contents(), from.contents()) << saved << " shards to " << loaded;
    }
  }
}

TEST_F(Checkpoint, ManifestDescribesTheRun) {
  Model model(2);
  model.fill(1);
  const auto saved = store()->save(model.state(), 10, 640);
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_EQ(saved->path, root_ + "/step-000010");
  for (const std::string& path :
       {root_, root_ + "/", root_ + "/latest", root_ + "/step-000010", root_ + "/step-000010/"}) {
    EXPECT_TRUE(is_checkpoint(path)) << path;
    const auto info = open_checkpoint(path);
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_EQ(info->manifest.step, 10);
    EXPECT_EQ(info->manifest.samples, 640);
    EXPECT_EQ(info->manifest.epoch, 0.64);
    EXPECT_EQ(info->manifest.seed, 7u);
    EXPECT_EQ(info->manifest.format, 5);
    EXPECT_EQ(read_classes(*info).value(), options().classes);
    EXPECT_EQ(info->bytes, saved->bytes);
    // A row of the head has 32 bytes in each of 3 tensors. The 300 rows are in 5 files of at most 64 rows.
    EXPECT_EQ(info->manifest.files.size(), 2u + 5u + 1u);
    EXPECT_EQ(info->manifest.files[3].name, "head.id.r0000000064.safetensors");
  }
  EXPECT_FALSE(is_checkpoint(root_ + "/nothing"));
  EXPECT_EQ(open_checkpoint(root_ + "/nothing").error().code, "XG0713");
  EXPECT_EQ(read(root_ + "/latest"), "step-000010\n");
  const auto text = describe_checkpoint(root_, false);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("id.weight             F32  [300, 8]"));
  EXPECT_THAT(describe_checkpoint(root_, true).value(),
              HasSubstr(R"({"name":"trunk.scale","dtype":"F32","shape":[]})"));
}

TEST_F(Checkpoint, EvaluationNeedsNoOptimizer) {
  Model trained(3);
  trained.fill(1);
  ASSERT_TRUE(store()->save(trained.state(), 1, 64).ok());
  Model inference(1, 300, false);
  ASSERT_TRUE(load(root_, inference.state()).ok());
  const auto want = trained.contents();
  for (const auto& [name, bytes] : inference.contents()) {
    EXPECT_EQ(bytes, want.at(name)) << name;
  }
  // In the opposite case, a checkpoint without optimizer states cannot be resumed, and the error says so.
  ASSERT_TRUE(store()->save(inference.state(), 2, 64).ok());
  Model again(1);
  const auto resumed = store()->resume(again.state());
  ASSERT_FALSE(resumed.ok());
  EXPECT_EQ(resumed.error().code, "XG0702");
  EXPECT_THAT(resumed.error().message, HasSubstr("id.weight.m"));
  EXPECT_TRUE(load(root_, again.state()).ok());
}

TEST_F(Checkpoint, OtherShapesAreRefusedAndChangeNothing) {
  Model model(2);
  model.fill(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 64).ok());
  for (const int64_t classes : {299, 301}) {
    Model other(2, classes);
    other.fill(5);
    const auto before = other.contents();
    const Status loaded = load(root_, other.state());
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, "XG0702");
    EXPECT_THAT(loaded.error().message, HasSubstr("has " + std::to_string(classes) + " rows in the model, but 300"));
    EXPECT_EQ(other.contents(), before);
  }
}

TEST_F(Checkpoint, AnotherMathDigestIsNeitherResumedNorOverwritten) {
  Model model(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 64).ok());
  const auto other = make_checkpoint_store(options("other"));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, "XG0701");
  CheckpointOptions elsewhere = options("other");
  elsewhere.directory = root_ + "/below";
  elsewhere.resume = root_;
  const auto resumed = store(elsewhere)->resume(model.state());
  ASSERT_FALSE(resumed.ok());
  EXPECT_EQ(resumed.error().code, "XG0701");
}

// Runs `body` in a child process and returns its exit status.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

TEST_F(Checkpoint, KeepsTheNewestAndCleansUpAfterCrashes) {
  Model model(1);
  CheckpointOptions with = options();
  with.keep = 2;
  fs::create_directories(root_);
  ASSERT_EQ(in_child([&] {
              const auto left = PendingDirectory::make(root_, "step-000003");
              _exit(left.ok() && left->write("manifest.json", "{}").ok() ? 0 : 1);  // its directory is left behind
              return 2;
            }),
            0);
  ASSERT_EQ(names().size(), 1u);
  auto kept = store(with);
  for (const int64_t step : {1, 2, 3, 4, 4}) {
    ASSERT_TRUE(kept->save(model.state(), step, step).ok());
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "lock", "step-000003", "step-000004"}));
  // The run goes back to an earlier step. Later steps belong to the earlier part of the run and are kept.
  ASSERT_TRUE(kept->save(model.state(), 2, 2).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "lock", "step-000002", "step-000003", "step-000004"}));
  EXPECT_EQ(open_checkpoint(root_)->manifest.step, 2);
}

TEST_F(Checkpoint, ResumingWithoutACheckpointStartsANewRun) {
  Model model(1);
  EXPECT_FALSE(store()->resume(model.state())->has_value());
  CheckpointOptions with = options();
  with.resume = "never";
  EXPECT_FALSE(store(with)->resume(model.state())->has_value()) << "nothing is there";
  ASSERT_TRUE(store()->save(model.state(), 4, 4).ok());
  const auto anew = make_checkpoint_store(with);
  ASSERT_FALSE(anew.ok());
  EXPECT_EQ(anew.error().code, "XG0722");
  with.resume = root_ + "/step-000009";
  EXPECT_EQ(store(with)->resume(model.state()).error().code, "XG0713");
  // If `latest` is missing, the newest directory is used.
  fs::remove(root_ + "/latest");
  EXPECT_EQ((*store()->resume(model.state()))->step, 4);
}

TEST_F(Checkpoint, OtherKernelsAndLibrariesAreReported) {
  Model model(1);
  CheckpointOptions with = options();
  with.libraries = {{"onednn", "2.6.3"}, {"tbb", "2021.8"}};
  ASSERT_TRUE(store(with)->save(model.state(), 20, 1280).ok());
  const auto warning = [&](const CheckpointOptions& now) {
    auto resumed = store(now)->resume(model.state());
    EXPECT_TRUE(resumed.ok() && resumed->has_value());
    return resumed.ok() && *resumed && !(*resumed)->warnings.empty() ? (*resumed)->warnings[0].message : std::string();
  };
  EXPECT_EQ(warning(with), "");
  CheckpointOptions other = with;
  other.isa = "avx512";
  other.libraries["onednn"] = "3.1.0";
  EXPECT_EQ(warning(other),
            "step-000020 was written with kernels for avx2 (now avx512): results continue within a tolerance");
  other.deterministic = true;
  EXPECT_THAT(warning(other), HasSubstr("kernels for avx2 (now avx512), onednn 2.6.3 (now 3.1.0): from here on"));
  other.isa = with.isa;
  EXPECT_THAT(warning(other), HasSubstr("with onednn 2.6.3 (now 3.1.0)"));
  other.deterministic = false;
  EXPECT_EQ(warning(other), "") << "libraries matter to bits, which only deterministic runs promise";
}

// The version of xrun is recorded; only the format decides whether a manifest can be read.
TEST_F(Checkpoint, ACheckpointOfAnEarlierVersionIsResumed) {
  Model model(1);
  CheckpointOptions with = options();
  with.version = "0.1.0";
  ASSERT_TRUE(store(with)->save(model.state(), 20, 1280).ok());
  EXPECT_THAT(read(root_ + "/step-000020/manifest.json"), HasSubstr(R"("version": "0.1.0")"));
  CheckpointOptions now = with;
  now.version = "0.9.0";
  const auto resumed = store(now)->resume(model.state());
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  ASSERT_TRUE(resumed->has_value());
  EXPECT_TRUE((*resumed)->warnings.empty());
  now.deterministic = true;
  const auto exact = store(now)->resume(model.state());
  ASSERT_TRUE(exact.ok()) << exact.error().message;
  ASSERT_EQ((*exact)->warnings.size(), 1U) << "bits may differ between versions";
  EXPECT_THAT((*exact)->warnings[0].message, HasSubstr("xrun 0.1.0 (now 0.9.0)"));
}

TEST_F(Checkpoint, DirectoryBelongsToOneRunAtATime) {
  const auto first = store();
  const auto second = make_checkpoint_store(options());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, "XG0712");
}

// A run on another host has the lock. The lock can be taken on this host, since a network file system locks per file.
TEST_F(Checkpoint, ALockHeldByAnotherHostIsDetected) {
  fs::create_directories(root_);
  const std::string lock = root_ + "/lock";
  write(lock, "node7 0123456789abcdef0123456789abcdef.4026531836.77.1234\n");
  const int file = ::open(lock.c_str(), O_RDWR);
  ASSERT_EQ(::flock(file, LOCK_EX | LOCK_NB), 0);
  const auto refused = make_checkpoint_store(options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0712");
  EXPECT_THAT(refused.error().message, HasSubstr("process 77 on node7"));
  ::close(file);
  EXPECT_TRUE(make_checkpoint_store(options()).ok()) << "the system has seen its process end";
  EXPECT_EQ(read(lock), "") << "it was given back";
}

TEST_F(Checkpoint, WithoutLocksTheLockFileShowsWhetherItsOwnerMayBeAlive) {
  struct WithoutLocks : Io {
    int lock(int) override { return ENOLCK; }
  } io;
  const auto take = [&] { return DirectoryLock::take(root_, io); };
  {
    const auto first = take();
    ASSERT_TRUE(first.ok()) << first.error().message;
    const auto second = take();
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, "XG0712");
    EXPECT_THAT(second.error().message, HasSubstr(fmt::format("process {} on {}", getpid(), host_name())));
    EXPECT_THAT(second.error().help, HasSubstr("remove " + root_ + "/lock"));
  }
  ASSERT_TRUE(take().ok()) << "it was given back";
  // A killed run leaves its name in the lock file. On this host, the next run finds at once that the owner has ended.
  ASSERT_EQ(in_child([&] {
              const auto killed = take();
              _exit(killed.ok() ? 0 : 1);
              return 2;
            }),
            0);
  EXPECT_THAT(read(root_ + "/lock"), HasSubstr(host_name()));
  EXPECT_TRUE(take().ok());
  write(root_ + "/lock", "node7 0123456789abcdef0123456789abcdef.4026531836.77.1234\n");
  EXPECT_FALSE(take().ok()) << "of another host nothing is known";
}

TEST_F(Checkpoint, UnfinishedSavesOfOtherProcessesAreKept) {
  Model model(1);
  model.fill(1);
  fs::create_directories(root_);
  Owner other = this_process();
  other.boot = std::string(32, 'a');
  Owner before = this_process();
  ++before.start;  // the process id now belongs to another process
  ASSERT_EQ(parse_owner(to_text(before)), before);
  const std::string tail = "-0000000000000001";
  for (const Owner& owner : {other, before}) {
    fs::create_directories(root_ + "/step-000009.tmp-" + to_text(owner) + tail);
  }
  fs::create_directories(root_ + "/step-000008.tmp-0123456789abcdef");
  ASSERT_TRUE(store()->save(model.state(), 1, 1).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "lock", "step-000001", "step-000008.tmp-0123456789abcdef",
                                               "step-000009.tmp-" + to_text(other) + tail}));
  // A process that gets the lock can conclude that the previous owner has ended.
  write(root_ + "/lock", "node7 " + to_text(other) + "\n");
  store();
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "lock", "step-000001", "step-000008.tmp-0123456789abcdef"}));
}

TEST_F(Checkpoint, AnyFlippedBitOfManifestOrHeadersIsDetected) {
  Model model(2);
  model.fill(3);
  ASSERT_TRUE(store()->save(model.state(), 7, 70).ok());
  const std::string step = root_ + "/step-000007/";
  const std::string manifest = read(step + "manifest.json");
  ASSERT_TRUE(parse_manifest(manifest, "m").ok());
  for (size_t bit = 0; bit < manifest.size() * 8; ++bit) {
    std::string flipped = manifest;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    ASSERT_FALSE(parse_manifest(flipped, "m").ok()) << "bit " << bit;
  }
  for (size_t cut = 0; cut < manifest.size(); ++cut) {
    ASSERT_FALSE(parse_manifest(std::string_view(manifest).substr(0, cut), "m").ok()) << "cut at " << cut;
  }
  const auto info = open_checkpoint(root_).value();
  Model target(1);
  for (const ManifestFile& file : info.manifest.files) {
    const std::string good = read(step + file.name);
    ASSERT_EQ(static_cast<Bytes>(good.size()), file.bytes);
    // Flips bits in all of the header and in some of the data.
    uint64_t header = good.size() - 8;
    if (file.name != kModelFile) {
      std::memcpy(&header, good.data(), 8);
    }
    const RandomStream stream(1, stable_hash(file.name));
    for (size_t i = 0; i < (header + 8) * 8 + 300; ++i) {
      const size_t bit = i < (header + 8) * 8 ? i : stream.below(i, good.size() * 8);
      std::string flipped = good;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      ASSERT_NE(xxh128(std::as_bytes(std::span(flipped))), file.xxh3);
      if (i % 997 == 0) {
        write(step + file.name, flipped);
        const auto resumed = store()->resume(target.state());
        ASSERT_FALSE(resumed.ok());
        EXPECT_EQ(resumed.error().code, "XG0710");
        EXPECT_THAT(resumed.error().message, HasSubstr(file.name));
      }
    }
    write(step + file.name, good.substr(0, good.size() - 1));
    EXPECT_EQ(load(root_, target.state()).error().code, "XG0710");
    fs::remove(step + file.name);
    EXPECT_EQ(load(root_, target.state()).error().code, "XG0710");
    write(step + file.name, good);
    ASSERT_TRUE(load(root_, target.state()).ok());
  }
}

// The names of a hundred million classes are not written again with every step.
TEST_F(Checkpoint, ClassNamesAreWrittenOnce) {
  Model model(1);
  model.fill(1);
  CheckpointOptions with = options();
  with.keep = 2;
  with.classes = {{"label", true, std::vector<std::string>(1000, "an owl")}};
  {
    const auto kept = store(with);
    for (const int64_t step : {1, 2}) {
      ASSERT_TRUE(kept->save(model.state(), step, step).ok());
      EXPECT_LT(read(root_ + "/" + step_name(step) + "/manifest.json").size(), 4000u);
    }
  }
  const auto old_names = class_names_in(root_);
  ASSERT_EQ(old_names.size(), 1u);
  EXPECT_EQ(read_classes(open_checkpoint(root_ + "/step-000001").value()).value(), with.classes);

  with.classes[0].names.assign(1000, "a lark");
  const auto kept = store(with);
  ASSERT_TRUE(kept->save(model.state(), 3, 3).ok());
  EXPECT_EQ(class_names_in(root_).size(), 2u) << "step 2 refers to the old ones";
  EXPECT_EQ(read_classes(open_checkpoint(root_ + "/step-000002").value())->front().names.front(), "an owl");
  ASSERT_TRUE(kept->save(model.state(), 4, 4).ok());
  EXPECT_EQ(class_names_in(root_).size(), 1u) << "no step refers to the old ones any more";
  const auto newest = open_checkpoint(root_).value();
  EXPECT_EQ(read_classes(newest)->front().names.back(), "a lark");

  const std::string file = root_ + "/classes-" + newest.manifest.classes[0].xxh3 + ".json";
  const std::string good = read(file);
  write(file, good.substr(0, good.size() - 9));
  EXPECT_EQ(read_classes(newest).error().code, "XG0710");
  fs::remove(file);
  EXPECT_EQ(read_classes(newest).error().code, "XG0710");
  EXPECT_TRUE(load(root_, model.state()).ok()) << "weights do not need the names";
  ASSERT_TRUE(kept->save(model.state(), 5, 5).ok());
  EXPECT_EQ(read(file), good) << "the next save makes it again";
}

// Formats 2 to 4 have a single list of names, which belongs to the label of the first head.
TEST_F(Checkpoint, ManifestsWithOneListOfNamesAreRead) {
  Model model(1);
  model.fill(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 1).ok());
  const std::string path = root_ + "/step-000001/manifest.json";
  const Manifest now = parse_manifest(read(path), "m").value();
  for (const int64_t format : {2, 3}) {
    Manifest old = now;
    old.format = format;
    old.classes = {{.input = "", .named = 2, .xxh3 = now.classes[0].xxh3}};
    const std::string text = print_manifest(old);
    EXPECT_THAT(text, HasSubstr("\"classes_named\": 2"));
    write(path, text);
    const auto info = open_checkpoint(root_);
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_EQ(read_classes(*info).value(), (ClassTables{{"", true, options().classes[0].names}}));
    EXPECT_TRUE(store()->resume(model.state()).ok());
  }
}

TEST_F(Checkpoint, FilesOfClassNamesAreKeptAsLongAsAStepNeedsThem) {
  Model model(1);
  model.fill(1);
  CheckpointOptions with = options();
  with.keep = 1;
  with.classes = {{"label", true, {"cat", "dog"}}, {"color", true, {"red"}}, {"age", false, {}}};
  const auto kept = store(with);
  ASSERT_TRUE(kept->save(model.state(), 1, 1).ok());
  EXPECT_EQ(class_names_in(root_).size(), 2u);
  with.classes[1].names = {"red", "blue"};
  kept->keep_classes(with.classes);
  ASSERT_TRUE(kept->save(model.state(), 2, 2).ok());
  EXPECT_EQ(read_classes(open_checkpoint(root_).value()).value(), with.classes);
  EXPECT_EQ(class_names_in(root_).size(), 2u) << "the names of step 1 are gone with it";
  EXPECT_EQ(kept->classes()->value(), with.classes);
}

TEST_F(Checkpoint, ManifestsOfFormat1ThatContainTheClassNamesAreRead) {
  Model model(1);
  model.fill(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 1).ok());
  const std::string path = root_ + "/step-000001/manifest.json";
  Manifest old = parse_manifest(read(path), "m").value();
  old.format = 1;
  old.class_names = {"a", "b", "c"};
  old.classes = {{.input = "", .named = 3, .xxh3 = ""}};
  write(path, print_manifest(old));
  const auto info = open_checkpoint(root_);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->manifest.classes[0].named, 3);
  EXPECT_EQ(read_classes(*info).value(), (ClassTables{{"", true, old.class_names}}));
  EXPECT_TRUE(store()->resume(model.state()).ok());
  EXPECT_THAT(describe_checkpoint(root_, true).value(), HasSubstr("\"classes_named\":3"));
  EXPECT_EQ(read_model_text(info->path, old).value().files, options().model.files);
  std::erase_if(old.files, [](const ManifestFile& file) { return file.name == kModelFile; });
  write(path, print_manifest(old));
  fs::remove(root_ + "/step-000001/model.json");
  EXPECT_TRUE(store()->resume(model.state()).ok());
  EXPECT_EQ(read_model_text(root_ + "/step-000001", old).error().code, "XG0716");
}

TEST_F(Checkpoint, HistoryAndRecordsAreReadAsTheyWereWritten) {
  Manifest manifest{.step = 8, .samples = 64, .math_digest = "b"};
  manifest.history = {{4, "a", {"`train.epochs` was 1 epoch, and is 2 epochs now"}}};
  manifest.records = {{"yen", true, 2, {{8, 0.1 + 0.2}, {4, 1e-300}}}, {"lfw", false, 0, {}}};
  const std::string text = print_manifest(manifest);
  const auto read_again = parse_manifest(text, "m");
  ASSERT_TRUE(read_again.ok()) << read_again.error().message;
  EXPECT_EQ(read_again->history[0].changes, manifest.history[0].changes);
  EXPECT_EQ(read_again->records[0].best[0].value, 0.1 + 0.2);
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    ASSERT_FALSE(parse_manifest(flipped, "m").ok()) << "bit " << bit;
  }
}

TEST_F(Checkpoint, MeansAndDeviationsAreStoredExactlyAndMakeAManifestOfFormat6) {
  Model model(1);
  model.fill(1);
  auto kept = store();
  ASSERT_TRUE(kept->save(model.state(), 1, 1).ok());
  EXPECT_EQ(open_checkpoint(root_)->manifest.format, 5) << "earlier versions read a run that standardizes nothing";
  EXPECT_TRUE(kept->scales()->empty());
  const InputScales scales{{"x", {0.1 + 0.2, -1e300, -0.0, 3}, {1e-300, 1.0 / 3, 1, 2}}, {"y", {7}, {1}}};
  kept->keep_scales(scales);
  ASSERT_TRUE(kept->save(model.state(), 2, 2).ok());
  const auto info = open_checkpoint(root_);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->manifest.format, 6);
  EXPECT_EQ(info->manifest.scales, scales);
  EXPECT_EQ(*kept->scales(), scales);
  kept.reset();  // releases the lock of the run
  EXPECT_TRUE(store()->resume(model.state()).ok());
}

TEST_F(Checkpoint, DamagedMeansAndDeviationsAreRefused) {
  Manifest manifest{.format = 6, .step = 8, .samples = 64, .math_digest = "b", .scales = {{"x", {0.5, 2}, {1, 0.25}}}};
  const std::string text = print_manifest(manifest);
  ASSERT_TRUE(parse_manifest(text, "m").ok()) << parse_manifest(text, "m").error().message;
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    ASSERT_FALSE(parse_manifest(flipped, "m").ok()) << "bit " << bit;
  }
  // Manifests with a valid digest whose numbers no run can have written.
  const auto refused = [&](const InputScales& scales) {
    manifest.scales = scales;
    const auto read = parse_manifest(print_manifest(manifest), "m");
    return read.ok() ? "" : read.error().code;
  };
  EXPECT_EQ(refused({{"x", {0.5, 2}, {1, 0.25}}}), "");
  EXPECT_EQ(refused({}), "XG0710");
  EXPECT_EQ(refused({{"", {0.5}, {1}}}), "XG0710");
  EXPECT_EQ(refused({{"x", {0.5, 2}, {1}}}), "XG0710");
  EXPECT_EQ(refused({{"x", {0.5}, {0}}}), "XG0710");
  EXPECT_EQ(refused({{"x", {0.5}, {-1}}}), "XG0710");
  EXPECT_EQ(refused({{"x", {std::numeric_limits<double>::quiet_NaN()}, {1}}}), "XG0710");
  EXPECT_EQ(refused({{"x", {0}, {std::numeric_limits<double>::infinity()}}}), "XG0710");
  EXPECT_EQ(refused({{"x", {0.5}, {1}}, {"x", {0.5}, {1}}}), "XG0710");
}

TEST_F(Checkpoint, TheScaleOfTheLossIsStoredAndMakesAManifestOfFormat7) {
  Model model(1);
  model.train().loss_scale.kind = LossScaleSpec::kDynamic;
  model.fill(1);
  auto kept = store();
  const LossScale scale{.scale = 4096, .good_steps = 7, .skipped_steps = 5};
  model.state().set_loss_scale(scale);
  ASSERT_TRUE(kept->save(model.state(), 20, 20).ok());
  const auto info = open_checkpoint(root_);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->manifest.format, 7);
  EXPECT_EQ(info->manifest.loss_scale, scale);
  EXPECT_TRUE(info->manifest.scales.empty());
  EXPECT_THAT(*describe_checkpoint(root_, false),
              HasSubstr("loss scale 4096   7 steps without an overflow since it changed   5 steps skipped"));
  EXPECT_THAT(*describe_checkpoint(root_, true),
              HasSubstr(R"("loss_scale":{"scale":4096.0,"good_steps":7,"skipped_steps":5})"));
  kept.reset();
  Model exact(1);
  ASSERT_TRUE(store()->resume(exact.state()).ok());
  EXPECT_EQ(exact.state().loss_scale(), (LossScale{.scale = 1, .skipped_steps = 5})) << "this model is in f32";
}

TEST_F(Checkpoint, DamagedScalesOfTheLossAreRefused) {
  Manifest manifest{.format = 7, .step = 8, .samples = 64, .math_digest = "b", .loss_scale = LossScale{512, 1, 2}};
  EXPECT_TRUE(parse_manifest(print_manifest(manifest), "m").ok());
  for (const LossScale& wrong :
       {LossScale{511, 1, 2}, LossScale{512, 7, 2}, LossScale{512, 0, 9}, LossScale{0, 0, 0}}) {
    manifest.loss_scale = wrong;
    const auto read = parse_manifest(print_manifest(manifest), "m");
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, "XG0710");
    EXPECT_THAT(read.error().message, HasSubstr("scale of the loss"));
  }
}

TEST_F(Checkpoint, AForeignFileNamedBestIsNotOverwritten) {
  Model model(1);
  const auto kept = store();
  ASSERT_TRUE(kept->save(model.state(), 4, 4).ok());
  write(root_ + "/best", "my best ideas\n");
  EXPECT_FALSE(is_checkpoint(root_ + "/best"));
  const Status refused = kept->remember({{"yen", true, 1, {{4, 0.5}}}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0711");
  EXPECT_EQ(read(root_ + "/best"), "my best ideas\n");
  fs::remove(root_ + "/best");
  ASSERT_TRUE(kept->remember({{"yen", true, 1, {{4, 0.5}}}}).ok());
  EXPECT_EQ(read(root_ + "/best"), "step-000004 0.5\n");
  EXPECT_EQ(open_checkpoint(root_ + "/best")->manifest.step, 4);
}

TEST_F(Checkpoint, TheErrorForADamagedCheckpointNamesAnOlderOne) {
  Model model(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 1).ok());
  ASSERT_TRUE(store()->save(model.state(), 2, 2).ok());
  const std::string file = root_ + "/step-000002/trunk.safetensors";
  std::string bytes = read(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write(file, bytes);
  const auto resumed = store()->resume(model.state());
  ASSERT_FALSE(resumed.ok());
  EXPECT_THAT(resumed.error().help, HasSubstr("--resume " + root_ + "/step-000001"));
}

TEST_F(Checkpoint, ALaterFormatIsDistinguishedFromDamage) {
  EXPECT_EQ(parse_manifest(R"({"format": 8})", "m").error().code, "XG0714");
  EXPECT_EQ(parse_manifest(R"({"format": 1})", "m").error().code, "XG0710");
  EXPECT_EQ(parse_manifest(R"({"format": 2})", "m").error().code, "XG0710");
  EXPECT_EQ(parse_manifest(R"({"format": 3})", "m").error().code, "XG0710");
  EXPECT_EQ(parse_manifest("", "m").error().code, "XG0710");
}

TEST_F(Checkpoint, MayHaveMoreFilesThanAProcessMayOpen) {
  Model model(2);
  model.fill(5);
  CheckpointOptions many = options();
  many.range_bytes = 96;  // one row per file
  ASSERT_TRUE(store(many)->save(model.state(), 1, 1).ok());
  ASSERT_EQ(open_checkpoint(root_)->manifest.files.size(), 303u);
  const auto want = model.contents();
  EXPECT_EQ(in_child([&] {
              const int next = ::open("/dev/null", O_RDONLY);
              const rlimit few{static_cast<rlim_t>(next) + 4, static_cast<rlim_t>(next) + 4};
              ::setrlimit(RLIMIT_NOFILE, &few);
              Model loaded(3);
              const bool same = store(many)->resume(loaded.state()).ok() && loaded.contents() == want;
              return same && describe_checkpoint(root_, false).ok() ? 0 : 1;
            }),
            0);
}

TEST_F(Checkpoint, AFullDiskLeavesOnlyTheOlderCheckpoint) {
  Model model(2);
  model.fill(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 1).ok());
  const auto want = model.contents();
  const auto before = names();
  // At each limit of the size of a file, another file of the checkpoint does not fit.
  for (rlim_t limit = 0; limit < 8000; limit += 500) {
    const int status = in_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit full{limit, limit};
      setrlimit(RLIMIT_FSIZE, &full);
      auto made = make_checkpoint_store(options());
      const auto saved = made.ok() ? made.value()->save(model.state(), 2, 2) : Result<SavedCheckpoint>(made.error());
      if (saved.ok()) {
        return 1;
      }
      return saved.error().code == "XG0711" && saved.error().kind == ErrorKind::kWorld &&
                     saved.error().message.find("File too large") != std::string::npos
                 ? 42
                 : 2;
    });
    if (limit < 6000) {
      EXPECT_EQ(status, 42) << "limit " << limit;
    }
    if (status == 42) {
      EXPECT_EQ(names(), before) << "limit " << limit;
    }
    Model again(1);
    ASSERT_TRUE(load(root_ + "/step-000001", again.state(), true).ok());
    ASSERT_EQ(again.contents(), want);
  }
}

TEST_F(Checkpoint, NumbersThatAreNotFiniteAreNotSaved) {
  Model model(2);
  model.fill(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 1).ok());
  const auto before = names();
  for (const StateTensor& tensor : model.state().tensors()) {
    model.fill(2);
    std::vector<float> row(static_cast<size_t>(tensor.row_bytes() / 4), 1.0F);
    row.back() = std::numeric_limits<float>::infinity();
    model.state().write_rows(tensor, tensor.rows() - 1, tensor.rows(), reinterpret_cast<const std::byte*>(row.data()));
    const auto saved = store()->save(model.state(), 2, 2);
    ASSERT_FALSE(saved.ok()) << tensor.name;
    EXPECT_EQ(saved.error().code, "XG0810");
    EXPECT_THAT(saved.error().message, HasSubstr("`" + tensor.name + "`"));
    EXPECT_EQ(names(), before);
  }
}

TEST_F(Checkpoint, ASaveThatCannotReplaceLatestLeavesNoFiles) {
  Model model(1);
  model.fill(1);
  const auto kept = store();
  fs::create_directories(root_ + "/latest/in_the_way");
  const auto saved = kept->save(model.state(), 1, 1);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, "XG0711");
  for (const auto& entry : fs::directory_iterator(root_)) {
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
  }
}

TEST_F(Checkpoint, AnUnreadableLatestIsAnErrorAndNoOtherStepIsUsed) {
  Model model(1);
  model.fill(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 1).ok());
  fs::remove(root_ + "/latest");
  EXPECT_EQ(newest_in(root_).value(), "step-000001");
  fs::create_symlink("latest", root_ + "/latest");  // reading it fails with ELOOP
  const auto newest = newest_in(root_);
  ASSERT_FALSE(newest.ok());
  EXPECT_EQ(newest.error().code, "XG0713");
}

// Network file systems return these errors from a call that exchanges two names.
TEST_F(Checkpoint, DirectoriesAreExchangedWithoutAnExchangeCall) {
  const auto names_in = [](const std::string& path) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  };
  for (const int fault : {EINVAL, ENOSYS, EIO}) {
    fs::remove_all(root_);
    fs::create_directories(root_ + "/new/fresh");
    fs::create_directories(root_ + "/old/stale");
    struct WithoutExchange : Io {
      int answer = 0;
      int exchange(const std::string&, const std::string&) override { return answer; }
    } io;
    io.answer = fault;
    const int result = change_places(root_ + "/new", root_ + "/old", io);
    EXPECT_EQ(result, fault == EIO ? EIO : 0);
    EXPECT_EQ(names_in(root_), (std::set<std::string>{"new", "old"}));
    EXPECT_EQ(names_in(root_ + "/old"), (std::set<std::string>{fault == EIO ? "stale" : "fresh"}));
    EXPECT_EQ(names_in(root_ + "/new"), (std::set<std::string>{fault == EIO ? "fresh" : "stale"}));
  }
}

TEST_F(Checkpoint, PathsThatAreNotUtf8AreShownUpToTheInvalidByte) {
  const std::string parent = root_;
  root_ += "/\xff";
  Model model(1);
  model.fill(1);
  ASSERT_TRUE(store()->save(model.state(), 1, 1).ok());
  const auto text = describe_checkpoint(root_ + "/latest", true);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_THAT(*text, HasSubstr("step-000001"));
  root_ = parent;  // so that the test removes all of it
}

TEST_F(Checkpoint, ReadOnlyDirectoryIsASystemError) {
  if (geteuid() == 0) {
    GTEST_SKIP() << "root may write anywhere";
  }
  fs::create_directories(root_);
  fs::permissions(root_, fs::perms::owner_read | fs::perms::owner_exec);
  const auto made = make_checkpoint_store(options());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0711");
  EXPECT_EQ(exit_code(made.error().kind), 4);
}

TEST_F(Checkpoint, PathThatIsAFileIsASystemError) {
  write(root_, "a file");
  const auto made = make_checkpoint_store(options());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0711");
}

TEST_F(Checkpoint, AKillDuringASaveLeavesACompleteCheckpoint) {
  // A child process saves step after step. Whenever it is killed, the newest checkpoint must be complete and hold the
  // weights of its step.
  const auto contents_at = [](int64_t step) {
    Model model(2);
    model.fill(static_cast<uint64_t>(step));
    return model.contents();
  };
  int64_t last = 0;
  const RandomStream delays(5, 0);
  for (uint64_t round = 0; round < 40; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Model model(2);
      auto made = make_checkpoint_store(options());
      for (int64_t step = last + 1; made.ok(); ++step) {
        model.fill(static_cast<uint64_t>(step));
        if (!made.value()->save(model.state(), step, step).ok()) {
          _exit(1);
        }
      }
      _exit(2);
    }
    // Every other child lives until it has completed a step, also on a slow machine.
    const auto before = newest_in(root_).value();
    for (int i = 0; round % 2 == 0 && newest_in(root_).value() == before && i < 5000; ++i) {
      usleep(1000);
    }
    usleep(static_cast<useconds_t>(delays.below(round, 10'000)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    Model again(3);
    const auto resumed = store()->resume(again.state());
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    if (resumed->has_value()) {
      EXPECT_GE((*resumed)->step, last);
      last = (*resumed)->step;
      ASSERT_EQ(again.contents(), contents_at(last));
    }
  }
  EXPECT_GT(last, 3) << "the children came to nothing";
}

}  // namespace
}  // namespace xrun::runtime
