// What users write themselves trains: `pointwise` functions, parameters of blocks, optimizers; the same bits for every
// plan, and for a run that was stopped.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"

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

class OwnFunctions : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("own.xgraph", kOwn); }

  CommandResult train(const std::string& out, const std::vector<std::string>& flags, CommandOptions options = {}) {
    std::vector<std::string> words{"train", "own.xgraph", "--deterministic", "--progress", "json", "-C", out};
    words.insert(words.end(), flags.begin(), flags.end());
    options.directory = directory.path();
    auto result = run_xrun(words, options);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  }
  // The program in a directory of its own, where no module is beside it.
  CommandOptions alone() {
    const auto place = std::filesystem::path(directory.path()) / "alone";
    std::filesystem::create_directories(place);
    std::filesystem::copy_file(std::string(XRUN_BINARY_DIR) + "/xrun", place / "xrun",
                               std::filesystem::copy_options::skip_existing);
    CommandOptions options;
    options.binary = place / "xrun";
    return options;
  }
  // The last value of a key among the lines of one kind.
  static nlohmann::json last(const CommandResult& result, const std::string& kind, const std::string& key) {
    nlohmann::json value;
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("t") == kind && event.contains(key)) {
        value = event.at(key);
      }
    }
    return value;
  }
  TemporaryDirectory directory;
};

TEST_F(OwnFunctions, EveryPlanHasTheSameBits) {
  for (const std::string precision : {"f32", "mixed(bf16)"}) {
    const std::string set = "train.precision=" + precision;
    const auto plain = last(train("one" + precision, {"--set", set, "--devices", "1"}), "end", "weights");
    ASSERT_EQ(plain.get<std::string>().size(), 32U);
    const std::vector<std::vector<std::string>> plans{
        {"--devices", "2", "--set", "schedule.stages=2", "--set", "schedule.micro_batches=4"},
        {"--devices", "2", "--set", "schedule.stages=2", "--set", "schedule.micro_batches=2", "--set",
         "schedule.pipeline=one_f_one_b", "--set", "schedule.recompute=all"},
        {"--devices", "4", "--set", "schedule.replicas=2", "--set", "schedule.stages=1", "--threads", "5"},
    };
    for (size_t i = 0; i < plans.size(); ++i) {
      std::vector<std::string> flags = plans[i];
      flags.insert(flags.end(), {"--set", set});
      EXPECT_EQ(last(train(precision + std::to_string(i), flags), "end", "weights"), plain)
          << precision << ", plan " << i;
    }
    EXPECT_EQ(last(train("interpreted" + precision, {"--set", set}, {.environment = {{"XRUN_JIT", "off"}}}), "end",
                   "weights"),
              plain);
  }
}

// Without the compiler a run says so once and has the same bits.
TEST_F(OwnFunctions, AreInterpretedWhereNoCompilerIs) {
  const auto compiled = train("compiled", {});
  const auto interpreted = train("interpreted", {}, alone());
  EXPECT_EQ(last(interpreted, "end", "weights"), last(compiled, "end", "weights"));
  const auto count = [](const std::string& text, const std::string& code) {
    size_t found = 0;
    for (size_t at = text.find(code); at != std::string::npos; at = text.find(code, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count(interpreted.out, "XG0821"), 1U) << interpreted.out;
  EXPECT_THAT(interpreted.out, HasSubstr("xrun_jit.so is not beside the program"));
  EXPECT_EQ(count(train("off", {}, {.environment = {{"XRUN_JIT", "off"}}}).out, "XG0821"), 0U);

  CommandOptions damaged = alone();
  std::ofstream(std::filesystem::path(damaged.binary).replace_filename("xrun_jit.so")) << "no module";
  const auto refused = train("damaged", {}, damaged);
  EXPECT_EQ(last(refused, "end", "weights"), last(compiled, "end", "weights"));
  EXPECT_THAT(refused.out, HasSubstr("cannot be loaded"));
}

TEST_F(OwnFunctions, AnUnknownWordInXrunJitIsRefused) {
  const auto result = run_xrun({"doctor"}, {.environment = {{"XRUN_JIT", "maybe"}}});
  EXPECT_EQ(result.exit, 2);
  EXPECT_THAT(result.err, HasSubstr("XG0822"));
}

TEST_F(OwnFunctions, LearnAndGoOn) {
  const auto whole = train("whole", {});
  EXPECT_LT(last(whole, "step", "loss").get<double>(), 2.0) << "3.6 at first";
  train("parts", {"--steps", "7"});
  EXPECT_EQ(last(train("parts", {}), "end", "weights"), last(whole, "end", "weights"));
}

TEST_F(OwnFunctions, AnOwnOptimizerOfTwoStatesTrainsLikeTheOneThatIsBuiltIn) {
  const double own = last(train("own", {"--set", "train.optimizer=adam2"}), "step", "loss").get<double>();
  const double built = last(train("built", {"--set", "train.optimizer=adamw"}), "step", "loss").get<double>();
  EXPECT_NEAR(own, built, 1e-2);
}

TEST_F(OwnFunctions, CheckpointsNameTheirTensors) {
  train("out", {"--steps", "2"});
  CommandOptions options;
  options.directory = directory.path();
  const auto shown = run_xrun({"show", "out/ckpt/quick/step-000002"}, options);
  ASSERT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("first.gamma"));
  const auto checked = run_xrun({"show", "own.xgraph", "--emit", "checked"}, options);
  ASSERT_EQ(checked.exit, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("optimizer = lion(b1=0.9, b2=0.99, weight_decay=0.1)"));
}

}  // namespace
}  // namespace xrun::testing
