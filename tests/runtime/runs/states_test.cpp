// States of blocks in training: every plan gives the same bits, the values follow from the data, and evaluations use
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

// Features minus their running mean, divided by the root of their running square. The states of the first block are
// read again after the second block.
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

class States : public CommandRuns {
 protected:
  void SetUp() override { write_model(kStates); }
};

TEST_F(States, EveryPlanHasTheSameBits) { expect_one_result(); }

TEST_F(States, AStoppedRunResumesAndIsEvaluated) {
  const std::string whole = weights("whole", {"--devices", "1"});
  weights("parts", {"--devices", "2", "--set", "schedule.stages=2", "--steps", "17"});
  EXPECT_EQ(weights("parts", {"--devices", "1", "--resume", "auto"}), whole);
  const auto one = run({"eval", kFile, "whole/ckpt/quick", "--format", "json"});
  const auto two = run({"eval", kFile, "whole/ckpt/quick", "--format", "json", "--devices", "2"});
  EXPECT_EQ(one.exit, 0) << one.err;
  EXPECT_EQ(nlohmann::json::parse(one.out)["metrics"], nlohmann::json::parse(two.out)["metrics"]);
  const auto shown = run({"show", "whole/ckpt/quick"});
  for (const char* name : {"level", "scaled.center", "scaled.square", "scaled_2.center"}) {
    EXPECT_THAT(shown.out, HasSubstr(name));
  }
}

// A state may not be read on both sides of a cut. So only the cut between `scaled` and the readers of `level` is
// possible.
TEST_F(States, AllReadersOfAStateAreInOneStage) {
  const auto plan = run({"plan", kFile, "--devices", "16", "--set", "schedule.stages=16"});
  EXPECT_EQ(plan.exit, 1) << plan.out;
  EXPECT_THAT(plan.err, HasSubstr("XG0602"));
}

}  // namespace
}  // namespace xrun::testing
