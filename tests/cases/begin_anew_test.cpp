// Starting a new run in the directory of an existing one, and commands that resume an existing run.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cases/run_events.h"
#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using xrun::testing::CommandOptions;
using xrun::testing::CommandResult;
using xrun::testing::read_file;
using xrun::testing::run_events;
using xrun::testing::run_xrun;

class BeginAnew : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("tiny.xgraph", xrun::testing::tiny_model()); }
  CommandResult run(const std::vector<std::string>& words, CommandOptions options = {}) const {
    options.directory = directory.path();
    options.timeout_s = 600;  // long enough for a loaded machine
    return run_xrun(words, options);
  }
  CommandResult train(const std::vector<std::string>& flags, CommandOptions options = {}) const {
    std::vector<std::string> words{"train", "tiny.xgraph", "--progress", "plain"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words, options);
  }
  std::string at(const std::string& name) const { return directory.path() + "/" + name; }
  size_t starts(const std::string& name) const { return run_events(read_file(at(name)), "start").size(); }
  xrun::testing::TemporaryDirectory directory;
};

TEST_F(BeginAnew, IsRefusedInTheDirectoryOfARun) {
  ASSERT_EQ(train({}).exit, 0);
  const std::string log = read_file(at("ckpt/quick/log.jsonl"));
  const CommandResult refused = train({"--resume", "never"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err,
              HasSubstr("error[XG0722]: `--resume never` begins a new run in ckpt/quick, which has a run up "
                        "to step-000060: its checkpoints and its curve would be lost\n"));
  EXPECT_THAT(refused.err, HasSubstr("add --overwrite, which first moves it to ckpt/quick.1"));
  EXPECT_EQ(read_file(at("ckpt/quick/latest")), "step-000060\n");
  EXPECT_EQ(read_file(at("ckpt/quick/log.jsonl")), log);
  // A run that has not finished has a curve that would also be lost.
  ASSERT_EQ(train({"-C", "part", "--steps", "10"}).exit, 0);
  EXPECT_EQ(train({"-C", "part", "--resume", "never"}).exit, 1);
  // A run of another model is refused as well.
  EXPECT_EQ(train({"--resume", "never", "--set", "train.seed=2"}).exit, 1);
}

TEST_F(BeginAnew, WorksInADirectoryWithoutCheckpoints) {
  EXPECT_EQ(train({"--resume", "never", "--steps", "5"}).exit, 0);
  fs::create_directories(at("other/ckpt/quick"));
  std::ofstream(at("other/ckpt/quick/notes.txt")) << "mine";
  EXPECT_EQ(train({"-C", "other", "--resume", "never", "--steps", "5"}).exit, 0);
  EXPECT_EQ(read_file(at("other/ckpt/quick/notes.txt")), "mine");
}

TEST_F(BeginAnew, OverwriteMovesTheExistingRun) {
  ASSERT_EQ(train({}).exit, 0);
  const std::string log = read_file(at("ckpt/quick/log.jsonl"));
  const CommandResult second = train({"--resume", "never", "--overwrite", "--steps", "10"});
  ASSERT_EQ(second.exit, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("note: the run that was in ckpt/quick is now in ckpt/quick.1\n"));
  EXPECT_EQ(read_file(at("ckpt/quick.1/log.jsonl")), log);
  EXPECT_EQ(read_file(at("ckpt/quick.1/latest")), "step-000060\n");
  EXPECT_EQ(read_file(at("ckpt/quick/latest")), "step-000010\n");
  EXPECT_EQ(starts("ckpt/quick/log.jsonl"), 1u);
  EXPECT_EQ(run({"eval", "ckpt/quick.1"}).exit, 0) << "the old run is whole";
  // Each run that is moved away gets a new name.
  ASSERT_EQ(train({"--resume", "never", "--overwrite", "--set", "train.seed=2", "--steps", "20"}).exit, 0);
  EXPECT_EQ(read_file(at("ckpt/quick.2/latest")), "step-000010\n");
  EXPECT_EQ(read_file(at("ckpt/quick.1/latest")), "step-000060\n");
  // Nothing is moved if there is no existing run.
  EXPECT_THAT(train({"-C", "fresh", "--resume", "never", "--overwrite", "--steps", "5"}).err, Not(HasSubstr("note:")));
  EXPECT_FALSE(fs::exists(at("fresh/ckpt/quick.1")));
}

TEST_F(BeginAnew, OverwriteRequiresResumeNever) {
  for (const auto& flags : {std::vector<std::string>{"--overwrite"}, {"--overwrite", "--resume", "auto"}}) {
    const CommandResult refused = train(flags);
    EXPECT_EQ(refused.exit, 2);
    EXPECT_THAT(refused.err, HasSubstr("`--overwrite` is for a run that starts over, but this one continues"));
    EXPECT_THAT(refused.err, HasSubstr("add --resume never"));
  }
}

TEST_F(BeginAnew, OverwriteMovesSecondCopiesAndLinksStayLinks) {
  fs::create_directories(at("disk/quick"));
  fs::create_directories(at("ckpt"));
  fs::create_directory_symlink(at("disk/quick"), at("ckpt/quick"));
  const std::string copy = "train.checkpoint.copy=\"" + at("copies") + "\"";
  ASSERT_EQ(train({"--set", copy, "--steps", "20"}).exit, 0);
  ASSERT_EQ(train({"--set", copy, "--steps", "10", "--resume", "never", "--overwrite"}).exit, 0);
  EXPECT_TRUE(fs::is_symlink(at("ckpt/quick")));
  EXPECT_EQ(read_file(at("disk/quick.1/latest")), "step-000020\n");
  EXPECT_EQ(read_file(at("ckpt/quick/latest")), "step-000010\n");
  EXPECT_TRUE(fs::exists(at("copies.1/step-000020"))) << "or a run without checkpoints would go on from it";
  EXPECT_TRUE(fs::exists(at("copies/step-000010")));
  EXPECT_FALSE(fs::exists(at("copies/step-000020")));
}

// With `checkpoint { dir = "." }` the directory of checkpoints holds the user's own files, which must not be moved.
TEST_F(BeginAnew, OverwriteMovesNoDirectoryOfTheUser) {
  const std::vector<std::string> flags{"--set", "train.checkpoint.dir=\".\"", "--steps", "10"};
  ASSERT_EQ(train(flags).exit, 0);
  auto again = flags;
  again.insert(again.end(), {"--resume", "never", "--overwrite"});
  const CommandResult refused = train(again);
  EXPECT_EQ(refused.exit, 4);
  EXPECT_THAT(refused.err, HasSubstr("holds more than the files of a run, and `--overwrite` would rename all of it"));
  EXPECT_TRUE(fs::exists(at("tiny.xgraph")));
}

// A run that was started with these flags is resumed without them.
TEST_F(BeginAnew, AStoppedRunNamesTheFlagsToLeaveOutWhenItIsResumed) {
  ASSERT_EQ(train({"--steps", "10", "-C", "other"}).exit, 0);
  const auto stopped = [&](const std::vector<std::string>& flags) {
    auto words = flags;
    words.insert(words.end(), {"--set", "train.epochs=100000"});
    const CommandResult result = train(words, {.signal = SIGINT, .signal_on = "Z start "});
    EXPECT_EQ(result.exit, 75) << result.err;
    return result.err;
  };
  EXPECT_THAT(stopped({"-C", "a"}), HasSubstr("; run the same command to continue\n"));
  EXPECT_THAT(stopped({"-C", "b", "--resume", "never"}),
              HasSubstr("; run the same command without `--resume never` to continue\n"));
  EXPECT_THAT(stopped({"-C", "b", "--resume", "never", "--overwrite"}),
              HasSubstr("; run the same command without `--resume never --overwrite` to continue\n"));
  EXPECT_THAT(stopped({"-C", "c", "--resume", "other/ckpt/quick", "--extend"}),
              HasSubstr("; run the same command without `--resume other/ckpt/quick` to continue\n"));
}

// If restarts started a new run each time, each start would lose the weights of the one before it.
TEST_F(BeginAnew, RestartsResumeTheRunAndRejectFlagsThatBeginANewOne) {
  const auto restarts = [&](const std::vector<std::string>& flags, CommandOptions options = {}) {
    std::vector<std::string> words{"train", "--restarts", "3", "--", "false"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words, options);
  };
  for (const auto& flags : {std::vector<std::string>{"--resume", "never"}, {"--resume=ckpt/quick"}}) {
    const CommandResult refused = restarts(flags);
    EXPECT_EQ(refused.exit, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("each start would lose what the one before it has learned"));
  }
  EXPECT_EQ(restarts({}, {.environment = {{"XRUN_RESUME", "never"}}}).exit, 2);
  EXPECT_EQ(restarts({"--resume", "auto"}).exit, 1) << "the exit code of `false`";
  EXPECT_EQ(restarts({}).exit, 1);
}

// The demonstrations run `xrun train`, which prints "run the same command to continue". So running a demonstration
// again must resume its run.
TEST(Demos, ResumeAfterAnInterruptionAndStartANewRunAfterTheirEnd) {
  const xrun::testing::TemporaryDirectory root;
  for (const char* name : {"scripts", "build/release"}) {
    fs::create_directories(root.path() + "/" + name);
  }
  fs::copy_file(std::string(XRUN_SOURCE_DIR) + "/scripts/demo.sh", root.path() + "/scripts/demo.sh");
  // A script replaces xrun: its `train` adds a line to the run's file, and its first two starts are interrupted.
  const std::string fake = root.write("build/release/xrun", R"sh(#!/bin/bash
[ "$1" = train ] || exit 0
out=${!#}
echo step >>"$out/run"
echo start >>starts
[ "$(wc -l <starts)" -gt 2 ] || exit 75
)sh");
  fs::permissions(fake, fs::perms::owner_all);
  const auto demo = [&] {
    return WEXITSTATUS(
        std::system(("bash " + root.path() + "/scripts/demo.sh >" + root.path() + "/said 2>&1").c_str()));
  };
  const auto steps = [&] { return read_file(root.path() + "/build/demo/run"); };
  EXPECT_EQ(demo(), 75);
  EXPECT_EQ(demo(), 75);
  EXPECT_EQ(steps(), "step\nstep\n") << "the run before was deleted";
  EXPECT_THAT(read_file(root.path() + "/said"), HasSubstr("Continuing the interrupted demo"));
  EXPECT_EQ(demo(), 0);
  EXPECT_EQ(steps(), "step\nstep\nstep\n");
  EXPECT_EQ(demo(), 0);
  EXPECT_EQ(steps(), "step\n") << "a demo after one that has ended shows a run from its beginning";
}

}  // namespace
