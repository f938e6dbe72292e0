// Runs of three processes in which a call of one rank never returns: reading data, saving, a kernel, or a call of MPI.
// The process still lives and sends heartbeats. The other ranks name it and the work it hangs in, and end. The run
// resumes from the last checkpoint.
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

#include "tests/fault_injection/runs.h"
#include "tests/fault_injection/tiny_runs.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kMpirun = "/usr/bin/mpirun";

// A grey PNG of 2 x 2 pixels.
constexpr unsigned char kPng[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00,
    0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x00, 0x00, 0x00, 0x57, 0xdd, 0x52, 0xf8, 0x00, 0x00, 0x00,
    0x0e, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x48, 0x31, 0x62, 0x48, 0x31, 0x02, 0x00, 0x03, 0xbc, 0x01,
    0x2d, 0x25, 0xbb, 0x81, 0xe9, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

class HungRanks : public TinyRuns {
 protected:
  void SetUp() override {
    if (!fs::exists(kMpirun) || !fs::exists(fs::path(XRUN_BINARY_DIR) / "libxrun_mpi.so")) {
      GTEST_SKIP() << "no " << kMpirun << " (openmpi-bin), or no MPI in this build: no rank hangs";
    }
    if (kSanitized) {
      GTEST_SKIP() << "a sanitizer must be loaded first: no call hangs";
    }
    for (int i = 0; i < 48; ++i) {
      directory.write(fmt::format("train/{}/{}.png", i % 2 == 0 ? "a" : "b", i),
                      {reinterpret_cast<const char*>(kPng), sizeof kPng});
    }
    directory.write("m.xgraph", R"(xgraph 1
model m {
  input x: f32[N, 1, 2, 2]
  f = x -> flatten -> linear(8) -> relu -> linear(8)
  output f
  head id = classifier(f, 300)
}
data d {
  source train = folder(["train"])
  x     = file -> decode(2, channels=1) -> scale(1 / 255)
  label = label -> as_index(300)
}
train t {
  batch      = 12
  norm_rows  = 4
  steps      = 3000
  checkpoint { every = 100 steps }
  loss       = softmax_ce(id, label)
  optimizer  = sgd
  lr         = 0.01
}
)");
  }

  // Returns the command that starts all ranks. Once there is a checkpoint, rank `of_rank` hangs in the call `what`; -1:
  // no rank hangs.
  Words command(int of_rank, const std::string& what, int timeout) const {
    const std::string shell = fmt::format(
        "if [ $OMPI_COMM_WORLD_RANK = {} ] && mkdir once 2> /dev/null; then export LD_PRELOAD={} XRUN_HANG={} "
        "XRUN_HANG_AFTER={}/ckpt/t/latest; fi; exec {}/xrun train m.xgraph --devices 3 --deterministic --progress "
        "plain "
        "--set schedule.replicas=3 --set schedule.shard.id.over=3 --step-timeout {}",
        of_rank, XRUN_HANG_LIBRARY, what, directory.path(), XRUN_BINARY_DIR, timeout);
    return {kMpirun, "--oversubscribe", "--bind-to", "none", "-n", "3", "sh", "-c", shell};
  }
  CommandResult run_ranks(Words words, double timeout_s = 60) const {
    CommandOptions options{.directory = directory.path(),
                           .environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}},
                           .timeout_s = timeout_s};
    if (words[0] == kMpirun) {
      options.binary = kMpirun;
      words.erase(words.begin());
    }
    return run_xrun(words, options);
  }
  void clear() {
    fs::remove_all(directory.path() + "/ckpt");
    fs::remove_all(directory.path() + "/once");
  }
};

struct Hang {
  std::string call;
  std::string told;  // regular expression for the work that the error names
};
const Hang kHangs[] = {{"open:train/", "(reading the data of|computing) step [0-9 ]+"},
                       {"sync", "saving the checkpoint"},
                       {"mpi", "a call of MPI"},
                       {"kernel", "computing step [0-9 ]+"}};

TEST_F(HungRanks, AreNamedWithTheWorkInWhichTheyHang) {
  for (const int64_t number : some_of(4, 2 * std::ssize(kHangs))) {
    const Hang& hang = kHangs[(number - 1) / 2];
    const auto rank = static_cast<int>((number - 1) % 2);
    SCOPED_TRACE(hang.call + " of rank " + std::to_string(rank));
    clear();
    const auto result = run_ranks(command(rank, hang.call, 5));
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit, 75) << result.err;
    EXPECT_THAT(result.err, ContainsRegex(fmt::format("error\\[XG0840\\]: rank {} on [^\n]* is lost: {} has not ended "
                                                      "after [5-9]\\.[0-9] s",
                                                      rank, hang.told)));
    EXPECT_THAT(result.err, HasSubstr("help: start the same command again: it continues from ckpt/t/step-000"));
    EXPECT_EQ(result.err.find("error[XG0840]"), result.err.rfind("error[XG0840]")) << result.err;
    // A late save causes no warning, because the run has made only one save before, which is too few to know the usual
    // time.
    if (hang.call != "sync") {
      EXPECT_THAT(result.err, ContainsRegex(fmt::format("warning\\[XG0844\\]: rank {} on [^\n]* holds up the run: {} "
                                                        "has not ended after [3-4]\\.[0-9] s",
                                                        rank, hang.told)));
    }
  }
}

// A message is lost, so all ranks wait for each other and no rank is late. After twice the timeout, one of the ranks is
// named and the run ends.
TEST_F(HungRanks, RanksThatWaitForALostMessageEnd) {
  const auto result = run_ranks(command(1, "lose", 4));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit, 75) << result.err;
  EXPECT_THAT(result.err,
              ContainsRegex("error\\[XG0840\\]: rank [012] on [^\n]* is lost: waiting for messages of other "
                            "ranks has not ended after ([89]|1[0-5])\\.[0-9] s"));
  EXPECT_THAT(result.err, HasSubstr("help: start the same command again: it continues from ckpt/t/step-000"));
}

TEST_F(HungRanks, AreRestartedFromTheLastCheckpoint) {
  const auto whole = run_ranks(command(-1, "none", 5));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  clear();
  Words words{"train", "--restarts", "2", "--"};
  const Words hanging = command(1, "open:train/", 5);
  words.insert(words.end(), hanging.begin(), hanging.end());
  const auto result = run_ranks(words);
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, ContainsRegex("error\\[XG0840\\]: rank 1 on [^\n]* is lost: "));
  EXPECT_THAT(result.err, HasSubstr(" resumed step="));
  EXPECT_EQ(weights_of(result), weights_of(whole));
}

// With the default timeout, a run without faults prints no warning about slow or lost ranks.
TEST_F(HungRanks, ARunWithoutFaultsReportsNoRank) {
  const auto result = run_ranks(command(-1, "none", 600));
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("XG084")));
}

}  // namespace
}  // namespace xrun::testing
