// States of blocks in training: the same bits for every plan, values that follow from the data, and evaluations that
// use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

// Features minus their running mean, over the root of their running square; the states of the first block are read
// again behind the second.
constexpr const char* kStates = R"(xgraph 1

block scaled(x: [N, D], keep: float = 0.9) -> [N, D] {
  state center: [D] = 0
  state square: [D] = 1

  center = keep * center + (1 - keep) * batch_mean(x)
  square = keep * square + (1 - keep) * (batch_mean(x ^ 2) - batch_mean(x) ^ 2)
  return (x - center) / sqrt(square + 1e-3)
}

model states {
  input x: f32[N, 12]

  state level: [20] = 0.5

  a       = x -> linear(20) -> scaled -> relu
  level   = max(0.5 * level + 0.5 * batch_mean(a), 0.01)
  b       = a / level -> linear(20) -> relu
  c       = b * level -> linear(20) -> scaled(keep=0.75) -> relu
  feature = c -> linear(16) -> bn
  output feature

  head id = cosine_classifier(feature, 37)
}

data made {
  source train = synthetic([12], 37, 640)
  source test  = synthetic([12], 37, 500, seed=2)

  x = pixels
}

train quick {
  batch     = 32
  epochs    = 3
  norm_rows = 8
  loss      = cosface(id, label, margin=0.05, scale=12)
  metrics   = [accuracy(id, label)]
  optimizer = adamw
  lr        = 1e-2
}
)";

class States : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("states.xgraph", kStates); }
  CommandResult run(const std::vector<std::string>& words) { return run_xrun(words, {.directory = directory.path()}); }
  std::string weights(const std::string& out, const std::vector<std::string>& flags) {
    std::vector<std::string> words{"train", "states.xgraph", "--deterministic", "--progress", "json", "-C", out};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto result = run(words);
    EXPECT_EQ(result.exit, 0) << result.err;
    std::string digest;
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      digest = event.contains("weights") ? event.at("weights").get<std::string>() : digest;
    }
    EXPECT_EQ(digest.size(), 32U);
    return digest;
  }
  TemporaryDirectory directory;
};

TEST_F(States, EveryPlanHasTheSameBits) {
  for (const std::string precision : {"f32", "mixed(bf16)"}) {
    const std::string set = "train.precision=" + precision;
    const std::string plain = weights("one" + precision, {"--set", set, "--devices", "1"});
    const std::vector<std::vector<std::string>> plans{
        {"--devices", "2", "--set", "schedule.stages=2", "--set", "schedule.micro_batches=4"},
        {"--devices", "3", "--set", "schedule.stages=3", "--set", "schedule.micro_batches=2", "--set",
         "schedule.pipeline=one_f_one_b", "--set", "schedule.recompute=all"},
        {"--devices", "4", "--set", "schedule.replicas=2", "--set", "schedule.stages=2", "--threads", "5"},
        {"--devices", "2", "--set", "schedule.replicas=2", "--set", "schedule.overlap=false"},
    };
    for (size_t i = 0; i < plans.size(); ++i) {
      std::vector<std::string> flags = plans[i];
      flags.insert(flags.end(), {"--set", set});
      EXPECT_EQ(weights(precision + std::to_string(i), flags), plain) << precision << ", plan " << i;
    }
  }
}

TEST_F(States, AStoppedRunGoesOnAndIsEvaluated) {
  const std::string whole = weights("whole", {"--devices", "1"});
  weights("parts", {"--devices", "2", "--set", "schedule.stages=2", "--steps", "17"});
  EXPECT_EQ(weights("parts", {"--devices", "1", "--resume", "auto"}), whole);
  const auto one = run({"eval", "states.xgraph", "whole/ckpt/quick", "--format", "json"});
  const auto two = run({"eval", "states.xgraph", "whole/ckpt/quick", "--format", "json", "--devices", "2"});
  EXPECT_EQ(one.exit, 0) << one.err;
  EXPECT_EQ(nlohmann::json::parse(one.out)["metrics"], nlohmann::json::parse(two.out)["metrics"]);
  const auto shown = run({"show", "whole/ckpt/quick"});
  for (const char* name : {"level", "scaled.center", "scaled.square", "scaled_2.center"}) {
    EXPECT_THAT(shown.out, HasSubstr(name));
  }
}

// Stages are cut where no state is read on both sides: between `scaled` and what reads `level` at most.
TEST_F(States, NoStageIsCutBetweenReadersOfAState) {
  const auto plan = run({"plan", "states.xgraph", "--devices", "16", "--set", "schedule.stages=16"});
  EXPECT_EQ(plan.exit, 1) << plan.out;
  EXPECT_THAT(plan.err, HasSubstr("XG0602"));
}

}  // namespace
}  // namespace xrun::testing
