// Compares the memory of the process with the plan (docs/internals/memory.md, "How it is checked"). The mapped memory
// must equal the plan. The peak of a run may exceed the arenas and the memory before them only by what the document
// lists as outside the plan: code, compiled primitives, stacks, and internal data of libraries.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/device/host.h"
#include "tests/runtime/data/data_support.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using Json = nlohmann::json;

constexpr Bytes kOutOfThePlan = 150 * kMiB;

struct Measured {
  Bytes planned = 0;     // all arenas of training, as `xrun plan` prints them
  Bytes evaluation = 0;  // all arenas of evaluation
  Bytes readers = 0;     // largest memory that data readers hold
  double worst_gap = 0;
  Bytes mapped = 0;
  Bytes before = 0;  // peak of the process before the first arena was mapped
  Bytes peak = 0;

  std::string text() const {
    const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); };
    return fmt::format("planned {:.1f} MiB, mapped {:.1f}, peak {:.1f}, before {:.1f}, the rest {:.1f}", mib(planned),
                       mib(mapped), mib(peak), mib(before), mib(peak - before - mapped));
  }
};

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers hold memory of their own";
#endif
  }

  // Plans `file` with `settings`, trains `steps` steps of the plan, and compares. Skips the test if the data is absent.
  void measure(const std::string& file, const std::vector<std::string>& settings, int steps, Measured& measured) {
    CommandOptions options{.directory = directory.path(), .timeout_s = 600};
    // Uses the machine's cache of drawn glyphs, so that they need not be drawn again.
    if (const char* home = std::getenv("HOME"); home != nullptr && std::getenv("XDG_CACHE_HOME") == nullptr) {
      options.environment.emplace_back("XDG_CACHE_HOME", std::string(home) + "/.cache");
    }
    std::vector<std::string> words{"plan", file, "-o", "run.xplan", "--format", "json"};
    words.insert(words.end(), settings.begin(), settings.end());
    const CommandResult plan = run_xrun(words, options);
    ASSERT_EQ(plan.exit, 0) << plan.err;
    const Json page = Json::parse(plan.out);
    const Json& run = page.at("run_memory");
    measured.evaluation = run.at("evaluation").get<Bytes>();
    measured.readers = run.at("readers").get<Bytes>();
    ASSERT_EQ(run.at("sum").get<Bytes>(), run.at("training").get<Bytes>() + measured.evaluation + measured.readers +
                                              run.at("decoding").get<Bytes>());
    for (const Json& device : page.at("memory")) {
      const auto arena = device.at("arena").get<Bytes>();
      const auto live = device.at("live_max").get<Bytes>();
      measured.planned += arena;
      measured.worst_gap =
          std::max(measured.worst_gap, live == 0 ? 0.0 : static_cast<double>(arena) / static_cast<double>(live) - 1);
    }
    ASSERT_EQ(measured.planned, run.at("training").get<Bytes>());
    const CommandResult train =
        run_xrun({"train", "run.xplan", "--steps", std::to_string(steps), "--progress", "json"}, options);
    if (train.err.find("XG0411") != std::string::npos || train.err.find("XG0401") != std::string::npos) {
      GTEST_SKIP() << train.err;
    }
    ASSERT_EQ(train.exit, 0) << train.err;
    const Json end = Json::parse(train.out.substr(train.out.rfind('\n', train.out.size() - 2) + 1));
    ASSERT_EQ(end.at("t"), "end");
    measured.mapped = end.at("arenas").get<Bytes>();
    measured.before = end.at("peak_before_arenas").get<Bytes>();
    measured.peak = end.at("peak_resident").get<Bytes>();
    std::filesystem::remove_all(directory.path() + "/ckpt");
  }

  void expect_planned(const std::string& file, const std::vector<std::string>& settings, int steps = 3) {
    Measured measured;
    expect_planned(file, settings, steps, measured);
  }

  // `gap`: the most by which an arena may exceed the largest sum of its live buffers, as a part of that sum.
  void expect_planned(const std::string& file, const std::vector<std::string>& settings, int steps, Measured& measured,
                      double gap = 0.02) {
    measure(file, settings, steps, measured);
    if (HasFatalFailure() || IsSkipped()) {
      return;
    }
    RecordProperty("memory", measured.text());
    EXPECT_EQ(measured.mapped, measured.planned);
    EXPECT_LE(measured.worst_gap, gap) << "arenas against the largest sum of live buffers";
    EXPECT_LE(measured.peak - measured.before - measured.mapped, kOutOfThePlan) << measured.text();
    // The plan must not count memory that is never used.
    EXPECT_GE(measured.peak - measured.before, measured.mapped - measured.mapped / 10 - 4 * kMiB) << measured.text();
  }

  static std::string model(const std::string& name) {
    return std::string(XRUN_SOURCE_DIR) + "/models/" + name + ".xgraph";
  }

  TemporaryDirectory directory;
};

// Returns a table for the model of digits.
std::string digits_csv() {
  std::ostringstream rows;
  for (int row = 0; row < 1797; ++row) {
    for (int column = 0; column < 64; ++column) {
      rows << (row * 7 + column * 3) % 17 << ',';
    }
    rows << row % 10 << '\n';
  }
  return rows.str();
}

TEST_F(Memory, MatchesThePlanForDigits) {
  directory.write("digits.csv", digits_csv());
  expect_planned(directory.write("digits.xgraph", read_file(model("digits"))), {});
}

TEST_F(Memory, ARunWithEvaluationsAlsoMapsTheirArenas) {
  directory.write("digits.csv", digits_csv());
  const std::string file = directory.write("digits.xgraph", read_file(model("digits")));
  Measured measured;
  measure(file, {"--set", "train.epochs=1"}, 1000, measured);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_GT(measured.evaluation, 0);
  EXPECT_EQ(measured.mapped, measured.planned + measured.evaluation);
}

TEST_F(Memory, MatchesThePlanForMnist) {
  const std::string root = runtime::testing::shared_data("mnist").string();
  if (root.empty()) {
    GTEST_SKIP() << "no MNIST here";
  }
  expect_planned(model("mnist"), {"--set", "root=\"" + root + "\""});
  expect_planned(model("mnist"),
                 {"--set", "root=\"" + root + "\"", "--devices", "4", "--set", "schedule.stages=4", "--set",
                  "schedule.micro_batches=4", "--set", "schedule.recompute=all", "--set", "schedule.pipeline=gpipe"});
}

// Values that the first part of a split pass leaves for the second one lie between buffers that live longer, so gaps
// are larger.
TEST_F(Memory, MatchesThePlanOfSplitPasses) {
  const std::string root = runtime::testing::shared_data("mnist").string();
  if (root.empty()) {
    GTEST_SKIP() << "no MNIST here";
  }
  Measured measured;
  expect_planned(
      model("mnist"),
      {"--set", "root=\"" + root + "\"", "--devices", "4", "--set", "schedule.stages=4", "--set",
       "schedule.micro_batches=4", "--set", "schedule.recompute=all", "--set", "schedule.pipeline=zero_bubble"},
      3, measured, 0.04);
}

TEST_F(Memory, MatchesThePlanForOmniglot) {
  const std::string root = runtime::testing::shared_data("omniglot").string();
  if (root.empty()) {
    GTEST_SKIP() << "no Omniglot here";
  }
  expect_planned(model("omniglot"), {"--set", "root=\"" + root + "\"", "--devices", "2", "--set", "schedule.stages=2"});
}

TEST_F(Memory, MatchesThePlanForGlyphsAndTheirReaders) {
  Measured measured;
  expect_planned(model("glyphs"), {}, 3, measured);
  if (HasFatalFailure() || IsSkipped()) {
    return;
  }
  EXPECT_GT(measured.readers, 0);
  EXPECT_LE(measured.before, measured.readers + kOutOfThePlan) << measured.text();
}

TEST_F(Memory, MatchesThePlanForSynthetic) {
  expect_planned(model("synthetic"), {"--set", "classes=20k", "--devices", "2"});
}

// The bound is explained in docs/internals/memory.md, "A million classes". Plain SGD has no optimizer state, so that
// 2.0 GB of class weights are enough for the test.
TEST_F(Memory, AMillionClassesNeedAtMost64MiBBeyondWeightsAndState) {
  if (std::getenv("XRUN_ALL_PLANS") == nullptr) {
    GTEST_SKIP() << "half a minute and 2 GiB: set XRUN_ALL_PLANS=1 (make test-plans)";
  }
  if (runtime::detect_host().memory_free < 3 * kGiB) {
    GTEST_SKIP() << "less than 3 GiB of free memory";
  }
  Measured measured;
  // With more memory, the plan would use it to keep logits.
  measure(model("synthetic"), {"--set", "train.optimizer=sgd(momentum=0)", "--set", "schedule.memory_limit=1008MiB"}, 2,
          measured);
  if (HasFatalFailure() || IsSkipped()) {
    return;
  }
  RecordProperty("memory", measured.text());
  EXPECT_EQ(measured.mapped, measured.planned);
  EXPECT_EQ(measured.evaluation + measured.readers, 0) << "there is a source to train on, and it is synthetic";
  constexpr Bytes kWeights = (1'000'000 * 512 + 512 * 512 + 2 * 512) * Bytes{4};
  EXPECT_LE(measured.planned - kWeights, 64 * kMiB);
  EXPECT_LE(measured.peak - measured.before - kWeights, 64 * kMiB) << measured.text();
}

}  // namespace
}  // namespace xrun::testing
