// Plans of users that were rejected, ended by a signal, or took minutes. Each must now be made quickly or be rejected
// quickly with a message.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/sanitized.h"

namespace {

using xrun::testing::CommandResult;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

// Limit of the processor time of a command. It takes about half of that on a quiet machine, and a plan that is made in
// quadratic time takes minutes.
constexpr double kSeconds = 6;

// Returns the processor time in seconds of the commands that have ended.
double processor_time() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Ran {
  CommandResult result;
  double seconds = 0;  // processor time of the command
};

Ran run(const std::string& text, std::vector<std::string> words) {
  TemporaryDirectory dir;
  dir.write("m.xgraph", text);
  words.insert(words.begin() + 1, "m.xgraph");
  const double before = processor_time();
  Ran ran{.result = run_xrun(words, {.directory = dir.path()})};
  ran.seconds = processor_time() - before;
  return ran;
}

Ran plan(const std::string& text, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"plan", "--dry-run"});
  return run(text, std::move(flags));
}

std::vector<std::string> in_replicas(int count) {
  return {"--devices", std::to_string(count), "--set", fmt::format("schedule.replicas={}", count)};
}

void expect_plan(const Ran& ran) {
  EXPECT_EQ(ran.result.exit, 0) << ran.result.err;
#ifdef NDEBUG
  EXPECT_LT(ran.seconds, kSeconds);
#endif
}

void expect_refused(const Ran& ran, const std::string& code, const std::vector<std::string>& words) {
  EXPECT_NE(ran.result.exit, 0);
  EXPECT_LT(ran.result.exit, 128) << "ended by a signal";
  EXPECT_NE(ran.result.err.find(code), std::string::npos) << ran.result.err;
  for (const std::string& word : words) {
    EXPECT_NE(ran.result.err.find(word), std::string::npos) << "wanted: " << word << "\n" << ran.result.err;
  }
  EXPECT_LT(ran.seconds, (xrun::testing::kSanitized ? 10 : 1) * kSeconds);
}

std::string faces(const std::string& net, const std::string& call, int size, const std::string& more = "") {
  return fmt::format(R"(xgraph 1

from "std/nets" use {0}

model r {{
  input image: f32[N, 3, {2}, {2}]

  feature = image -> {1} -> linear(256) -> bn
  output feature

  head id = cosine_classifier(feature, 100_000)
}}

data d {{
  source train = synthetic([3, {2}, {2}], 100_000, 1_000_000)

  image = pixels
}}

train t {{
  batch     = 2048
  epochs    = 1
  loss      = arcface(id, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.1
}}
{3})",
                     net, call, size, more);
}

std::string convolutions(int layers) {
  std::string stages;
  for (int i = 0; i < layers; ++i) {
    stages += fmt::format("\n    -> conv(16, 3) as c{} -> bn -> relu", i);
  }
  return fmt::format(R"(xgraph 1

model m {{
  input image: f32[N, 3, 16, 16]

  logits = image{}
    -> global_avg_pool -> linear(100)
  output logits
}}

data made {{
  source train = synthetic([3, 16, 16], 100, 4_096)

  image = pixels
}}

train t {{
  batch     = 64
  norm_rows = 8
  steps     = 100
  loss      = softmax_ce(logits, label)
  optimizer = sgd(momentum=0.9)
  lr        = 0.01
}}
)",
                     stages);
}

// Returns a model over rows. `layers` holds the stages after the input x: f32[N, inputs].
std::string rows(int inputs, const std::string& layers, const std::string& train = "", const std::string& blocks = "") {
  return fmt::format(R"(xgraph 1

{3}model m {{
  input x: f32[N, {0}]

  y = x -> {1}
  output y
}}

data d {{
  source train = synthetic([{0}], 10, 1000)

  x = pixels
}}

train t {{
  batch     = 32
  steps     = 3
  loss      = softmax_ce(y, label)
  optimizer = sgd
  lr        = 0.1
{2}}}
)",
                     inputs, layers, train, blocks);
}

TEST(CasePlansUnverifiedVit12, AVisionTransformerOfTwelveLayersIsPlannedInFourReplicas) {
  expect_plan(plan(faces("vit", "vit(192, 12, 3, 8)", 64), in_replicas(4)));
}

TEST(CasePlansUnverifiedConv90, NinetyConvolutionsArePlannedOnTheCoresOfAMachine) {
  expect_plan(plan(convolutions(90), {"--devices", "2"}));
}

TEST(CasePlansUnverifiedR50, AResnetIsPlannedOnEightCores) {
  expect_plan(plan(faces("resnet", "resnet([3, 4, 6, 3])", 64,
                         "\ncluster c {\n  node {\n    cores  = 8\n    memory = 512GiB\n  }\n}\n")));
}

TEST(CasePlansUnverifiedMlp, TwoHundredLinearLayersArePlannedForFourThousandRows) {
  expect_plan(plan(rows(64, "repeat 200 { linear(64) -> relu } -> linear(10)"),
                   {"--devices", "2", "--set", "train.batch=4096"}));
}

TEST(CasePlansUnverified, DeepNetworksArePlannedInReplicas) {
  expect_plan(plan(faces("iresnet", "iresnet([3, 13, 30, 3])", 112), in_replicas(2)));
  expect_plan(plan(convolutions(400), in_replicas(8)));
}

// Without outputs and metrics, evaluation and prediction have nothing to compute.
TEST(CasePlansUnverified, AModelThatOnlyTrainsIsPlanned) {
  std::string text = convolutions(2);
  const std::string output = "  output logits\n";
  text.erase(text.find(output), output.size());
  for (const std::string setting : {"schedule.stages=1", "schedule.stages=2", "schedule.replicas=2"}) {
    expect_plan(plan(text, {"--devices", "2", "--set", setting}));
  }
}

// The first stage only updates the running mean, so it has no gradients to sum.
TEST(CasePlansUnsoundState, AStageWithAStateAndNoWeightIsPlanned) {
  const std::string centered = R"(block centered(x: [N, D]) -> [N, D] {
  state center: [D] = 0

  center = 0.9 * center + 0.1 * batch_mean(x)
  return x - 0.5 * center
}

)";
  const std::string text = rows(24, "centered -> linear(12) -> relu -> linear(10)", "  norm_rows = 4\n", centered);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>(), {"--set", "train.clip=norm(1)"}, {"--set", "train.compress=topk(0.1)"}}) {
    for (const std::string stages : {"2", "3"}) {
      std::vector<std::string> flags{"--deterministic", "--devices", stages, "--set", "schedule.stages=" + stages};
      flags.insert(flags.end(), more.begin(), more.end());
      expect_plan(plan(text, flags));
    }
  }
  // Two replicas of each stage gather the statistics of the state. The state has no gradients to sum.
  expect_plan(
      plan(text, {"--deterministic", "--devices", "4", "--set", "schedule.stages=2", "--set", "schedule.replicas=2"}));
}

TEST(CasePlansFpeSmall, SizesBeyondEveryMachineAreRejectedWithAMessage) {
  for (const char* layers : {"linear(2 ^ 32) -> linear(10)", "linear(2 ^ 33) -> relu -> linear(10)",
                             "linear(2 ^ 34) -> linear(10)", "linear(2 ^ 36) -> linear(10)"}) {
    const Ran ran = plan(rows(2, layers));
    EXPECT_NE(ran.result.exit, 0);
    EXPECT_LT(ran.result.exit, 128) << "ended by a signal: " << layers;
    EXPECT_NE(ran.result.err.find("error[XG0"), std::string::npos) << ran.result.err;
    EXPECT_LT(ran.seconds, kSeconds) << layers;
  }
}

TEST(CasePlansRepeat10kLinear, TooManyOperatorsAreRejectedQuicklyWithTheLimit) {
  expect_refused(plan(rows(64, "repeat 10_000 { linear(64) -> relu } -> linear(10)")), "XG0198",
                 {"20 002 operators", "at most 12 288"});
}

TEST(CasePlansGradAccumulation, TooManyBatchesPerUpdateAreRejectedQuicklyWithTheLimit) {
  expect_refused(plan(rows(64, "linear(10)", "  grad_accumulation = 1_048_576\n")), "XG0198",
                 {"1 048 576 batches an update", "at most"});
  expect_refused(plan(rows(64, "linear(10)", "  norm_rows = 1\n"),
                      {"--set", "train.batch=1048576", "--set", "schedule.micro_batches=1048576"}),
                 "XG0198", {"1 048 576 micro-batches"});
}

TEST(CasePlansFnDouble, ExponentiallyManyNestedCallsAreRejectedBeforeEvaluation) {
  std::string text = "fn f0(x: int) = x + 1\n";
  for (int i = 1; i <= 40; ++i) {
    text += fmt::format("fn f{0}(x: int) = f{1}(f{1}(x))\n", i, i - 1);
  }
  expect_refused(run(rows(64, "linear(10)", "", text + "\n"), {"check"}), "XG0216", {"steps of evaluation", "limit"});
  expect_refused(run(rows(64, "linear(f40(1))", "", text + "\n"), {"check"}), "XG0216",
                 {"steps of evaluation", "limit"});
}

TEST(CasePlansBlockDouble, ExponentiallyManyNestedBlocksAreRejectedBeforeExpansion) {
  std::string text = "block b0(x: [N, D]) { return x -> relu }\n";
  for (int i = 1; i <= 40; ++i) {
    text += fmt::format("block b{0}(x: [N, D]) {{ return x -> b{1} -> b{1} }}\n", i, i - 1);
  }
  for (const char* block : {"b20", "b40"}) {
    expect_refused(run(rows(64, fmt::format("{} -> linear(10)", block), "", text + "\n"), {"check"}), "XG0216",
                   {"operators, tensors and parameters or more", "limit"});
  }
  expect_refused(run(rows(64, "repeat 30_000 { repeat 30_000 { relu } } -> linear(10)"), {"check"}), "XG0216",
                 {"limit"});
}

// The exponent of this power is so small that processors treat it as 0. Compiled and interpreted code must agree.
TEST(CasePlansJitPower, CompiledAndInterpretedPowersTrainTheSameWeights) {
  const std::string text = R"(xgraph 1

pointwise q(x) = x ^ 1e-45
pointwise fin(x, c) = select(abs(x) < 100, x, c)

model m {
  input x: f32[N, 40]

  y = (x + fin(q(x), 0.3)) -> linear(10)
  output y
}

data d {
  source train = synthetic([40], 10, 500)

  x = pixels
}

train t {
  batch     = 48
  steps     = 2
  loss      = softmax_ce(y, label)
  optimizer = sgd
  lr        = 0.01
}
)";
  const auto weights_of = [&](const std::string& jit) {
    TemporaryDirectory dir;
    dir.write("m.xgraph", text);
    const auto result =
        run_xrun({"train", "m.xgraph", "--deterministic", "--progress", "json"},
                 {.directory = dir.path(), .environment = {{"XRUN_JIT", jit}, {"XDG_CACHE_HOME", dir.path()}}});
    EXPECT_EQ(result.exit, 0) << result.err;
    const size_t at = result.out.find("\"weights\":");
    return at == std::string::npos ? result.out : result.out.substr(at, result.out.find(',', at) - at);
  };
  EXPECT_EQ(weights_of("off"), weights_of("on"));
}

}  // namespace
