// Every system call of a load with ten steps and a save, and of a plan, fails once with an error that it may return
// (injected by strace). The command either ends as without the fault or reports why it cannot, and the next run resumes
// and ends with the same digest. strace counts the calls of each thread separately, so the n-th call of every thread
// fails.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>

#include "tests/fault_injection/runs.h"
#include "tests/fault_injection/tiny_runs.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* kStrace = "/usr/bin/strace";

// Returns the errors that a call may return to a correct program; empty if it cannot fail then. A futex has no errors
// here: a wake-up that is not done is not a real error of the system, and the threads that wait would wait for ever.
const std::vector<std::string>& errors_of(const std::string& call) {
  static const std::vector<std::string> none;
  static const std::vector<std::string> other{"EIO", "ENOMEM"};
  static const std::set<std::string> never{
      "arch_prctl",      "execve",  "exit",         "exit_group",     "futex",           "getpid",
      "gettid",          "geteuid", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",    "sched_yield",
      "set_robust_list", "rseq",    "uname",        "getuid",         "set_tid_address", "clock_nanosleep",
      "tgkill"};
  static const std::map<std::string, std::vector<std::string>> known{
      {"access", {"EACCES", "EIO"}},
      {"clone3", {"EAGAIN", "ENOMEM"}},
      {"close", {"EIO", "EINTR"}},
      {"eventfd2", {"EMFILE"}},
      {"faccessat2", {"EACCES", "EIO"}},
      {"fcntl", {"EINVAL", "EINTR"}},
      {"flock", {"ENOLCK", "EINTR"}},
      {"fsync", {"EIO", "ENOSPC", "EINTR"}},
      {"ftruncate", {"EIO", "EINTR"}},
      {"getcwd", {"ENOENT"}},
      {"getrandom", {"EAGAIN", "EINTR", "ENOSYS"}},
      {"ioctl", {"ENOTTY", "EIO"}},
      {"kill", {"EPERM"}},
      {"madvise", {"ENOMEM", "EINVAL"}},
      {"mkdir", {"ENOSPC", "EIO", "EACCES"}},
      {"mmap", {"ENOMEM"}},
      {"mprotect", {"ENOMEM"}},
      {"munmap", {"ENOMEM"}},
      {"openat", {"EMFILE", "EIO", "EACCES", "EINTR", "ENFILE"}},
      {"poll", {"EINTR", "ENOMEM"}},
      {"pread64", {"EIO", "EINTR"}},
      {"prlimit64", {"EPERM"}},
      {"read", {"EIO", "EINTR"}},
      {"rename", {"EIO", "ENOSPC"}},
      {"sched_getaffinity", {"ENOSYS", "EPERM"}},
      {"sched_setaffinity", {"EINVAL", "EPERM"}},
      {"write", {"ENOSPC", "EIO", "EINTR"}},
  };
  const auto at = known.find(call);
  return never.contains(call) ? none : at == known.end() ? other : at->second;
}

struct Fault {
  std::string call;
  int number = 0;
  std::string result;
};

// Returns the `inject` arguments of strace. `brk` cannot return an error, so it returns a lower end of the heap than
// the one that was asked for.
std::vector<std::string> results_of(const std::string& call) {
  std::vector<std::string> results;
  for (const std::string& error : errors_of(call)) {
    results.push_back(call == "brk" ? "retval=0" : "error=" + error);
  }
  return results;
}

class SystemCalls : public TinyRuns {
 protected:
  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "sanitizers look at the process as strace does";
    }
    if (!fs::exists(kStrace)) {
      GTEST_SKIP() << "strace is not here: `make deps` installs it";
    }
    TinyRuns::SetUp();
    ASSERT_EQ(run(train_to(5)).exit, 0);
    const auto tried = run_below_strace({"--version"}, {"-o", "/dev/null"});
    if (tried.exit != 0) {
      GTEST_SKIP() << "this system lets nobody trace a process: " << tried.err;
    }
    fs::copy(directory.path() + "/ckpt", directory.path() + "/before", fs::copy_options::recursive);
  }

  // Runs xrun with strace as its grandchild, so that the exit code is that of xrun and a kill ends xrun.
  CommandResult run_below_strace(const Words& words, const Words& options) {
    Words all{"-D", "-f", "-qq", "--seccomp-bpf"};
    all.insert(all.end(), options.begin(), options.end());
    all.push_back(std::string(XRUN_BINARY_DIR) + "/xrun");
    all.insert(all.end(), words.begin(), words.end());
    return run_xrun(all, {.binary = kStrace, .directory = directory.path(), .timeout_s = 120});
  }

  // Returns one fault for each call that a thread makes, except the calls up to the first `munmap`. Those belong to the
  // dynamic loader, whose errors are not ours.
  std::vector<Fault> faults_of(const Words& words) {
    begin_again();
    EXPECT_EQ(run_below_strace(words, {"-o", "calls"}).exit, 0);
    std::map<std::pair<int, std::string>, int> calls;  // calls by thread and name
    std::map<std::string, int> loaders;
    std::map<std::string, int> most;
    bool is_loaded = false;
    std::istringstream lines(read_file(directory.path() + "/calls"));
    for (std::string line; std::getline(lines, line);) {  // "THREAD CALL(..."
      std::istringstream words_of_line(line);
      int thread = 0;
      std::string call;
      words_of_line >> thread >> call;
      const size_t bracket = call.find('(');
      if (bracket != std::string::npos && bracket > 0) {
        call.resize(bracket);
        most[call] = std::max(most[call], ++calls[{thread, call}]);
        loaders[call] += is_loaded ? 0 : 1;
        is_loaded = is_loaded || call == "munmap";
      }
    }
    std::vector<Fault> faults;
    for (const auto& [call, number] : most) {
      const auto results = results_of(call);
      for (int n = loaders[call] + 1; n <= number && !results.empty(); ++n) {
        faults.push_back({call, n, results[static_cast<size_t>(n) % results.size()]});
      }
    }
    EXPECT_GT(faults.size(), 100u) << "strace has told of no calls";
    return faults;
  }

  // Restores the checkpoint of step 5 and removes the plan.
  void begin_again() {
    for (const char* name : {"/ckpt", "/plan.xplan"}) {
      fs::remove_all(directory.path() + name);
    }
    fs::copy(directory.path() + "/before", directory.path() + "/ckpt", fs::copy_options::recursive);
  }

  // Runs the command once for each chosen fault. If the command succeeds, `whole` checks its results.
  void try_all(const Words& words, int64_t few, const std::function<void(const CommandResult&)>& whole,
               const std::function<void()>& afterwards) {
    const std::vector<Fault> faults = faults_of(words);
    int said = 0;
    const auto numbers = some_of(few, static_cast<int64_t>(faults.size()));
    for (const int64_t number : numbers) {
      const Fault& fault = faults[static_cast<size_t>(number - 1)];
      SCOPED_TRACE(fault.call + " " + std::to_string(fault.number) + ": " + fault.result);
      begin_again();
      const auto result = run_below_strace(
          words, {"-o", "/dev/null", "-e", "trace=" + fault.call, "-e",
                  "inject=" + fault.call + ":" + fault.result + ":when=" + std::to_string(fault.number)});
      EXPECT_FALSE(result.timed_out);
      if (result.exit == 0) {
        whole(result);
      } else {
        ++said;
        expect_said(result);
      }
      afterwards();
    }
    std::cout << words[0] << ": " << numbers.size() << " of " << faults.size() << " calls failed, and " << said
              << " of these ended the command\n";
  }
};

TEST_F(SystemCalls, AFailureInTrainingLosesNothing) {
  const std::string weights = weights_of(run(train_to(15)));
  ASSERT_NE(weights, "");
  // If the failing call writes the last line to stderr, the weights are not printed, so only the next run is compared.
  try_all(
      train_to(15), 20, [&](const CommandResult& result) { EXPECT_THAT(weights_of(result), AnyOf(weights, "")); },
      [&] {
        const auto again = run(train_to(15));
        EXPECT_EQ(again.exit, 0) << again.err;
        EXPECT_EQ(weights_of(again), weights);
      });
}

TEST_F(SystemCalls, AFailureInPlanningLeavesAWholePlanOrNoPlan) {
  const Words words{"plan", "tiny.xgraph", "--threads", "2", "--devices", "2", "-o", "plan.xplan"};
  ASSERT_EQ(run(words).exit, 0);
  const std::string path = directory.path() + "/plan.xplan";
  const std::string plan = read_file(path);
  ASSERT_NE(plan, "");
  try_all(
      words, 20, [&](const CommandResult&) { EXPECT_TRUE(fs::exists(path)); },
      [&] {
        if (fs::exists(path)) {
          EXPECT_EQ(run({"show", "plan.xplan"}).exit, 0);
        }
      });
}

}  // namespace
}  // namespace xrun::testing
