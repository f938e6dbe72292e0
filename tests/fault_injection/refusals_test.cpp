// A system at its limits refuses memory or threads. The command reports it in a message, exits with code 4, and loses
// nothing.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>

#include "tests/fault_injection/runs.h"
#include "tests/fault_injection/tiny_runs.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const Words kTrain{"train", "tiny.xgraph", "--threads", "4", "--devices", "2", "--steps", "20", "--progress", "plain"};
const Words kEval{"eval", "tiny.xgraph", "ckpt/quick", "--threads", "4", "--devices", "2", "--format", "json"};
const Words kPredict{"predict", "tiny.xgraph", "ckpt/quick", "--source", "test", "--rows", "0..4", "--threads", "4"};

class Refusals : public TinyRuns {
 protected:
  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "sanitizers have an allocator of their own";
    }
    TinyRuns::SetUp();
    Words words = kTrain;
    *std::ranges::find(words, "20") = "10";
    ASSERT_EQ(run(words).exit, 0);
  }

  CommandResult run(const Words& words, const std::string& refusal = "", const std::string& counts = "") {
    CommandOptions options{.directory = directory.path(), .timeout_s = 60};
    if (!refusal.empty()) {
      options.environment = {{"LD_PRELOAD", XRUN_REFUSE_LIBRARY}, {"XRUN_REFUSE", refusal}};
    }
    if (!counts.empty()) {
      options.environment.emplace_back("XRUN_REFUSE_COUNTS", directory.path() + "/" + counts);
    }
    return run_xrun(words, options);
  }

  // Expects that the checkpoint of step 10 or of step 20 is still there and can be evaluated.
  void expect_nothing_lost(const std::string& refusal) {
    const auto shown = run({"show", "ckpt/quick", "--format", "json"});
    ASSERT_EQ(shown.exit, 0) << refusal << ": " << shown.err;
    EXPECT_THAT(nlohmann::json::parse(shown.out)["step"].get<int>(), AnyOf(10, 20)) << refusal;
    EXPECT_EQ(run(kEval).exit, 0) << refusal;
  }

  // Runs xrun from a shell that first runs `limit`, in which `$1` is `first`.
  CommandResult run_limited(const std::string& limit, const std::string& first, const Words& words) {
    Words all{"-c", limit + " && shift && exec \"$@\"", "sh", first, std::string(XRUN_BINARY_DIR) + "/xrun"};
    all.insert(all.end(), words.begin(), words.end());
    return run_xrun(all, {.binary = "/bin/sh", .directory = directory.path(), .timeout_s = 60});
  }
};

TEST_F(Refusals, ARefusedThreadEndsTheCommandWithAMessage) {
  for (const Words& words : {kTrain, kEval, kPredict}) {
    for (const char* which : {"thread:", "threads:"}) {
      // The search for a plan works without the thread that reports its progress, so one refusal may have no effect.
      int without_effect = 0;
      for (int number = 1; number <= 24 && without_effect < 2; ++number) {
        const std::string refusal = which + std::to_string(number);
        const auto result = run(words, refusal);
        const bool refused = result.exit != 0;
        without_effect += refused ? 0 : 1;
        ASSERT_FALSE(result.timed_out) << words[0] << " " << refusal;
        if (refused) {
          ASSERT_EQ(result.exit, 4) << words[0] << " " << refusal << ": " << result.err;
          ASSERT_THAT(result.err, HasSubstr("error[XG0803]: the system lets this process start ")) << refusal;
        }
      }
      EXPECT_EQ(without_effect, 2) << "a command of four threads starts fewer than 24";
    }
  }
  expect_nothing_lost("threads");
}

TEST_F(Refusals, MessagesGiveTheNumberOfStartedThreads) {
  const auto result = run(kTrain, "threads:6");  // three threads of the command, then those of the plan
  EXPECT_THAT(result.err, HasSubstr("start 2 of the 8 threads that the plan needs"));
  EXPECT_THAT(result.err, HasSubstr("--threads 1"));
}

// In a few of a hundred runs, TBB starts a fifth thread when work moves from a device to the data reader. When that
// thread was refused, the command waited for ever or crashed.
TEST_F(Refusals, AllThreadsOfARunAreStartedBeforeItsFirstStep) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Words words = kTrain;
    *std::ranges::find(words, "20") = std::to_string(12 + 2 * attempt);
    const auto result = run(words, "threads:20");  // three threads of the command, and twice the eight of the plan
    ASSERT_FALSE(result.timed_out) << result.err;
    ASSERT_EQ(result.exit, 0) << result.err;
  }
}

// `ulimit -v` in steps of 16 MiB up to 4 GiB: thread stacks, buffers or libraries do not fit.
TEST_F(Refusals, ATooSmallAddressSpaceEndsTheCommandWithAMessage) {
  int whole = 0;
  for (const int64_t size : some_of(12, 256)) {
    for (const Words& words : {kTrain, kEval}) {
      const auto result = run_limited("ulimit -v $1", std::to_string(size * 16 * 1024), words);
      SCOPED_TRACE(words[0] + " in " + std::to_string(size * 16) + " MiB");
      ASSERT_FALSE(result.timed_out);
      whole += result.exit == 0 ? 1 : 0;
      if (result.exit != 0) {
        expect_said(result);
      }
    }
  }
  EXPECT_GT(whole, 0);
  expect_nothing_lost("address space");
}

// A control group of the kernel with `pids.max`. It can be made only if the file system of control groups is writable.
class ThreadGroup {
 public:
  ThreadGroup() {
    for (const char* parent : {"/sys/fs/cgroup/pids", "/sys/fs/cgroup"}) {
      std::error_code error;
      const std::string path = std::string(parent) + "/xrun-faults-" + std::to_string(::getpid());
      if (!fs::create_directory(path, error)) {
        continue;
      }
      if (fs::exists(path + "/pids.max", error)) {
        path_ = path;
        return;
      }
      fs::remove(path, error);
    }
  }
  ~ThreadGroup() {
    std::error_code ignored;
    if (path_) {
      fs::remove(*path_, ignored);
    }
  }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  const std::optional<std::string>& path() const { return path_; }
  bool allow(int threads) const {
    return static_cast<bool>(std::ofstream(*path_ + "/pids.max") << threads << std::flush);
  }

 private:
  std::optional<std::string> path_;
};

TEST_F(Refusals, AControlGroupWithTooFewThreadsEndsTheCommandWithAMessage) {
  const ThreadGroup group;
  if (!group.path()) {
    GTEST_SKIP() << "this system lets nobody make a control group with a limit of threads";
  }
  for (const Words& words : {kTrain, kEval, kPredict}) {
    bool refused = true;
    for (int threads = 1; threads <= 16; ++threads) {
      ASSERT_TRUE(group.allow(threads));
      const auto result = run_limited("echo $$ > \"$1\"", *group.path() + "/cgroup.procs", words);
      SCOPED_TRACE(words[0] + " with " + std::to_string(threads) + " threads");
      ASSERT_FALSE(result.timed_out);
      refused = result.exit != 0;
      if (refused) {
        EXPECT_EQ(result.exit, 4) << result.err;
        EXPECT_THAT(result.err, HasSubstr("error[XG0803]: the system lets this process start "));
      }
    }
    EXPECT_FALSE(refused) << "a command of four threads starts fewer than 16";
  }
  expect_nothing_lost("threads of a group");
}

TEST_F(Refusals, ARefusedAllocationEndsTheCommandWithAMessage) {
  ASSERT_EQ(run(kEval, "none", "counts").exit, 0);
  const long all = std::stol(read_file(directory.path() + "/counts"));
  ASSERT_GT(all, 3000);
  for (const int64_t number : some_of(60, 3000)) {
    const std::string refusal = "malloc:" + std::to_string(number);
    const auto result = run(kTrain, refusal);
    ASSERT_FALSE(result.timed_out) << refusal;
    ASSERT_THAT(result.exit, AnyOf(0, 4)) << refusal << ": " << result.err;
    if (result.exit == 4) {
      ASSERT_THAT(lower(result.err), HasSubstr("out of memory")) << refusal;
    }
    if (number % 16 == 0) {
      expect_nothing_lost(refusal);
    }
  }
  expect_nothing_lost("memory");
}

// Refuses later allocations, which are made during training.
TEST_F(Refusals, ARefusedAllocationInAStepLosesNoCheckpoint) {
  ASSERT_EQ(run(kTrain, "none", "counts").exit, 0);
  const long all = std::stol(read_file(directory.path() + "/counts"));
  std::vector<int64_t> numbers = some_of(60, all);
  numbers.resize(std::min<size_t>(numbers.size(), 3000));
  for (const int64_t number : numbers) {
    const std::string refusal = "malloc:" + std::to_string(number);
    const auto result = run(kTrain, refusal);
    ASSERT_FALSE(result.timed_out) << refusal;
    ASSERT_THAT(result.exit, AnyOf(0, 4)) << refusal << ": " << result.err;
  }
  expect_nothing_lost("memory");
}

}  // namespace
}  // namespace xrun::testing
