// Runs of several processes under Slurm, with srun and in batch jobs: the weights of one process and of mpirun, errors
// if ranks cannot find each other, restarts, and stops.
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "tests/support/command.h"
#include "tests/support/hosts/launchers.h"
#include "tests/support/hosts/slurm_host.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

const std::string kXrun = std::string(XRUN_BINARY_DIR) + "/xrun";

class SlurmCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { slurm = std::make_unique<SlurmHost>(); }
  static void TearDownTestSuite() { slurm.reset(); }
  void SetUp() override {
    if (!slurm->missing().empty()) {
      GTEST_SKIP() << slurm->missing() << ": Slurm is not tested";
    }
    if (const std::string missing = slurm->srun("pmix").missing(); !missing.empty()) {
      GTEST_SKIP() << missing << ": Slurm is not tested";
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
  static std::string line_of(const Words& words) { return fmt::format("{} {}", kXrun, fmt::join(words, " ")); }
  CommandResult one(const Words& words) const { return run_xrun(words, {.directory = directory.path()}); }
  CommandResult ranks(const std::string& mpi, int count, Words words) const {
    words.insert(words.begin(), kXrun);
    return slurm->srun(mpi).run(count, words, {.directory = directory.path()});
  }
  // Runs the command under --restarts. In the first start, `rank` runs `what` in addition to its training.
  CommandResult restarts(int rank, const std::string& what, const Words& words, CommandOptions options = {}) const {
    const Launcher launcher = slurm->srun("pmix");
    const std::string script = fmt::format("if [ ${} = {} ] && mkdir once 2> /dev/null; then ({}) & fi; exec {}",
                                           launcher.rank, rank, what, line_of(words));
    Words all{"train", "--restarts", "2", "--"};
    const Words command = launcher.words_for(4, {"sh", "-c", script});
    all.insert(all.end(), command.begin(), command.end());
    options.directory = directory.path();
    options.environment = launcher.environment;
    return run_xrun(all, options);
  }
  // Returns the digest in the line "... end step=60 loss=... weights=5a0c34dd937e611dd456f94232646ce6 seconds=0.4
  // exit=0".
  static std::string weights_of(const std::string& said) {
    const size_t at = said.rfind(" weights=");
    return at == std::string::npos ? "none" : said.substr(at, said.find(' ', at + 1) - at);
  }
  static int64_t errors_in(const CommandResult& result) {
    int64_t found = 0;
    for (size_t at = result.err.find("error["); at != std::string::npos; at = result.err.find("error[", at + 1)) {
      ++found;
    }
    return found;
  }

  static inline std::unique_ptr<SlurmHost> slurm;
  TemporaryDirectory directory;
};

TEST_F(SlurmCommand, RanksHaveTheWeightsOfOneProcessAndOfMpirun) {
  const auto whole = one(train("one"));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  for (const std::string mpi : {"pmix", "pmi2"}) {
    if (slurm->srun(mpi).missing().empty()) {
      const auto result = ranks(mpi, 4, train(mpi));
      ASSERT_EQ(result.exit, 0) << result.err;
      EXPECT_THAT(result.err, HasSubstr("all 4 ranks up"));
      EXPECT_EQ(weights_of(result.err), weights_of(whole.err)) << mpi;
    }
  }
  // In a batch job, srun and mpirun get the number of tasks from Slurm.
  directory.write("job.sh", fmt::format("#!/bin/sh\nsrun --mpi=pmix {}; mpirun --bind-to none {}; touch done\n",
                                        line_of(train("batch")), line_of(train("mpirun"))));
  const auto job = slurm->run("sbatch", {"-n", "4", "-o", "job.out", "job.sh"},
                              {.directory = directory.path(), .environment = open_mpi().environment});
  ASSERT_EQ(job.exit, 0) << job.err;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(directory.path() + "/done") && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string said = read_file(directory.path() + "/job.out");
  const size_t second = said.rfind(" start ");
  ASSERT_NE(second, std::string::npos) << said;
  EXPECT_EQ(weights_of(said.substr(0, second)), weights_of(whole.err)) << said;
  EXPECT_EQ(weights_of(said.substr(second)), weights_of(whole.err)) << said;
}

TEST_F(SlurmCommand, LaunchesThatCannotRunAreReportedOnce) {
  const auto alone = ranks("none", 4, train("none"));
  EXPECT_FALSE(alone.timed_out);
  EXPECT_EQ(alone.exit, 2) << alone.err;
  EXPECT_EQ(errors_in(alone), 1) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("error[XG0832]: Slurm started 4 processes that cannot find each other"));
  EXPECT_THAT(alone.err, HasSubstr("srun --mpi=pmix"));
  const auto many = ranks("pmix", 3, {"train", "tiny.xgraph", "--devices", "2"});
  EXPECT_EQ(many.exit, 2) << many.err;
  EXPECT_EQ(errors_in(many), 1) << many.err;
  EXPECT_EQ(ranks("none", 1, train("single")).exit, 0);
}

TEST_F(SlurmCommand, AKilledRankCostsTheStepsSinceTheLastCheckpoint) {
  const Words often{"--set", "train.checkpoint.every=10 steps"};
  Words quoted = often;
  quoted[1] = "'" + often[1] + "'";
  const auto whole = one(train("whole", often));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  for (const int rank : {0, 3}) {
    const std::string to = fmt::format("killed{}", rank);
    const auto result =
        restarts(rank, fmt::format("until [ -e {}/ckpt/quick/latest ]; do sleep 0.01; done; kill -KILL $$", to),
                 train(to, quoted));
    EXPECT_FALSE(result.timed_out);
    ASSERT_EQ(result.exit, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("it is started again, restart 1 of 2"));
    EXPECT_THAT(result.err, Not(HasSubstr("2 of 2")));
    EXPECT_EQ(weights_of(result.err), weights_of(whole.err)) << rank;
    std::filesystem::remove(directory.path() + "/once");
  }
}

TEST_F(SlurmCommand, AStopRequestEndsAllWithACheckpoint) {
  const Words endless{"--set", "train.epochs=100000"};
  const auto expect_stopped = [](const CommandResult& result) {
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit, 75) << result.err;
    EXPECT_THAT(result.err, HasSubstr("exit=75"));
    EXPECT_THAT(result.err, Not(HasSubstr("error[")));
  };
  expect_stopped(restarts(0, "true", train("watched", endless), {.signal = SIGTERM, .signal_on = "step=20 "}));
  // Cancels the whole job, or signals the processes of one step; a rank prints the number of its job.
  for (const std::string words : {"$SLURM_JOB_ID", "--signal=TERM $SLURM_JOB_ID.0"}) {
    const std::string to = fmt::format("cancelled{}", words.size());
    const std::string cancel = fmt::format(
        "if [ $SLURM_PROCID = 0 ]; then (until [ -e {}/ckpt/quick/latest ]; do sleep 0.01; done; scancel {}) "
        "& fi; exec {}",
        to, words, line_of(train(to, endless)));
    const auto result = slurm->srun("pmix").run(4, {"sh", "-c", cancel}, {.directory = directory.path()});
    expect_stopped(result);
  }
}

}  // namespace
}  // namespace xrun::testing
