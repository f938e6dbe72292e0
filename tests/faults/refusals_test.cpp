// A system at its limits refuses memory and threads: the command says so in words, exits 4, and loses nothing.
//   XRUN_FAULT_RUNS=N    runs of each test, chosen by a printed seed (60); `all`: every refusal of the first 3,000
//   XRUN_FAULT_SEED=N    another seed
#include <algorithm>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

const Words kTrain{"train", "tiny.xgraph", "--threads", "4", "--devices", "2", "--steps", "20", "--progress", "plain"};
const Words kEval{"eval", "tiny.xgraph", "ckpt/quick", "--threads", "4", "--devices", "2", "--format", "json"};
const Words kPredict{"predict", "tiny.xgraph", "ckpt/quick", "--source", "test", "--rows", "0..4", "--threads", "4"};

class Refusals : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "sanitizers have an allocator of their own";
    }
    directory.write("tiny.xgraph", tiny_model());
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

  // Whatever was refused, the checkpoint of step 10 is there, or that of step 20.
  void expect_nothing_lost(const std::string& refusal) {
    const auto shown = run({"show", "ckpt/quick", "--format", "json"});
    ASSERT_EQ(shown.exit, 0) << refusal << ": " << shown.err;
    EXPECT_THAT(nlohmann::json::parse(shown.out)["step"].get<int>(), AnyOf(10, 20)) << refusal;
    EXPECT_EQ(run(kEval).exit, 0) << refusal;
  }

  TemporaryDirectory directory;
};

// Numbers from 1 to `last`: all, or as many as are asked for.
std::vector<long> some_of(long last, ::testing::Test& test) {
  const char* wish = std::getenv("XRUN_FAULT_RUNS");
  const char* chosen = std::getenv("XRUN_FAULT_SEED");
  const auto seed = static_cast<unsigned>(chosen == nullptr ? 12 : std::atol(chosen));
  test.RecordProperty("seed", static_cast<int>(seed));
  std::vector<long> numbers(static_cast<size_t>(last));
  std::iota(numbers.begin(), numbers.end(), 1);
  if (wish != nullptr && std::string_view(wish) == "all") {
    return numbers;
  }
  std::cout << "seed " << seed << "\n";
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937(seed));
  numbers.resize(std::min(numbers.size(), static_cast<size_t>(wish == nullptr ? 60 : std::atol(wish))));
  return numbers;
}

TEST_F(Refusals, AThreadThatIsRefusedEndsTheCommandInWords) {
  for (const Words& words : {kTrain, kEval, kPredict}) {
    for (const char* which : {"thread:", "threads:"}) {
      bool refused = true;
      for (int number = 1; number <= 24 && refused; ++number) {
        const std::string refusal = which + std::to_string(number);
        const auto result = run(words, refusal);
        refused = result.exit != 0;
        ASSERT_FALSE(result.timed_out) << words[0] << " " << refusal;
        if (refused) {
          ASSERT_EQ(result.exit, 4) << words[0] << " " << refusal << ": " << result.err;
          ASSERT_THAT(result.err, HasSubstr("error[XG0803]: the system lets this process start ")) << refusal;
        }
      }
      EXPECT_FALSE(refused) << "a command of four threads starts fewer than 24";
    }
  }
  expect_nothing_lost("threads");
}

TEST_F(Refusals, TheNumberOfThreadsThatTheSystemGaveIsSaid) {
  const auto result = run(kTrain, "threads:5");  // two of the command, then those of the plan
  EXPECT_THAT(result.err, HasSubstr("start 2 of the 4 threads that the plan needs"));
  EXPECT_THAT(result.err, HasSubstr("--threads 2"));
}

TEST_F(Refusals, MemoryThatIsRefusedEndsTheCommandInWords) {
  ASSERT_EQ(run(kEval, "none", "counts").exit, 0);
  const long all = std::stol(read_file(directory.path() + "/counts"));
  ASSERT_GT(all, 3000);
  for (const long number : some_of(3000, *this)) {
    const std::string refusal = "malloc:" + std::to_string(number);
    const auto result = run(kTrain, refusal);
    ASSERT_FALSE(result.timed_out) << refusal;
    ASSERT_THAT(result.exit, AnyOf(0, 4)) << refusal << ": " << result.err;
    if (result.exit == 4) {
      std::string words = result.err;  // libgomp writes its own
      std::ranges::transform(words, words.begin(), [](unsigned char c) { return std::tolower(c); });
      ASSERT_THAT(words, HasSubstr("out of memory")) << refusal;
    }
    if (number % 16 == 0) {
      expect_nothing_lost(refusal);
    }
  }
  expect_nothing_lost("memory");
}

// Later ones, in the midst of training.
TEST_F(Refusals, MemoryThatIsRefusedInAStepLosesNothing) {
  ASSERT_EQ(run(kTrain, "none", "counts").exit, 0);
  const long all = std::stol(read_file(directory.path() + "/counts"));
  std::vector<long> numbers = some_of(all, *this);
  numbers.resize(std::min<size_t>(numbers.size(), 3000));
  for (const long number : numbers) {
    const std::string refusal = "malloc:" + std::to_string(number);
    const auto result = run(kTrain, refusal);
    ASSERT_FALSE(result.timed_out) << refusal;
    ASSERT_THAT(result.exit, AnyOf(0, 4)) << refusal << ": " << result.err;
  }
  expect_nothing_lost("memory");
}

}  // namespace
}  // namespace xrun::testing
