// Labels with `ignore`: the terms and factors of a loss over them, and uses that are rejected.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/layouts/partial_labels.h"
#include "graph/passes/pipeline.h"
#include "graph/passes/split_loss.h"
#include "ops/op.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Parts {
  std::string inputs;
  std::string model;
  std::string kind = "column(6) -> ignore(-1) -> as_index(5)";
  std::string loss = "softmax_ce(a, kind)";
  std::string metrics = "accuracy(a, kind)";
  std::string more;
};

Checked checked(const Parts& parts) {
  return Checked(fmt::format(R"(
model m {{
  input x: f32[N, 6]
  {}
  a = x -> linear(5)
  b = x -> linear(4)
  output a
  {}
  head id = cosine_classifier(x, 5)
}}

data d {{
  source train = csv("train.csv")

  x      = columns(0..6)
  kind   = {}
  colour = column(7) -> ignore(-1) -> as_index(4)
  whole  = column(8) -> as_index(5)
}}

train t {{
  batch     = 64
  steps     = 10
  loss      = {} + 0.1 * cosface(id, whole)
  metrics   = [{}]
  optimizer = sgd
  lr        = 0.1
  {}
}}
)",
                             parts.inputs, parts.model, parts.kind, parts.loss, parts.metrics, parts.more),
                 {.ops = &ops::registry()});
}

// Returns the terms in order, each like "0.5 softmax_ce", without those of the head.
std::vector<std::string> terms_of(const std::string& loss) {
  const Checked made = checked({.loss = loss});
  EXPECT_TRUE(made.file.has_value()) << made.rendered();
  std::vector<std::string> texts;
  if (made.file) {
    const Graph& graph = made.module().graph;
    const auto terms = split_loss(graph, graph.loss, partial_labels(graph, made.module().data));
    EXPECT_TRUE(terms.ok()) << terms.error().message;
    for (const LossTerm& term : terms.value()) {
      const Node& node = graph.node(graph.value(term.rows).producer);
      if (node.op->name != "cosface") {
        texts.push_back(fmt::format("{} {}", term.factor, node.op->name));
      }
    }
  }
  return texts;
}

TEST(PartialLabels, PartsOfALossWithDifferentLabelsAreSeparateTerms) {
  EXPECT_THAT(terms_of("softmax_ce(a, kind)"), ElementsAre("1 softmax_ce"));
  EXPECT_THAT(terms_of("softmax_ce(a, kind) + 0.5 * softmax_ce(b, colour)"),
              ElementsAre("1 softmax_ce", "1 scale_shift"));
  EXPECT_THAT(terms_of("2 * (softmax_ce(b, colour) - softmax_ce(a, kind) * 0.25)"),
              ElementsAre("2 softmax_ce", "-2 scale_shift"));
  // Two parts of a loss that read the same label leave out the same rows.
  EXPECT_THAT(terms_of("softmax_ce(a, kind) + softmax_ce(a, kind, scale=2)"), ElementsAre("1 add"));
  EXPECT_THAT(terms_of("softmax_ce(a, kind) + softmax_ce(a, whole)"), ElementsAre("1 softmax_ce", "1 softmax_ce"));
}

TEST(PartialLabels, LossesAreMultipliedByTheFactorsOfTheirOwnLabel) {
  const auto inputs_of = [](const Parts& parts) {
    const Checked made = checked(parts);
    EXPECT_TRUE(made.file.has_value()) << made.rendered();
    std::vector<std::string> names;
    const Module prepared = prepare(made.module(), ops::registry(), {}).value();
    for (const NamedValue& input : prepared.graph.inputs) {
      if (input.name.find('.') != std::string::npos && !input.name.ends_with(".dx")) {
        names.push_back(input.name);
      }
    }
    return names;
  };
  EXPECT_THAT(inputs_of({.kind = "column(6) -> as_index(5)"}), IsEmpty());
  EXPECT_THAT(inputs_of({}), ElementsAre("kind.labelled"));
  EXPECT_THAT(inputs_of({.loss = "softmax_ce(a, kind) + softmax_ce(b, colour) + softmax_ce(a, whole)"}),
              ElementsAre("kind.labelled", "colour.labelled"));
}

TEST(PartialLabels, ReadersOtherThanLossesAndMetricsAreRejected) {
  struct Fault {
    Parts parts;
    const char* code;
    const char* message;
  };
  for (const Fault& fault : {
           Fault{{.inputs = "input kind: index(5)[N]\n  near = kind -> embed(5, 6)"},
                 "XG0424",
                 "`embed` reads `kind`, which some samples do not have"},
           Fault{{.loss = "softmax_ce(a, kind) * softmax_ce(b, colour)"},
                 "XG0504",
                 "losses of several labels are combined by more than a sum"},
           Fault{{.kind = "column(6) -> as_index(5) -> ignore(-1)"},
                 "XG0409",
                 "`ignore` names cells of the data, and here they are classes already"},
           Fault{{.kind = "column(6) -> ignore() -> as_index(5)"}, "XG0413", "`ignore` names no values"},
           Fault{{.kind = "column(6) -> ignore([]) -> as_index(5)"}, "XG0413", "`ignore` names no values"},
           Fault{{.kind = "column(6) -> ignore(0.5) -> as_index(5)"}, "XG0413", "`values` is [0.5]"},
       }) {
    const Checked made = checked(fault.parts);
    EXPECT_THAT(made.codes(), ::testing::Contains(fault.code)) << made.rendered();
    EXPECT_THAT(made.rendered(), HasSubstr(fault.message));
  }
}

TEST(PartialLabels, AnInputThatIsNotALabelNeedsAValueInEachSample) {
  const Checked made(R"(
model m {
  input x: f32[N, 6]
  a = x -> linear(5)
  output a
}

data d {
  source train = csv("train.csv")

  x    = columns(0..6) -> ignore(-1)
  kind = column(6) -> as_index(5)
}

train t {
  batch     = 64
  steps     = 10
  loss      = softmax_ce(a, kind)
  optimizer = sgd
  lr        = 0.1
}
)",
                     {.ops = &ops::registry()});
  EXPECT_THAT(made.codes(), ElementsAre("XG0424")) << made.rendered();
}

}  // namespace
}  // namespace xrun::lang
