// Runs of one to three processes that save after every step, between steps or in the background. Again and again, one
// of the ranks is killed or frozen at a random time. The other ranks end, and the run resumes from the last checkpoint.
// It must reach the weights of an undisturbed run, which shows that no sample was left out or seen twice.
#include <filesystem>
#include <fmt/format.h>
#include <iostream>

#include "tests/fault_injection/runs.h"
#include "tests/fault_injection/tiny_runs.h"
#include "tests/support/hosts/launchers.h"

namespace xrun::testing {
namespace {

constexpr int64_t kKills = 1000;
constexpr int kSteps = 200;
constexpr int kMostRanks = 3;  // also the number of devices in each run

class RankKills : public TinyRuns {
 protected:
  static Words train(const std::string& checkpoints, bool in_background = false) {
    return {"train",
            "tiny.xgraph",
            "--devices",
            std::to_string(kMostRanks),
            "--deterministic",
            "--set",
            "train.epochs=100",
            "--set",
            "train.checkpoint.every=1 steps",
            "--set",
            std::string("train.checkpoint.async=") + (in_background ? "true" : "false"),
            "--steps",
            std::to_string(kSteps),
            "--progress",
            "plain",
            "-C",
            checkpoints};
  }

  // Runs `count` ranks. `of_rank` is a command of the shell that becomes rank `rank`.
  CommandResult ranks(const Launcher& launcher, int count, const Words& words, int rank,
                      const std::string& of_rank) const {
    std::string command = std::string(XRUN_BINARY_DIR) + "/xrun";
    for (const std::string& word : words) {
      command += " '" + word + "'";
    }
    // Open MPI's mpirun may wait for ever for a rank that was killed while it connected. --restarts kills such a
    // launcher.
    return launcher.run_watched(
        count, {"sh", "-c", fmt::format("if [ ${} = {} ]; then {} fi; exec {}", launcher.rank, rank, of_rank, command)},
        {.directory = directory.path()});
  }

  void kill_ranks(const Launcher& launcher, int64_t kills);
};

void RankKills::kill_ranks(const Launcher& launcher, int64_t kills) {
  if (const std::string missing = launcher.missing(); !missing.empty()) {
    GTEST_SKIP() << missing << ": ranks are not killed";
  }
  const auto unbroken = run(train("unbroken"));
  ASSERT_EQ(unbroken.exit, 0) << unbroken.err;
  const std::string weights = weights_of(unbroken);
  ASSERT_NE(weights, "");
  std::mt19937_64 random(fault_seed());
  int courses = 0;
  int frozen = 0;
  int64_t in_training = 0;
  for (int64_t kill = 0; kill < kills;) {
    const std::string checkpoints = "course" + std::to_string(courses);
    const auto count = static_cast<int>(1 + random() % kMostRanks);
    const auto rank = static_cast<int>(random() % static_cast<uint64_t>(count));
    const bool freeze = random() % 6 == 0;
    // If a rank is frozen before all ranks have started, it is declared lost only after a minute. So freezes begin
    // later.
    const double after = (freeze ? 1 : 0) + static_cast<double>(random() % 1500) / 1000;
    // On a slow machine, all random times may be over before the first save. So the first fault waits for a save.
    const std::string begin = kill == 0
                                  ? fmt::format("until [ -e {}/ckpt/quick/latest ]; do sleep 0.01; done", checkpoints)
                                  : fmt::format("sleep {:.3f}", after);
    // The run may end before the fault happens, which is harmless. A rank that is frozen after the others have ended
    // wakes later, so that mpirun does not wait for it.
    const auto result = ranks(
        launcher, count, train(checkpoints, random() % 2 == 0), rank,
        fmt::format("({}; kill -{} $$; sleep 15; kill -CONT $$) > /dev/null 2>&1 &", begin, freeze ? "STOP" : "KILL"));
    ASSERT_FALSE(result.timed_out) << "rank " << rank << " of " << count << ", " << begin << "\n" << result.err;
    if (result.exit == 0) {
      EXPECT_EQ(weights_of(result), weights);
      std::filesystem::remove_all(directory.path() + "/" + checkpoints);
      ++courses;
      continue;
    }
    ++kill;
    frozen += freeze ? 1 : 0;
    in_training += saved_step(result) > 0 ? 1 : 0;
  }
  const auto last = ranks(launcher, kMostRanks, train("course" + std::to_string(courses)), 0, ":;");
  ASSERT_EQ(last.exit, 0) << last.err;
  EXPECT_EQ(weights_of(last), weights);
  EXPECT_GT(in_training, 0);
  std::cout << kills << " ranks lost, " << frozen << " of them frozen, " << in_training << " while steps were saved; "
            << courses + 1 << " runs went on to their end\n";
}

TEST_F(RankKills, ARunWithKilledRanksEndsWithTheSameWeights) { kill_ranks(open_mpi(), fault_runs(6, kKills)); }

// The launcher of MPICH also kills the other ranks and has its own exit codes.
TEST_F(RankKills, ARunWithKilledRanksEndsWithTheSameWeightsUnderMpich) { kill_ranks(mpich(), fault_runs(3, kKills)); }

}  // namespace
}  // namespace xrun::testing
