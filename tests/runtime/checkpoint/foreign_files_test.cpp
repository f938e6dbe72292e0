// Files in or in place of a directory of checkpoints that do not belong to it are neither removed nor followed.
#include <ctime>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>

#include "graph/base/xxh128.h"
#include "runtime/checkpoint/files/class_names.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/formats/bounded_json.h"
#include "tests/runtime/checkpoint/checkpoint_model.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Model = testing::CheckpointModel;

class ForeignFiles : public testing::CheckpointDirectory {
 protected:
  void save(int64_t step) {
    const auto saved = store()->save(model_.state(), step, step);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
  }
  Error refusal() {
    const auto made = make_checkpoint_store(options());
    const auto resumed = made.ok() ? (*made)->resume(model_.state()) : made.error();
    EXPECT_FALSE(resumed.ok());
    return resumed.ok() ? Error{} : resumed.error();
  }

  Model model_{1};
};

TEST_F(ForeignFiles, ALatestThatNamesAnIncompleteStepIsRefused) {
  save(1);
  save(2);
  fs::remove(root_ + "/step-000002/manifest.json");
  EXPECT_EQ(refusal().code, "XG0713");
  EXPECT_THAT(refusal().message, HasSubstr("latest names step-000002, which has no manifest.json"));
  EXPECT_THAT(refusal().help, HasSubstr("remove " + root_ + "/latest: step-000001 is then the newest"));
  EXPECT_EQ(open_checkpoint(root_).error().code, "XG0713");
  fs::remove_all(root_ + "/step-000001");
  fs::remove_all(root_ + "/step-000002");
  EXPECT_THAT(refusal().help, HasSubstr("a run then starts from the beginning"));
  fs::remove(root_ + "/latest");
  EXPECT_FALSE(store()->resume(model_.state())->has_value());
}

TEST_F(ForeignFiles, AnInvalidLatestFileIsRefusedAndKept) {
  save(1);
  for (const std::string text : {"", "the latest news\n", "../step-000001\n", "step-000001\nstep-000002\n"}) {
    write(root_ + "/latest", text);
    EXPECT_THAT(refusal().message, HasSubstr("latest does not say which step is the newest")) << text;
    EXPECT_EQ(read(root_ + "/latest"), text);
  }
  fs::remove(root_ + "/latest");
  ASSERT_EQ(::mkfifo((root_ + "/latest").c_str(), 0600), 0);
  EXPECT_THAT(refusal().message, HasSubstr("latest is not a regular file"));
  fs::remove(root_ + "/latest");
  fs::create_symlink("/dev/zero", root_ + "/latest");
  EXPECT_THAT(refusal().message, HasSubstr("latest is not a regular file"));
}

// Makes files whose names resemble those of a save, and directories with a file that no save writes.
TEST_F(ForeignFiles, ASaveRemovesNothingThatIsNotItsOwn) {
  const std::string owner = to_text(this_process());
  const std::string tail = ".tmp-" + owner + "-0123456789abcdef";
  std::set<std::string> kept;
  const auto put = [&](const std::string& path) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    write(root_ + "/" + path, path);
    kept.insert(path);
  };
  const std::vector<std::string> nearly{"step-by-step.tmp-notes",
                                        "step-by-step" + tail,
                                        "notes" + tail,
                                        "step-000001" + tail + "x",
                                        "step-1" + tail,
                                        "step-000001.tmp-" + owner,
                                        "step-000001.tmp-notes-0123456789abcdef"};
  for (const std::string& name : nearly) {
    put(name + "/manifest.json");
  }
  put("step-000001" + tail + "/notes.txt");
  put("step-000002" + tail + "/deep/manifest.json");
  put("classes-mine.json");
  put("classes-" + std::string(32, 'a') + ".json");  // its content has another digest than its name
  put("classes-mine.json" + tail);
  fs::create_directories(root_ + "/elsewhere");
  put("elsewhere/manifest.json");
  fs::create_directory_symlink("elsewhere", root_ + "/step-000003" + tail);
  write(root_ + "/latest" + tail, "its own");
  fs::create_directories(root_ + "/step-000004" + tail);
  write(root_ + "/step-000004" + tail + "/head.id.r0000000064.safetensors", "its own");

  CheckpointOptions one = options();
  one.keep = 1;
  const auto kept_store = store(one);
  for (const int64_t step : {10, 20, 30}) {
    ASSERT_TRUE(kept_store->save(model_.state(), step, step).ok());
    put(step_name(step) + "/my notes.txt");
  }
  ASSERT_TRUE(kept_store->save(model_.state(), 30, 30).ok()) << "its directory is replaced";
  ASSERT_TRUE(kept_store->save(model_.state(), 40, 40).ok());
  kept.erase("step-000030/my notes.txt");  // moved aside together with its directory
  for (const std::string& path : kept) {
    EXPECT_EQ(read(root_ + "/" + path), path);
  }
  EXPECT_TRUE(fs::is_symlink(root_ + "/step-000003" + tail));
  int notes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    notes += entry.path().filename() == "my notes.txt" ? 1 : 0;
  }
  EXPECT_EQ(notes, 3);
  EXPECT_FALSE(fs::exists(root_ + "/latest" + tail));
  EXPECT_FALSE(fs::exists(root_ + "/step-000004" + tail));
}

TEST_F(ForeignFiles, StepsOfAnotherRunAreNotPruned) {
  save(1);
  fs::remove(root_ + "/latest");
  Manifest other = open_checkpoint(root_ + "/step-000001")->manifest;
  fs::copy(root_ + "/step-000001", root_ + "/step-000009");
  other.math_digest = "another";
  write(root_ + "/step-000001/manifest.json", print_manifest(other));
  fs::remove_all(root_ + "/step-000009");
  fs::rename(root_ + "/step-000001", root_ + "/step-000001.theirs");
  CheckpointOptions one = options();
  one.keep = 1;
  const auto kept = store(one);
  fs::rename(root_ + "/step-000001.theirs", root_ + "/step-000001");
  for (const int64_t step : {2, 3}) {
    ASSERT_TRUE(kept->save(model_.state(), step, step).ok());
  }
  EXPECT_TRUE(fs::exists(root_ + "/step-000001/trunk.safetensors"));
  EXPECT_FALSE(fs::exists(root_ + "/step-000002"));
}

TEST_F(ForeignFiles, AnInvalidLockFileIsNotOverwritten) {
  fs::create_directories(root_);
  for (const std::string text : {"my notes", "node7 and more", "node7 0123\nmore\n"}) {
    write(root_ + "/lock", text);
    EXPECT_EQ(refusal().code, "XG0711");
    EXPECT_THAT(refusal().message, HasSubstr("lock is not the lock file of a run"));
    EXPECT_EQ(read(root_ + "/lock"), text);
  }
  fs::remove(root_ + "/lock");
  write(root_ + "/notes", "mine");
  fs::create_symlink("notes", root_ + "/lock");
  EXPECT_THAT(refusal().message, HasSubstr("lock is not the lock file of a run"));
  fs::remove(root_ + "/lock");
  ASSERT_EQ(::mkfifo((root_ + "/lock").c_str(), 0600), 0);
  EXPECT_THAT(refusal().message, HasSubstr("lock is not the lock file of a run"));
  EXPECT_EQ(read(root_ + "/notes"), "mine");
  fs::remove(root_ + "/lock");
  const std::string line = host_name() + " " + to_text(this_process()) + "\n";
  for (size_t cut = 0; cut <= line.size(); ++cut) {
    for (const size_t zeroes : {size_t{0}, line.size() - cut}) {
      write(root_ + "/lock", line.substr(0, cut) + std::string(zeroes, '\0'));
      EXPECT_NE(store(), nullptr) << "as a power failure leaves it, cut at " << cut;
    }
  }
}

// A checkpoint file that is a pipe, a device, a link, or larger than the manifest says is not read.
TEST_F(ForeignFiles, OnlyOrdinaryFilesOfTheRightSizeAreRead) {
  save(1);
  const std::string step = root_ + "/step-000001/";
  for (const std::string file : {"manifest.json", "trunk.safetensors"}) {
    const std::string good = read(step + file);
    const auto refused_as = [&](const std::string& why) {
      for (const Error& error : {refusal(), file == "manifest.json" ? open_checkpoint(root_).error()
                                                                    : load(root_, model_.state()).error()}) {
        EXPECT_THAT(error.code, ::testing::AnyOf("XG0710", "XG0713")) << file;
        EXPECT_THAT(error.message, AllOf(HasSubstr(file), HasSubstr(why)));
      }
      if (file != "manifest.json") {
        EXPECT_FALSE(describe_checkpoint(root_, false).ok()) << "headers are read of ordinary files alone, too";
      }
      fs::remove(step + file);
    };
    fs::remove(step + file);
    ASSERT_EQ(::mkfifo((step + file).c_str(), 0600), 0);
    refused_as("is not a regular file");
    fs::create_symlink("/dev/zero", step + file);
    refused_as("is a link");
    write(root_ + "/elsewhere", good);
    fs::create_symlink("../elsewhere", step + file);
    refused_as("is a link");
    fs::create_directory(step + file);
    refused_as("is not a regular file");
    if (file != "manifest.json") {
      std::ofstream(step + file) << good;
      fs::resize_file(step + file, uintmax_t{1} << 40);  // the added bytes need no disk space
      refused_as("has 1099511627776 bytes, not " + std::to_string(good.size()));
    }
    write(step + file, good);
  }
  EXPECT_TRUE(store()->resume(model_.state()).ok());
}

TEST_F(ForeignFiles, AManifestMustMatchItsDirectoryAndHaveEnoughSamples) {
  const auto kept = store();
  ASSERT_TRUE(kept->save(model_.state(), 1, 64).ok());
  const Manifest good = open_checkpoint(root_)->manifest;
  Manifest other = good;
  other.step = 2;
  write(root_ + "/step-000001/manifest.json", print_manifest(other));
  EXPECT_THAT(open_checkpoint(root_).error().message,
              HasSubstr("belongs to step 2, but its directory names another step"));
  other = good;
  other.samples = 0;
  write(root_ + "/step-000001/manifest.json", print_manifest(other));
  EXPECT_THAT(open_checkpoint(root_).error().message, HasSubstr("has 0 samples for 1 steps"));
  other.samples = 65;
  write(root_ + "/step-000001/manifest.json", print_manifest(other));
  EXPECT_TRUE(open_checkpoint(root_).ok());
}

TEST_F(ForeignFiles, SamplesOfACheckpointMustEqualStepsTimesBatch) {
  ASSERT_TRUE(store()->save(model_.state(), 10, 640).ok());
  CheckpointOptions with = options();
  with.batch = 64;
  EXPECT_TRUE(store(with)->resume(model_.state()).ok());
  with.batch = 32;
  const auto refused = store(with)->resume(model_.state());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("has 640 samples for 10 steps of 32"));
}

// An earlier reader took 4.6 s for 60,000 keys, and overflowed the stack for nested lists. Four times the input may
// take eight times as long; a quadratic reader would take sixteen times. Measures processor time, since other processes
// may use the cores.
TEST_F(ForeignFiles, ManifestsAreReadInLinearTime) {
  const auto timed = [](const std::string& text) {
    std::clock_t least = std::numeric_limits<std::clock_t>::max();
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();
      EXPECT_FALSE(parse_manifest(text, "m").ok());
      least = std::min(least, std::clock() - start);
    }
    return static_cast<double>(least);
  };
  const auto objects = [](const char* key, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += fmt::format(", \"{}{}\": \"1\"", key, i);
    }
    return text;
  };
  save(1);
  const std::string good = read(root_ + "/step-000001/manifest.json");
  const std::string place = " \"libraries\": {}";
  ASSERT_NE(good.find(place), std::string::npos);
  const auto keys = [&](int count) { return "{\"format\": 2" + objects("key", count) + "}"; };
  const auto libraries = [&](int count) {
    return std::string(good).replace(good.find(place), place.size(),
                                     "\"libraries\": {\"a\": \"\"" + objects("library", count) + "}");
  };
  const auto lists = [](int count) { return std::string(static_cast<size_t>(count) * 100, '['); };
  EXPECT_LT(timed(keys(60'000)), 8 * timed(keys(15'000)));
  EXPECT_LT(timed(libraries(60'000)), 8 * timed(libraries(15'000)));
  EXPECT_LE(timed(lists(60'000)), 8 * std::max(timed(lists(15'000)), 1000.0));
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(64)).is_array());
  EXPECT_TRUE(parse_json(nested(65)).is_discarded());
  EXPECT_EQ(parse_json(R"(["[[\"[", "]]"])").size(), 2u);
}

}  // namespace
}  // namespace xrun::runtime
