// Code that users write can be trained: `pointwise` functions, parameters of blocks, and optimizers. Every plan and a
// run that was stopped give the same bits.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOwn = R"(xgraph 1

option classes: int = 37

pointwise bent(x, beta = 1.5) = x * sigmoid(beta * x) + 0.01 * sin(x)

pointwise arc(c, m = 0.5) = cos(acos(clamp(c, -1 + 1e-7, 1 - 1e-7)) + m)

pointwise gated(x, gate) = x * clamp(gate + 3, 0, 6) / 6

optimizer lion(lr, b1 = 0.9, b2 = 0.99, weight_decay = 0.1) {
  state m = 0
  u      = b1 * m + (1 - b1) * grad
  m      = b2 * m + (1 - b2) * grad
  weight = weight - lr * (sign(u) + weight_decay * weight)
}

optimizer adam2(beta1 = 0.9, beta2 = 0.999, weight_decay = 0.01) {
  state m = 0
  state v = 0
  m      = beta1 * m + (1 - beta1) * grad
  v      = beta2 * v + (1 - beta2) * grad * grad
  mh     = m / (1 - beta1 ^ step)
  vh     = v / (1 - beta2 ^ step)
  weight = weight - lr * (mh / (sqrt(vh) + 1e-8) + weight_decay * weight)
}

block scaled(x: [N, D]) -> [N, D] {
  param gamma: [D] = constant(0.5)
  param shift: [1] = 0.1
  return x + gamma * (x -> linear(D) -> bn -> bent) + shift
}

model own {
  input x: f32[N, 16]

  a       = x -> linear(32) -> scaled as first -> mish
  b       = gated(a, a -> linear(1)) -> scaled
  feature = b ^ 2 -> linear(24) -> bn
  output feature

  head id = cosine_classifier(feature, classes)
}

data made {
  source train = synthetic([16], classes, 640)
  source test  = synthetic([16], classes, 500, seed=2)

  x = pixels
}

train quick {
  batch     = 32
  epochs    = 3
  norm_rows = 8
  loss      = margin_softmax(id, label, arc(m=0.05), 12)
  metrics   = [accuracy(id, label)]
  optimizer = lion
  lr        = [warmup(0 .. 3e-3, 10 steps), cosine(3e-3 .. 0)]
}
)";

class OwnFunctions : public CommandRuns {
 protected:
  void SetUp() override { write_model(kOwn); }

  // Uses a copy of the program in a directory of its own, without the modules next to it.
  CommandOptions alone() {
    const auto place = std::filesystem::path(directory.path()) / "alone";
    std::filesystem::create_directories(place);
    std::filesystem::copy_file(std::string(XRUN_BINARY_DIR) + "/xrun", place / "xrun",
                               std::filesystem::copy_options::skip_existing);
    CommandOptions options;
    options.binary = place / "xrun";
    return options;
  }
};

TEST_F(OwnFunctions, EveryPlanHasTheSameBits) {
  const std::string plain = expect_one_result();
  EXPECT_EQ(weights("interpreted", {}, {.environment = {{"XRUN_JIT", "off"}}}), plain);
  EXPECT_EQ(weights("narrow", {"--set", "train.precision=mixed(bf16)"}, {.environment = {{"XRUN_JIT", "off"}}}),
            weights("compiled", {"--set", "train.precision=mixed(bf16)"}));
}

// Without the compiler, a run prints one warning and gives the same bits.
TEST_F(OwnFunctions, AreInterpretedIfThereIsNoCompiler) {
  const std::string compiled = weights("compiled", {});
  const CommandResult interpreted = training("interpreted", {}, alone());
  EXPECT_EQ(json_lines(interpreted.out).back().at("weights"), compiled);
  const auto count = [](const std::string& text, const std::string& code) {
    size_t found = 0;
    for (size_t at = text.find(code); at != std::string::npos; at = text.find(code, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count(interpreted.out, "XG0821"), 1U) << interpreted.out;
  EXPECT_THAT(interpreted.out, HasSubstr("xrun_jit.so is not next to the program"));
  EXPECT_EQ(count(training("off", {}, {.environment = {{"XRUN_JIT", "off"}}}).out, "XG0821"), 0U);

  CommandOptions damaged = alone();
  std::ofstream(std::filesystem::path(damaged.binary).replace_filename("xrun_jit.so")) << "no module";
  const CommandResult refused = training("damaged", {}, damaged);
  EXPECT_EQ(json_lines(refused.out).back().at("weights"), compiled);
  EXPECT_THAT(refused.out, HasSubstr("cannot be loaded"));
}

TEST_F(OwnFunctions, AnUnknownWordInXrunJitIsRefused) {
  const auto result = run_xrun({"doctor"}, {.environment = {{"XRUN_JIT", "maybe"}}});
  EXPECT_EQ(result.exit, 2);
  EXPECT_THAT(result.err, HasSubstr("XG0822"));
}

TEST_F(OwnFunctions, LearnAndResume) {
  EXPECT_LT(values("loss", "learning", {}).back(), 2.0) << "3.6 at first";
  weights("parts", {"--steps", "7"});
  EXPECT_EQ(weights("parts", {}), weights("whole", {}));
}

TEST_F(OwnFunctions, AnOwnOptimizerOfTwoStatesTrainsLikeTheBuiltInOne) {
  const double own = values("loss", "own", {"--set", "train.optimizer=adam2"}).back();
  const double built = values("loss", "built", {"--set", "train.optimizer=adamw"}).back();
  EXPECT_NEAR(own, built, 1e-2);
}

TEST_F(OwnFunctions, CheckpointsHaveTheNamesOfTheirTensors) {
  train("out", {"--steps", "2"});
  const auto shown = run({"show", "out/ckpt/quick/step-000002"});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("first.gamma"));
  const auto checked = run({"show", kFile, "--emit", "checked"});
  ASSERT_EQ(checked.exit, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("optimizer = lion(b1=0.9, b2=0.99, weight_decay=0.1)"));
}

}  // namespace
}  // namespace xrun::testing
