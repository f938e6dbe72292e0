// Weights that several operators read: their gradients are added, every plan gives the same bits, and the checkpoint
// holds the weight once.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

// The first and the last layer share a table, three blocks share a matrix, and two inputs of one operator share a
// matrix.
constexpr const char* kTied = R"(xgraph 1

block mixed(x: [N, D], w: [D, D]) -> [N, D] {
  return x + (x -> linear(D, weight=w) -> bn -> silu)
}

model tied {
  input x: f32[N, 12]

  param table: [12, 20] = normal(0.3)
  param mix: [20, 20] = he_normal()
  param slope: [20] = constant(0.5)

  a       = x -> matmul(table) -> mixed(mix)
  b       = a * slope + slope -> mixed(mix) -> linear(20) -> mixed(mix)
  back    = einsum(b, table, "nd,cd->nc")
  feature = concat(b, back, axis=1) -> bn
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
  epochs    = 2
  norm_rows = 8
  loss      = arcface(id, label, margin=0.05, scale=12)
  metrics   = [accuracy(id, label)]
  optimizer = adamw
  clip      = norm(1)
  lr        = 3e-3
}
)";

using TiedWeights = CommandRuns;

TEST_F(TiedWeights, EveryPlanHasTheSameBits) {
  write_model(kTied);
  expect_one_result();
}

TEST_F(TiedWeights, AStoppedRunResumesWithOtherStages) {
  write_model(kTied);
  const std::string whole = weights("whole", {"--devices", "1"});
  weights("parts", {"--devices", "2", "--set", "schedule.stages=2", "--steps", "17"});
  EXPECT_EQ(weights("parts", {"--devices", "1", "--resume", "auto"}), whole);
  const auto named = run({"show", "parts/ckpt/quick"});
  EXPECT_EQ(named.exit, 0) << named.err;
}

// x W + y W has the gradients of (x + y) W.
TEST_F(TiedWeights, GradientsOfTheReadersAreAdded) {
  const auto text = [](const std::string& body) {
    return "xgraph 1\n\nmodel m {\n  input x: f32[N, 16]\n\n  param w: [16, 8] = he_normal()\n\n  y = x -> linear(16, "
           "bias=false) -> tanh\n" +
           body +
           "  output logits\n}\n\ndata made {\n  source train = synthetic([16], 8, 64)\n\n  x = pixels\n}\n\ntrain "
           "quick {\n"
           "  batch     = 32\n  steps     = 20\n  norm_rows = 8\n  loss      = softmax_ce(logits, label)\n"
           "  optimizer = sgd(momentum=0.9)\n  lr        = 0.05\n  log {\n    every = 1 step\n  }\n}\n";
  };
  write_model(text("  logits = matmul(x, w) + matmul(y, w)\n"));
  const double apart = values("loss", "apart", {}).back();
  write_model(text("  logits = matmul(x + y, w)\n"));
  const double joined = values("loss", "joined", {}).back();
  EXPECT_LT(joined, 1.5);
  EXPECT_NEAR(apart, joined, 1e-4 * joined);
}

// A stage has one copy in memory for any number of readers, and the plan counts the weight once.
TEST_F(TiedWeights, APlanHasOneCopyPerStage) {
  write_model(kTied);
  ASSERT_EQ(run({"plan", kFile, "--devices", "1", "-o", "one.xplan"}).exit, 0);
  const std::string one = run({"show", "--emit", "program", "one.xplan"}).out;
  const auto count = [](const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++n;
    }
    return n;
  };
  EXPECT_EQ(count(one, " weight table\n"), 1U);
  EXPECT_EQ(count(one, " optimizer table.m\n"), 1U);
  EXPECT_GE(count(one, " gradient table.gradient"), 2U);
}

TEST_F(TiedWeights, RefusesTensorsThatDoNotFit) {
  const auto answer = [&](const std::string& call) {
    write_model("xgraph 1\n\nmodel m {\n  input x: f32[N, 16]\n\n  param w: [16, 8] = he_normal()\n\n  y = x -> " +
                call + "\n  output y\n}\n");
    const auto result = run({"check", kFile});
    return result.exit == 0 ? "good" : result.err;
  };
  EXPECT_EQ(answer("linear(8) -> linear(16, bias=false, weight=w)"), "good");
  EXPECT_THAT(answer("linear(8, weight=w)"), HasSubstr("XG0301]: `linear` has a tensor `weight` of f32[8, 16]"));
  EXPECT_THAT(answer("linear(8, table=w)"), HasSubstr("XG0203]: this `linear` has no tensor named `table`"));
  EXPECT_THAT(answer("relu(weight=w)"), HasSubstr("XG0203"));
  EXPECT_THAT(answer("linear(8) -> linear(16, weight=w, weight=w)"),
              HasSubstr("XG0204]: `weight` of `linear` is given twice"));
  EXPECT_THAT(answer("linear(8) -> cosine_classifier(16, weight=w)"), HasSubstr("are sharded"));
}

TEST_F(TiedWeights, SettingsWithoutEffectAreRefused) {
  const auto answer = [&](const std::string& from, const std::string& to) {
    std::string text = kTied;
    const size_t at = text.find(from);
    text.replace(at, from.size(), to);
    write_model(text);
    return run({"check", kFile}).err;
  };
  EXPECT_THAT(answer("weight=w)", "weight=w, init=normal(0.1))"), HasSubstr("XG0205]: `init` has no effect"));
  EXPECT_THAT(answer("clip      = norm(1)", "compress  = topk(10%, on=[mix])"),
              HasSubstr("XG0217]: `on` names `mix`, which several operators read"));
  EXPECT_THAT(answer("-> linear(20) -> mixed(mix)", "-> repeat 300 { mixed(mix) }"),
              HasSubstr("XG0198]: 302 operators read the weight `mix`; at most 256 can"));
  EXPECT_EQ(answer("linear(D, weight=w)", "linear(D, weight=w, bias=b)").find("error"), 0U);  // no such tensor
  EXPECT_EQ(answer("a * slope + slope -> mixed(mix) -> linear(20)",
                   "a * slope + slope -> mixed(mix) -> linear(20, bias=slope)"),
            "");
}

// If two weights of the same type are exchanged, it is another model.
TEST_F(TiedWeights, EvaluationRefusesAModelWithExchangedWeights) {
  const auto text = [](const std::string& last) {
    return "xgraph 1\n\nmodel m {\n  input x: f32[N, 8]\n\n  param a: [8, 8] = he_normal()\n  param b: [8, 8] = "
           "he_normal()\n\n  logits = x -> matmul(a) -> tanh -> matmul(b) -> tanh -> matmul(" +
           last +
           ")\n  output logits\n}\n\ndata made {\n  source train = synthetic([8], 8, 64)\n  source test  = "
           "synthetic([8], "
           "8, 64, seed=2)\n\n  x = pixels\n}\n\ntrain quick {\n  batch     = 32\n  steps     = 4\n  loss      = "
           "softmax_ce(logits, label)\n  metrics   = [accuracy(logits, label)]\n  optimizer = sgd\n  lr        = "
           "0.1\n}\n";
  };
  write_model(text("a"));
  weights("out", {});
  EXPECT_EQ(run({"eval", kFile, "out/ckpt/quick/latest"}).exit, 0);
  write_model(text("b"));
  EXPECT_NE(run({"eval", kFile, "out/ckpt/quick/latest"}).exit, 0);
}

}  // namespace
}  // namespace xrun::testing
