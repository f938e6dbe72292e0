// Runs on GPUs: training, evaluation, prediction, continued runs, and errors of the driver. The driver is that of
// tests/support/cuda.
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Environment = std::vector<std::pair<std::string, std::string>>;

// A tiny model without dropout and with few steps, since the fake driver executes each kernel on a processor.
std::string small_model() {
  std::string text = tiny_model();
  text.replace(text.find("640)"), 4, "128)");
  text.replace(text.find("500, seed"), 3, "40");
  return text;
}

class GpuRuns : public ::testing::Test {
 protected:
  GpuRuns() { at.write("m.xgraph", small_model()); }

  CommandResult run(const std::vector<std::string>& words, Environment environment = {}) const {
    environment.emplace_back("LD_LIBRARY_PATH", XRUN_BINARY_DIR "/fake_cuda");
    return run_xrun(words, {.directory = at.path(), .environment = environment, .timeout_s = 300});
  }
  // Trains up to a step, and returns the last event.
  nlohmann::json train(const std::string& devices, int steps, std::vector<std::string> flags = {}) const {
    std::vector<std::string> words{"train",     "m.xgraph", "--deterministic", "--progress",         "json",
                                   "--devices", devices,    "--steps",         std::to_string(steps)};
    words.insert(words.end(), flags.begin(), flags.end());
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit, 0) << result.err << result.out;
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("fake driver:"))) << "a fault that only the fake driver sees";
    nlohmann::json last;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      last = nlohmann::json::parse(line);
    }
    EXPECT_EQ(last["t"], "end") << result.out;
    return last;
  }

  TemporaryDirectory at;
};

TEST_F(GpuRuns, AllPlansOfAKindOfGpuHaveOneDigest) {
  const auto one = train("cuda:0", 2);
  EXPECT_EQ(one["step"], 2);
  const auto shared = train("cuda:0,0", 2, {"-C", "shared"});
  EXPECT_EQ(shared["weights"], one["weights"]);
  EXPECT_EQ(shared["loss"], one["loss"]);
  const auto cpu = train("1", 2, {"-C", "cpu"});
  EXPECT_NEAR(cpu["loss"].get<double>(), one["loss"].get<double>(), 1e-4);
}

TEST_F(GpuRuns, ARunGoesOnAGpuAndBack) {
  train("2", 1);
  train("cuda:0", 2);
  const auto last = train("1", 3);
  EXPECT_EQ(last["step"], 3);
  const auto whole = train("1", 3, {"-C", "cpu"});
  EXPECT_NEAR(last["loss"].get<double>(), whole["loss"].get<double>(), 1e-3);
}

TEST_F(GpuRuns, EvalAndPredictHaveTheResultsOfProcessors) {
  train("1", 2);
  const auto eval = [&](const std::string& devices) {
    const CommandResult result =
        run({"eval", "m.xgraph", "ckpt/quick/latest", "--format", "json", "--devices", devices});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(eval("cuda:0"), eval("1"));
  EXPECT_EQ(eval("cuda:0,0"), eval("1"));
  const auto predict = [&](const std::string& devices) {
    const CommandResult result = run(
        {"predict", "ckpt/quick/latest", "--source", "test", "--rows", "0..4", "--topk", "1", "--devices", devices});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(predict("cuda:0"), predict("1"));
}

TEST_F(GpuRuns, AnErrorOfTheDriverNamesTheLastCheckpoint) {
  train("cuda:0", 1);
  const std::vector<std::string> words{"train", "m.xgraph", "--deterministic", "--devices", "cuda:0", "--steps", "3"};
  // CUDA_ERROR_ILLEGAL_ADDRESS in a launch of the second step.
  const CommandResult failed = run(words, {{"FAKE_CUDA_ERRORS", "cuLaunchKernel:40:700"}});
  EXPECT_EQ(failed.exit, 4) << failed.err;
  EXPECT_THAT(failed.err, AllOf(HasSubstr("error[XG0856]: `"), HasSubstr(" on device 0: cuda:0: "),
                                HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS, 700"),
                                HasSubstr("the last checkpoint is ckpt/quick/step-000001: the same command continues "
                                          "from it")));
  const CommandResult again = run(words);
  EXPECT_EQ(again.exit, 0) << again.err;
}

}  // namespace
}  // namespace xrun::testing
