// Losses that are sums: their terms before training, and sums that are rejected.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/passes/split_loss.h"
#include "ops/op.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Checked with_loss(const std::string& loss) {
  return Checked(R"(
model m {
  input x: f32[N, 8]

  middle  = x -> linear(6) -> relu
  feature = middle -> linear(6)
  output feature

  head id = cosine_classifier(feature, 10)
  head early = classifier(middle, 10)
}

data d {
  source train = synthetic([8], 10, 640)

  x = pixels
}

train t {
  batch     = 64
  epochs    = 1
  optimizer = sgd
  lr        = 0.1
  loss      = )" + loss +
                     "\n}\n",
                 {.ops = &ops::registry()});
}

// Returns the terms in order, each like "0.5 cosface".
std::vector<std::string> terms_of(const std::string& loss) {
  const Checked made = with_loss(loss);
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
  std::vector<std::string> texts;
  if (made.file) {
    const Graph& graph = made.module().graph;
    const auto terms = split_loss(graph, graph.loss);
    EXPECT_TRUE(terms.ok()) << terms.error().message;
    for (const LossTerm& term : terms.value()) {
      texts.push_back(fmt::format("{} {}", term.factor, graph.node(graph.value(term.rows).producer).op->name));
    }
  }
  return texts;
}

TEST(LossTerms, SumsAndProductsWithNumbersBecomeFactors) {
  EXPECT_THAT(terms_of("cosface(id, label) + softmax_ce(early, label)"), ElementsAre("1 cosface", "1 softmax_ce"));
  EXPECT_THAT(terms_of("2 * (cosface(id, label) * 3 - softmax_ce(early, label) / 4)"),
              ElementsAre("6 cosface", "-0.5 softmax_ce"));
  EXPECT_THAT(terms_of("mse(middle, feature) * 2 + cosface(id, label) + 0.5 * softmax_ce(early, label)"),
              ElementsAre("1 scale_shift", "1 cosface", "0.5 softmax_ce"));
}

TEST(LossTerms, AValueThatIsReadTwiceIsOneTerm) {
  const std::string text = R"(
block thrice(x: [N]) -> [N] {
  return x + (x + x)
}
)";
  Checked made(text + R"(
model m {
  input x: f32[N, 8]

  feature = x -> linear(6)
  output feature

  head id = classifier(feature, 10)
}

data d {
  source train = synthetic([8], 10, 640)

  x = pixels
}

train t {
  batch     = 64
  epochs    = 1
  optimizer = sgd
  lr        = 0.1
  loss      = thrice(softmax_ce(id, label)) + thrice(feature -> mean(1))
}
)",
               {.ops = &ops::registry()});
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  const Graph& graph = made.module().graph;
  const auto terms = split_loss(graph, graph.loss).value();
  ASSERT_EQ(terms.size(), 2U);
  EXPECT_EQ(terms[0].factor, 3);
  EXPECT_EQ(terms[1].factor, 1);  // a term without a head keeps its expression
}

TEST(LossTerms, OtherOperatorsOnTheLossOfAHeadAreRejected) {
  for (const auto& [loss, message] :
       {std::pair{"exp(cosface(id, label)) + softmax_ce(early, label)", "is applied to the loss of a sharded head"},
        std::pair{"cosface(id, label) * softmax_ce(early, label)", "is applied to the loss of a sharded head"},
        std::pair{"cosface(id, label) + softmax_ce(early, label) + 1", "a number is added to the loss"},
        std::pair{"cosface(id, label) * 1e30 * 1e30 + softmax_ce(early, label)", "is not finite in f32"},
        std::pair{"cosface(id, label) + arcface(id, label) + softmax_ce(early, label)",
                  "two losses read the head `id`"}}) {
    const Checked made = with_loss(loss);
    EXPECT_THAT(made.codes(), ElementsAre("XG0504")) << made.rendered();
    EXPECT_THAT(made.rendered(), HasSubstr(message));
  }
}

// Passes merge equal values into one; then their factors are added.
TEST(LossTerms, EqualTermsAreMerged) {
  const std::vector<LossTerm> merged = merge_terms({{ValueId(3), 0.5}, {ValueId(7), 2}, {ValueId(3), 1}});
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[0].rows, ValueId(3));
  EXPECT_EQ(merged[0].factor, 1.5);
  EXPECT_EQ(merged[1].factor, 2);
}

TEST(LossTerms, AnInputIsNotATerm) {
  const Checked made(R"(
model m {
  input x: f32[N, 8]
  input w: f32[N]

  feature = x -> linear(6)
  output feature

  head id = classifier(feature, 10)
}

data d {
  source train = csv("t.csv", header=true)

  x     = columns(0..8)
  w     = column(8)
  label = column(9) -> as_index(10)
}

train t {
  batch     = 64
  epochs    = 1
  optimizer = sgd
  lr        = 0.1
  loss      = softmax_ce(id, label) + w
}
)",
                     {.ops = &ops::registry()});
  EXPECT_THAT(made.codes(), ElementsAre("XG0504")) << made.rendered();
  EXPECT_THAT(made.rendered(), HasSubstr("an input is added to the loss of a sharded head"));
}

// The head pass runs after all operators of the stages, so no operator can read its results.
TEST(HeadReaders, OperatorsOnResultsOfAHeadAreRejected) {
  const auto model = [](const std::string& statements, const std::string& metrics) {
    return Checked(
        "\nmodel m {\n  input x: f32[N, 8]\n  input y: index(10)[N]\n\n  feature = x -> linear(6)\n\n"
        "  head id = classifier(feature, 10)\n\n" +
            statements +
            "}\n\ndata d {\n  source train = synthetic([8], 10, 640)\n\n  x = pixels\n  y = label\n}\n\n"
            "train t {\n  batch = 64\n  epochs = 1\n  optimizer = sgd\n  lr = 0.1\n"
            "  loss = softmax_ce(id, y)\n  metrics = [" +
            metrics + "]\n}\n",
        {.ops = &ops::registry()});
  };
  EXPECT_THAT(model("  all = gather(id)\n  output all\n", "accuracy(id, y)").codes(), IsEmpty());
  const std::string output = "  output feature\n";
  for (const auto& [statements, metrics] :
       {std::pair<std::string, std::string>{"  p = softmax(gather(id))\n  output p\n", "accuracy(id, y)"},
        {output, "accuracy(gather(id), y)"},
        {output, "recall_at(gather(id), y)"},
        {output, "sqrt(softmax_ce(id, y))"},
        {"  state s: [1] = 0\n\n  l = softmax_ce(id, y)\n  s = batch_mean(l)\n  f = feature * s\n  output f\n",
         "accuracy(id, y)"},
        {"  state s: [10] = 0\n\n  s = batch_mean(x -> linear(10))\n  p = gather(id) - s\n  output p\n",
         "accuracy(id, y)"}}) {
    const Checked made = model(statements, metrics);
    EXPECT_THAT(made.codes(), ElementsAre("XG0198")) << made.rendered();
  }
}

TEST(LossTerms, AHeadThatTheLossDoesNotUseIsReported) {
  const Checked made = with_loss("cosface(id, label)");
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  ASSERT_EQ(made.module().not_yet.size(), 1U);
  EXPECT_THAT(made.module().not_yet[0].message, HasSubstr("the head `early`, which the loss does not use"));
}

}  // namespace
}  // namespace xrun::lang
