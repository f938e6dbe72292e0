// `xrun train --restarts N -- COMMAND`: when the command is started again, and that a run whose processes were killed
// ends with the weights of an undisturbed run.
#include "runtime/cli/job/restarts.h"

#include <algorithm>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::cli {
namespace {

using testing::CommandOptions;
using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::Not;

int64_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

class Restarts : public ::testing::Test {
 protected:
  // Runs a shell script under --restarts.
  CommandResult watch(const std::string& restarts, const std::string& script, CommandOptions options = {}) {
    options.directory = directory.path();
    options.environment.emplace_back("XRUN", std::string(XRUN_BINARY_DIR) + "/xrun");
    return testing::run_xrun({"train", "--restarts", restarts, "--", "sh", "-c", script}, options);
  }
  CommandResult run(const std::vector<std::string>& words, CommandOptions options = {}) {
    options.directory = directory.path();
    return testing::run_xrun(words, options);
  }

  testing::TemporaryDirectory directory;
};

// Each start adds a line to `starts`.
constexpr char kCount[] = "echo start >> starts; ";

TEST(RestartRules, StopsLostRanksAndSystemErrorsAreRestarted) {
  for (const int exit : {75, 4, 128 + SIGKILL, 128 + SIGABRT, 128 + SIGSEGV, 128 + SIGBUS}) {
    EXPECT_TRUE(is_worth_restart(exit)) << exit;
  }
  for (const int exit : {0, 1, 2, 3, 5, 10, 127, 128 + SIGINT, 128 + SIGTERM}) {
    EXPECT_FALSE(is_worth_restart(exit)) << exit;
  }
}

TEST(RestartRules, ALauncherThatCannotReachAHostIsRestarted) {
  EXPECT_TRUE(misses_host(1, {.begun = 2}, false, true)) << "its ranks were killed with it";
  EXPECT_TRUE(misses_host(1, {.begun = 2, .exits = {75, 75}}, false, true));
  EXPECT_TRUE(misses_host(1, {}, true, false)) << "it cannot begin its ranks, and could before";
  EXPECT_FALSE(misses_host(1, {}, false, false)) << "it never had any";
  EXPECT_FALSE(misses_host(1, {}, true, true)) << "ranks that cannot be heard";
  EXPECT_FALSE(misses_host(1, {.begun = 2, .exits = {75, 1}}, true, true)) << "a rank refuses its input";
  EXPECT_FALSE(misses_host(1, {.begun = 2, .exits = {0, 0}}, true, true)) << "what failed came after the run";
  EXPECT_TRUE(misses_host(SIGKILL, {.begun = 2}, false, true)) << "MPICH's launcher, of a rank that was killed";
  EXPECT_TRUE(misses_host(SIGABRT | SIGKILL, {.begun = 3}, false, true))
      << "a rank aborted, and the others were killed";
  for (const int exit : {0, SIGINT, SIGTERM, 124, 128 + SIGINT, 128 + SIGTERM}) {
    EXPECT_FALSE(misses_host(exit, {.begun = 2, .exits = {75, 75}}, true, true)) << exit;
  }
}

TEST(RestartRules, ExitCodesOfRanksReplaceThatOfALauncherThatLosesThem) {
  EXPECT_EQ(exit_of_ranks(0, {.begun = 2, .launched = true, .exits = {75, 75}}), 75);
  EXPECT_EQ(exit_of_ranks(0, {.begun = 2, .launched = true, .exits = {75, 1}}), 1);
  EXPECT_EQ(exit_of_ranks(0, {.begun = 2, .launched = true}), 75) << "all were killed";
  EXPECT_EQ(exit_of_ranks(0, {.begun = 2, .launched = true, .exits = {75, 0}}), 0) << "a rank is done";
  EXPECT_EQ(exit_of_ranks(0, {}), 0) << "ranks that cannot be heard";
  EXPECT_EQ(exit_of_ranks(0, {.begun = 1, .exits = {75}}), 0) << "a script, which may go on after its run";
  EXPECT_EQ(exit_of_ranks(9, {.begun = 2, .launched = true, .exits = {75}}), 9);
}

TEST(RestartRules, TheWaitGrowsWithTheNumberOfStartsThatFailAtOnce) {
  EXPECT_EQ(wait_before_restart(0), 0);
  EXPECT_EQ(wait_before_restart(1), 0);
  EXPECT_EQ(wait_before_restart(2), 1);
  EXPECT_EQ(wait_before_restart(4), 4);
  EXPECT_EQ(wait_before_restart(8), 60);
  EXPECT_EQ(wait_before_restart(1'000'000), 60);
}

TEST_F(Restarts, StartsACommandAgainUntilItSucceeds) {
  const auto result = watch("5", std::string(kCount) + "test $(wc -l < starts) = 2 || exit 75");
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(lines(testing::read_file(directory.path() + "/starts")), 2);
  EXPECT_THAT(result.err, HasSubstr("ended with exit code 75 after "));
  EXPECT_THAT(result.err, HasSubstr("; it is started again, restart 1 of 5\n"));
}

TEST_F(Restarts, EndsWithTheLastExitCodeWhenAllRestartsAreUsed) {
  const auto result = watch("1", std::string(kCount) + "kill -9 $$");
  EXPECT_EQ(result.exit, 128 + SIGKILL);
  EXPECT_EQ(lines(testing::read_file(directory.path() + "/starts")), 2);
  EXPECT_THAT(result.err, HasSubstr("was ended by signal 9 after "));
  EXPECT_THAT(result.err, HasSubstr("; it is not started again, since --restarts is 1\n"));
}

TEST_F(Restarts, WrongInputIsNotTriedAgain) {
  for (const int exit : {1, 2, 3, 5}) {
    const auto result = watch("3", "exit " + std::to_string(exit));
    EXPECT_EQ(result.exit, exit);
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(Restarts, ASignalIsPassedOnAndEndsTheRestarts) {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    const auto result = watch("3", "trap 'exit 75' USR1; echo ready; while :; do sleep 0.05; done",
                              {.signal = number, .signal_on = "ready"});
    EXPECT_EQ(result.exit, 75) << number << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("started again")));
  }
  const auto between = watch("9", "echo ready; exit 75", {.signal = SIGTERM, .signal_on = "ready\nready\nready\n"});
  EXPECT_EQ(between.exit, 75);
  EXPECT_THAT(between.err, Not(HasSubstr("9 of 9")));
}

TEST_F(Restarts, TheVariableOfRestartsIsNotPassedToTheCommand) {
  const auto result =
      run({"train", "--", "sh", "-c", "echo ${XRUN_RESTARTS-none}"}, {.environment = {{"XRUN_RESTARTS", "2"}}});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.out, "none\n");
}

TEST_F(Restarts, WrongCommandLinesAreExplained) {
  const std::string help = "help: write xrun train --restarts 5 -- xrun train ";
  auto result = run({"train", "--restarts", "2"});
  EXPECT_EQ(result.exit, 2);
  EXPECT_EQ(result.err,
            "error: `--restarts` starts the command after `--`, but there is no command\n" + help + "model.xgraph\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "--restarts", "2", "a.xgraph"},
        std::vector<std::string>{"train", "--restarts=2", "a.xgraph", "--", "true"}}) {
    result = run(words);
    EXPECT_EQ(result.exit, 2);
    EXPECT_EQ(result.err, "error: `--restarts` starts the command after `--`, but `a.xgraph` is before `--`\n" + help +
                              "a.xgraph\n");
  }
  result = run({"train", "--restarts", "2", "--", "mpirum", "-n", "4"});
  EXPECT_EQ(result.exit, 2);
  EXPECT_EQ(result.err,
            "error: `mpirum` cannot be started: No such file or directory\nhelp: check that the command after `--` "
            "runs in a shell\n");
  result = run({"train", "--restarts", "-1", "--", "true"});
  EXPECT_EQ(result.exit, 2);
  EXPECT_THAT(result.err, HasSubstr("--restarts"));
}

TEST_F(Restarts, ARunThatIsKilledTwiceEndsWithTheWeightsOfAnUndisturbedRun) {
  directory.write("tiny.xgraph", testing::tiny_model());
  const auto weights = [](const std::string& events) {
    const size_t at = events.rfind("\"weights\":\"");
    return at == std::string::npos ? "" : events.substr(at, 44);
  };
  const auto whole = run({"train", "tiny.xgraph", "--deterministic", "--progress", "json", "-C", "whole"});
  ASSERT_EQ(whole.exit, 0) << whole.err;
  const auto broken =
      watch("2", std::string(kCount) +
                     "n=$(wc -l < starts); train='$XRUN train tiny.xgraph --deterministic --progress json -C broken'; "
                     "case $n in 1) eval $train --steps 17; kill -9 $$;; 2) eval $train --steps 41; exit 75;; esac; "
                     "eval exec $train");
  ASSERT_EQ(broken.exit, 0) << broken.err;
  EXPECT_THAT(broken.err, HasSubstr("restart 2 of 2\n"));
  EXPECT_NE(weights(whole.out), "");
  EXPECT_EQ(weights(broken.out), weights(whole.out));
}

}  // namespace
}  // namespace xrun::cli
