// A launcher that outlives its ranks is found and killed. No other process is killed.
#include "runtime/cluster/stuck_launcher.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cluster/rank_exits.h"
#include "tests/support/command.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;
using Processes = std::vector<ProcessEntry>;

TEST(StuckLauncher, IsALauncherWhoseRanksHaveAllEnded) {
  const ProcessEntry command{10, 1, "sh"};
  const ProcessEntry launcher{11, 10, "mpirun"};
  const ProcessEntry shell{12, 11, "sh"};
  const ProcessEntry rank{13, 12, "xrun", true};
  StuckLauncher stuck(10, 5);
  EXPECT_EQ(stuck.find({command, launcher}, 0), 0) << "its ranks have not begun";
  EXPECT_EQ(stuck.find({command, launcher}, 100), 0);
  EXPECT_EQ(stuck.find({command, launcher, shell, rank}, 101), 0);
  EXPECT_EQ(stuck.find({command, launcher, shell, rank}, 200), 0);
  EXPECT_EQ(stuck.find({command, launcher}, 204), 0) << "it has some time to end";
  EXPECT_EQ(stuck.find({command, launcher}, 205), 11);
}

TEST(StuckLauncher, IsNotACommandThatContinuesWithoutALauncher) {
  const ProcessEntry command{10, 1, "sh"};
  const ProcessEntry rank{13, 10, "xrun", true};
  StuckLauncher alone(10, 5);
  EXPECT_EQ(alone.find({command, rank}, 0), 0);
  EXPECT_EQ(alone.find({command}, 100), 0) << "a script that goes on after a run of one process";
  StuckLauncher ended(10, 5);
  EXPECT_EQ(ended.find({command, {11, 10, "mpirun"}, {13, 11, "xrun", true}}, 0), 0);
  EXPECT_EQ(ended.find({command}, 1), 0);
  EXPECT_EQ(ended.find({command, {11, 10, "python3"}}, 100), 0) << "another process with the number of the launcher";
}

TEST(StuckLauncher, IsNotFoundWhileItsScriptStillRuns) {
  const ProcessEntry launcher{11, 10, "mpirun"};
  const ProcessEntry script{12, 11, "sh"};
  StuckLauncher stuck(10, 5);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, script, {13, 12, "xrun", true}}, 0), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, script, {14, 12, "python3"}}, 100), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher}, 104), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher}, 105), 11);
}

TEST(StuckLauncher, IsFoundDespiteTheDaemonOfAnUnreachableHost) {
  const ProcessEntry launcher{11, 10, "mpirun"};
  const ProcessEntry agent{12, 11, "ssh"};
  const ProcessEntry daemon{13, 12, "orted"};
  StuckLauncher stuck(10, 5);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, agent, daemon, {14, 13, "xrun", true}}, 0), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, agent, daemon}, 5), 11);
}

TEST(StuckLauncher, IsFoundDespiteTheProxiesOfMpich) {
  const ProcessEntry launcher{11, 10, "mpiexec.hydra"};
  const ProcessEntry proxy{12, 11, "hydra_pmi_proxy"};
  StuckLauncher stuck(10, 5);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, proxy, {13, 12, "xrun", true}}, 0), 0);
  EXPECT_TRUE(stuck.had_ranks());
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, proxy}, 4), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, proxy}, 5), 11) << "its proxy waits for those of other hosts";
}

TEST(StuckLauncher, IsFoundIfItsRanksEndedBetweenTwoLooks) {
  const Processes waiting{{10, 1, "sh"}, {20, 1, "mpirun"}, {11, 10, "mpirun"}};
  StuckLauncher stuck(10, 5);
  EXPECT_EQ(stuck.find(waiting, 0), 0);
  EXPECT_EQ(stuck.find(waiting, 1, true), 0) << "it has some time to end";
  EXPECT_TRUE(stuck.had_ranks());
  EXPECT_EQ(stuck.find(waiting, 6, true), 11) << "and not the one of another run";
}

TEST(StuckLauncher, IsNotFoundWhileARankCannotBeSeen) {
  const Processes waiting{{10, 1, "sh"}, {11, 10, "mpirun"}};
  StuckLauncher stuck(10, 5);
  EXPECT_EQ(stuck.find(waiting, 0, true), 0);
  EXPECT_EQ(stuck.find(waiting, 4, false), 0) << "another one has begun";
  EXPECT_EQ(stuck.find(waiting, 100, false), 0);
  EXPECT_EQ(stuck.find(waiting, 101, true), 0);
  EXPECT_EQ(stuck.find(waiting, 106, true), 11);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, {11, 10, "mpirun"}, {12, 11, "sh"}}, 107, true), 0) << "a script goes on";
}

TEST(StuckLauncher, IsNotFoundIfItsRanksAppearLater) {
  const ProcessEntry launcher{11, 10, "mpirun"};
  StuckLauncher stuck(10, 5);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher}, 0, true), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, {13, 11, "xrun", true}}, 1, true), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher, {13, 11, "xrun", true}}, 100, true), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, launcher}, 104, true), 0);
}

TEST(StuckLauncher, IsNotALauncherOfAnotherRun) {
  const ProcessEntry other{20, 1, "mpirun"};
  const ProcessEntry rank{21, 20, "xrun", true};
  StuckLauncher stuck(10, 5);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, other, rank}, 0), 0);
  EXPECT_EQ(stuck.find({{10, 1, "sh"}, other}, 100), 0);
}

TEST(StuckLauncher, ProcessesOfThisMachineAreListed) {
  const Processes processes = list_processes();
  const auto self = std::ranges::find(processes, ::getpid(), &ProcessEntry::pid);
  ASSERT_NE(self, processes.end());
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_TRUE(self->is_xrun) << "it runs the program of this process";
}

TEST(RankExits, RanksAreGoneWhenAllProcessesThatReportedHaveEnded) {
  const Launch launch{.count = 2, .rank = 0, .mpis = {Mpi::kOpenMpi}};
  RankExits exits;
  const auto report_from_a_child = [&] {
    if (const pid_t child = ::fork(); child == 0) {
      report_begin(launch);
      ::_exit(0);
    } else {
      ::waitpid(child, nullptr, 0);
    }
  };
  const auto append = [](const std::string& line) {
    std::ofstream(std::getenv("XRUN_RANK_EXITS"), std::ios::app) << line << "\n";
  };
  EXPECT_FALSE(exits.all_gone()) << "none has begun";
  report_from_a_child();
  EXPECT_TRUE(exits.all_gone());
  append("75");
  EXPECT_TRUE(exits.all_gone()) << "an exit code is no process";
  report_begin(launch);
  EXPECT_FALSE(exits.all_gone()) << "this process is there";
  EXPECT_EQ(exits.take().begun, 2);
  report_from_a_child();
  append("begin@1@pid:[1]");
  EXPECT_FALSE(exits.all_gone()) << "a process of another machine or container";
  exits.take();
  report_from_a_child();
  report_begin(Launch());
  EXPECT_FALSE(exits.all_gone()) << "a process that no launcher started";
}

// Runs a script in place of a launcher, under --restarts. The script finds xrun in $XRUN.
testing::CommandResult run_restarts(const testing::TemporaryDirectory& directory, const std::string& restarts,
                                    const std::string& script) {
  fs::permissions(script, fs::perms::owner_all);
  testing::CommandOptions options{.directory = directory.path(), .timeout_s = 60};
  options.environment.emplace_back("XRUN", std::string(XRUN_BINARY_DIR) + "/xrun");
  return testing::run_xrun({"train", "--restarts", restarts, "--", script}, options);
}

TEST(StuckLauncher, IsKilledAndTheCommandStartedAgain) {
  const testing::TemporaryDirectory directory;
  const std::string script = directory.write("mpirun",
                                             "#!/bin/sh\n"
                                             "\"$XRUN\" train --restarts 0 -- sleep 3\n"  // stands for a rank
                                             "if [ -e once ]; then exit 0; fi\n"
                                             ": > once\n"
                                             "while :; do sleep 0.2; done\n");
  const auto result = run_restarts(directory, "1", script);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, ::testing::ContainsRegex("note: mpirun \\(process [0-9]+\\) did not end with its ranks"));
  EXPECT_THAT(result.err, ::testing::HasSubstr("was ended by signal 9"));
}

TEST(StuckLauncher, IsKilledEvenIfItsRanksWereNeverSeen) {
  const testing::TemporaryDirectory directory;
  const std::string script =
      directory.write("mpirun",
                      "#!/bin/sh\n"
                      "if [ -e once ]; then exit 0; fi\n"
                      ": > once\n"
                      // The rank reports that it has started and ends, as if it was killed at once.
                      "space=$(cat /proc/sys/kernel/random/boot_id)/$(readlink /proc/self/ns/pid)\n"
                      "sh -c 'echo begin@$$@$0' $space >> $XRUN_RANK_EXITS\n"
                      "mkfifo never; read line < never\n");
  const auto result = run_restarts(directory, "1", script);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, ::testing::HasSubstr("was ended by signal 9"));
}

TEST(StuckLauncher, ALauncherThatHasLostAHostIsStartedAgain) {
  const testing::TemporaryDirectory directory;
  // The first start loses its ranks, the second one cannot start them, and the third one succeeds.
  const std::string script =
      directory.write("mpirun",
                      "#!/bin/sh\n"
                      "echo start >> starts\n"
                      "case $(wc -l < starts) in\n"
                      "  1) echo begin >> $XRUN_RANK_EXITS; \"$XRUN\" train --restarts 0 -- sleep 3; exit 1 ;;\n"
                      "  2) exit 1 ;;\n"
                      "esac\n");
  const auto result = run_restarts(directory, "4", script);
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(testing::read_file(directory.path() + "/starts"), "start\nstart\nstart\n");
  // If no start has had ranks, exit code 1 means wrong input.
  directory.write("starts", "start\n");
  EXPECT_EQ(run_restarts(directory, "4", script).exit, 1);
}

}  // namespace
}  // namespace xrun::cli
