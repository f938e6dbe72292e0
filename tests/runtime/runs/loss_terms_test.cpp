// Losses that are sums over two heads, or over a head and a dense loss. Factors weight the gradients, every plan gives
// the same bits, and the reported loss is the sum.
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

// Returns a model with a second head on a feature in the middle, and a dense loss on both features.
std::string summed(const std::string& loss, const std::string& settings) {
  return R"(xgraph 1

model summed {
  input x: f32[N, 12]

  middle  = x -> linear(20) -> bn -> relu -> linear(20) -> bn -> relu
  feature = middle -> linear(20) -> bn
  output feature

  head early = classifier(middle, 37)
  head id = cosine_classifier(feature, 37)
}

data made {
  source train = synthetic([12], 37, 640)
  source test  = synthetic([12], 37, 500, seed=2)

  x = pixels
}

train quick {
  norm_rows = 8
  metrics   = [accuracy(id, label), accuracy(early, label)]
  loss      = )" +
         loss + "\n" + settings + "  log {\n    every = 1 step\n  }\n}\n";
}

constexpr const char* kSum =
    "arcface(id, label, margin=0.05, scale=12) + 0.25 * (softmax_ce(early, label) + 2 * mse(middle, feature))";
constexpr const char* kAdamw =
    "  batch     = 32\n  epochs    = 2\n  optimizer = adamw\n  clip      = norm(1)\n"
    "  lr        = 3e-3\n";

class LossTerms : public CommandRuns {
 protected:
  std::string weights_of(const std::string& out, const std::string& text) {
    write_model(text);
    return weights(out, {});
  }
  int runs_ = 0;
};

TEST_F(LossTerms, EveryPlanHasTheSameBits) {
  write_model(summed(kSum, kAdamw));
  const std::vector<double> losses = values("loss", "learning", {});
  EXPECT_LT(losses.back(), 0.8 * losses.front());
  expect_one_result();
}

// With plain sgd, twice the loss at half the learning rate is an equal run. A factor of two is a power of two, so
// nothing is rounded. The batch grows, so that steps of two sizes weight their rows.
TEST_F(LossTerms, AFactorMultipliesTheGradients) {
  const auto settings = [](const std::string& rate) {
    return "  batch     = grow(16 .. 32, over=0.5 epochs, after=0.5 epochs)\n  epochs    = 2\n  optimizer = "
           "sgd(momentum=0, "
           "weight_decay=0)\n  lr        = " +
           rate + "\n";
  };
  const auto plain = weights_of("plain", summed("softmax_ce(early, label) + cosface(id, label)", settings("0.02")));
  const auto twice =
      weights_of("twice", summed("2 * (softmax_ce(early, label) - -1 * cosface(id, label))", settings("0.01")));
  EXPECT_EQ(plain, twice);
}

// If a value occurs twice, once within another sum, its factor is the sum of both factors, in steps of every size.
TEST_F(LossTerms, FactorsOfEqualTermsAreAdded) {
  const auto settings =
      std::string("  batch     = grow(16 .. 32, over=0.5 epochs, after=0.5 epochs)\n  epochs    = 2\n") +
      "  optimizer = adamw\n  lr        = 3e-3\n";
  const std::string heads = "softmax_ce(early, label) + 0.5 * (cosface(id, label) + mse(middle, feature)) + ";
  const auto twice = weights_of("twice", summed(heads + "mse(middle, feature)", settings));
  const std::string apart = "softmax_ce(early, label) + 0.5 * cosface(id, label) + 1.5 * mse(middle, feature)";
  EXPECT_EQ(weights_of("once", summed(apart, settings)), twice);
}

// Tables of classes compare the first head with its own label.
TEST_F(LossTerms, ClassesAreThoseOfTheFirstHead) {
  std::string rows = "a,b,c,d,big,small\n";
  for (int i = 0; i < 400; ++i) {
    const int big = i % 9;
    rows += fmt::format("{},{},{},{},{},{}\n", big % 3, big / 3, i % 5, (i * 7) % 11, big, i % 5);
  }
  directory.write("t.csv", rows);
  const std::string text = R"(xgraph 1

model two {
  input x: f32[N, 4]

  feature = x -> linear(32) -> bn -> relu -> linear(16) -> bn
  output feature

  head id = classifier(feature, 9)
  head group = classifier(feature, 5)
}

data d {
  source train = csv("t.csv", header=true)
  source test  = csv("t.csv", header=true)

  x     = columns(0..4)
  big   = column(4) -> as_index(9)
  small = column(5) -> as_index(5)
}

train quick {
  batch     = 40
  epochs    = 30
  norm_rows = 8
  loss      = softmax_ce(group, small) + softmax_ce(id, big)
  metrics   = [accuracy(id, big)]
  optimizer = adamw
  lr        = 2e-2
}
)";
  weights_of("two", text);
  const auto shown =
      run_xrun({"eval", kFile, "two/ckpt/quick", "--per-class", "--format", "json"}, {.directory = directory.path()});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  const auto report = nlohmann::json::parse(shown.out);
  EXPECT_THAT(shown.out, HasSubstr("\"accuracy\":1.0")) << shown.out;
  EXPECT_EQ(report["metrics"]["test"], 1.0) << shown.out;
  const auto& by_head = report["per_class"]["test"];
  ASSERT_EQ(by_head.size(), 2U) << shown.out;  // each head's logits are compared with the label of its own loss
  EXPECT_EQ(report["misclassified"]["test"]["id"], 0) << shown.out;
  EXPECT_GT(by_head["id"].size(), by_head["group"].size()) << shown.out;
}

TEST_F(LossTerms, TheReportedLossIsTheSumOfTheTerms) {
  const auto first = [&](const std::string& loss) {
    write_model(summed(loss, kAdamw));
    return values("loss", "of" + std::to_string(runs_++), {"--steps", "1"}).front();
  };
  const double none = first("softmax_ce(early, label) * 1 + 0 * softmax_ce(id, label)");
  const double one = first("softmax_ce(early, label) + softmax_ce(id, label, scale=1)");
  const double three = first("3 * softmax_ce(id, label) + softmax_ce(early, label)");
  EXPECT_GT(one - none, 3);  // the initial loss over 37 classes is ln(37) = 3.6
  EXPECT_NEAR(three - none, 3 * (one - none), 1e-4);
}

// Class weights apply to each term of the loss.
TEST_F(LossTerms, ClassWeightsApplyToEachTerm) {
  directory.write(
      "all.csv", "class,weight\n" + [] {
        std::string rows;
        for (int c = 0; c < 37; ++c) {
          rows += std::to_string(c) + ",2\n";
        }
        return rows;
      }());
  const std::string sum = "softmax_ce(early, label) + 0.5 * cosface(id, label) + 0.25 * mse(middle, feature)";
  const auto plain = weights_of("plain", summed(sum, kAdamw));
  const auto weighed = weights_of("weighed", summed(sum, kAdamw + std::string("  class_weights = csv(\"all.csv\")\n")));
  EXPECT_EQ(plain, weighed);  // the mean of the weights is 1
}

}  // namespace
}  // namespace xrun::testing
