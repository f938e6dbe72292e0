// Runs of several processes with the launcher of MPICH. They have the weights of one process and of Open MPI, each MPI
// can resume checkpoints of the other, and the launcher reports their ends in its own way.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tests/support/hosts/launchers.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

const std::string kXrun = std::string(XRUN_BINARY_DIR) + "/xrun";

class MpichCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = launcher.missing(); !missing.empty()) {
      GTEST_SKIP() << missing << ": MPICH is not tested";
    }
    std::string text = tiny_model();
    text.erase(text.find("test \"size\""));
    directory.write("tiny.xgraph", text.replace(text.find("int = 37"), 8, "int = 320"));
  }

  static Words train(const std::string& checkpoints, const Words& more = {}) {
    Words words{"train", "tiny.xgraph", "--devices", "4", "--deterministic", "--progress", "plain", "-C", checkpoints};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  CommandResult one(const Words& words, CommandOptions options = {}) const {
    options.directory = directory.path();
    return run_xrun(words, options);
  }
  CommandResult ranks(const Launcher& by, int count, Words words) const {
    words.insert(words.begin(), kXrun);
    return by.run(count, words, {.directory = directory.path()});
  }
  // Runs the command under --restarts. In the first start, the process of `rank` is first a shell that runs `what`.
  CommandResult restarts(int rank, const std::string& what, const Words& words, CommandOptions options = {}) const {
    std::string script = fmt::format("if [ ${} = {} ] && mkdir once 2> /dev/null; then ({}) & fi; exec {}",
                                     launcher.rank, rank, what, kXrun);
    for (const std::string& word : words) {
      script += " '" + word + "'";
    }
    Words all{"train", "--restarts", "2", "--"};
    const Words command = launcher.words_for(3, {"sh", "-c", script});
    all.insert(all.end(), command.begin(), command.end());
    return one(all, options);
  }
  // Returns the digest in the line "... end step=60 loss=... weights=5a0c34dd937e611dd456f94232646ce6 seconds=0.4
  // exit=0".
  static std::string weights_of(const CommandResult& result) {
    const size_t at = result.err.rfind(" weights=");
    return at == std::string::npos ? "none" : result.err.substr(at, result.err.find(' ', at + 1) - at);
  }
  static int64_t errors_in(const CommandResult& result) {
    int64_t found = 0;
    for (size_t at = result.err.find("error["); at != std::string::npos; at = result.err.find("error[", at + 1)) {
      ++found;
    }
    return found;
  }

  const Launcher launcher = mpich();
  TemporaryDirectory directory;
};

TEST_F(MpichCommand, RanksComputeTheSameWeightsAsOneProcessAndAsOpenMpi) {
  for (const Words& plan : {Words{}, Words{"--set", "schedule.stages=2", "--set", "schedule.shard.id.over=4"}}) {
    const std::string name = std::to_string(plan.size());
    const auto whole = one(train("one" + name, plan));
    ASSERT_EQ(whole.exit, 0) << whole.err;
    for (const int count : {2, 3, 4}) {
      const auto result = ranks(launcher, count, train(fmt::format("mpich{}of{}", name, count), plan));
      ASSERT_EQ(result.exit, 0) << result.err;
      EXPECT_THAT(result.err, HasSubstr(fmt::format("all {} ranks up", count)));
      EXPECT_EQ(weights_of(result), weights_of(whole)) << count << " ranks";
    }
    if (open_mpi().missing().empty()) {
      EXPECT_EQ(weights_of(ranks(open_mpi(), 4, train("open" + name, plan))), weights_of(whole));
    }
  }
}

TEST_F(MpichCommand, ARunResumesWithAnotherMpi) {
  if (const std::string missing = open_mpi().missing(); !missing.empty()) {
    GTEST_SKIP() << missing << ": one MPI cannot go on after the other";
  }
  const auto whole = one(train("whole"));
  ASSERT_EQ(ranks(launcher, 3, train("run", {"--steps", "20"})).exit, 0);
  ASSERT_EQ(ranks(open_mpi(), 2, train("run", {"--steps", "40"})).exit, 0);
  const auto last = ranks(launcher, 4, train("run"));
  ASSERT_EQ(last.exit, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr("step-000040"));
  EXPECT_EQ(weights_of(last), weights_of(whole));
}

// MPICH's launcher kills the other ranks and ends with exit code 9, soon after the start of the command.
TEST_F(MpichCommand, AKilledRankCostsTheStepsSinceTheLastCheckpoint) {
  const Words often{"--set", "train.checkpoint.every=10 steps"};
  const auto whole = one(train("whole", often));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  for (const int rank : {0, 1, 2}) {
    const std::string to = "killed" + std::to_string(rank);
    const auto result = restarts(rank, "until [ -e " + to + "/ckpt/quick/latest ]; do sleep 0.01; done; kill -KILL $$",
                                 train(to, often));
    EXPECT_FALSE(result.timed_out);
    ASSERT_EQ(result.exit, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("it is started again, restart 1 of 2"));
    EXPECT_THAT(result.err, Not(HasSubstr("2 of 2")));
    EXPECT_EQ(weights_of(result), weights_of(whole));
    std::filesystem::remove(directory.path() + "/once");
  }
}

// The launcher passes the request on. Sometimes it then ends with exit code 0, which --restarts must not take for the
// end of the run.
TEST_F(MpichCommand, AStopRequestEndsAllWithACheckpoint) {
  const auto result = restarts(0, "true", train("long", {"--set", "train.epochs=100000"}),
                               {.signal = SIGTERM, .signal_on = "step=20 "});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit, 75) << result.err;
  EXPECT_THAT(result.err, HasSubstr("exit=75"));
  EXPECT_THAT(result.err, Not(HasSubstr("error[")));
  EXPECT_EQ(one(train("long", {"--set", "train.epochs=100000", "--steps", "1"})).exit, 0);
}

TEST_F(MpichCommand, WrongCommandLinesAreReportedOnce) {
  const auto many = ranks(launcher, 3, {"train", "tiny.xgraph", "--devices", "2"});
  EXPECT_EQ(many.exit, 2) << many.err;
  EXPECT_EQ(errors_in(many), 1) << many.err;
  EXPECT_THAT(many.err, HasSubstr("error[XG0832]"));
  const auto missing = ranks(launcher, 2, {"train", "none.xgraph"});
  EXPECT_EQ(missing.exit, 1) << missing.err;
  EXPECT_EQ(errors_in(missing), 1) << missing.err;
}

}  // namespace
}  // namespace xrun::testing
