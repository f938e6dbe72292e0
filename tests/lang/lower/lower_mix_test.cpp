// Bindings with `mixup` and `cutmix`: the loss over two labels, and uses that are rejected.
#include <algorithm>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/layouts/mixed_labels.h"
#include "graph/passes/pipeline.h"
#include "ops/op.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Parts {
  std::string image = "decode(8) -> mixup(0.2)";
  std::string more_data;
  std::string inputs;
  std::string model;
  std::string loss = "softmax_ce(a, kind)";
  std::string train = "batch = 64";
};

Checked checked(const Parts& parts) {
  return Checked(fmt::format(R"(
model m {{
  input image: f32[N, 3, 8, 8]
  {}
  feature = image -> flatten -> linear(6)
  a = feature -> linear(5)
  b = feature -> linear(4)
  output a
  {}
}}

data d {{
  source train = webdataset("a.tar")
  source test  = webdataset("b.tar")

  image  = jpg -> {}
  kind   = cls -> as_index(5)
  colour = cls -> as_index(4)
  {}
}}

train t {{
  {}
  steps     = 10
  loss      = {}
  optimizer = sgd
  lr        = 0.1
}}
)",
                             parts.inputs, parts.model, parts.image, parts.more_data, parts.train, parts.loss),
                 {.ops = &ops::registry()});
}

// The inputs of the training graph that the program adds.
std::vector<std::string> made_inputs(const Parts& parts, bool training = true) {
  const Checked made = checked(parts);
  EXPECT_TRUE(made.file.has_value()) << made.rendered();
  std::vector<std::string> names;
  if (made.file) {
    const Module prepared = prepare(made.module(), ops::registry(), {.training = training}).value();
    for (const NamedValue& input : prepared.graph.inputs) {
      if (input.name.find('.') != std::string::npos && !input.name.ends_with(".dx")) {
        names.push_back(input.name);
      }
    }
  }
  return names;
}

TEST(MixedLabels, ATrainingReadsAPartnerForEachLabelAndTheShares) {
  EXPECT_THAT(made_inputs({.image = "decode(8)"}), IsEmpty());
  EXPECT_THAT(made_inputs({}), ElementsAre("kind.partner", "image.share", "image.partner_share"));
  EXPECT_THAT(made_inputs({}, false), IsEmpty()) << "an evaluation mixes nothing";
  EXPECT_THAT(made_inputs({.loss = "softmax_ce(a, kind) + 0.5 * softmax_ce(b, colour)"}),
              ElementsAre("kind.partner", "colour.partner", "image.share", "image.partner_share"));
  EXPECT_THAT(made_inputs({.image = "decode(8) -> cutmix(1, one_label=true)"}), IsEmpty());
  EXPECT_THAT(made_inputs({.train = "batch = 64\n  class_weights = inverse_frequency"}),
              ElementsAre("kind.class_weight", "kind.partner", "kind.partner_class_weight", "image.share",
                          "image.partner_share"));
}

// Losses of the two labels read the same logits, so the network is computed once.
TEST(MixedLabels, OnlyTheLossIsRepeated) {
  const auto count = [](const Parts& parts, std::string_view op) {
    const Checked made = checked(parts);
    EXPECT_TRUE(made.file.has_value()) << made.rendered();
    const Graph graph = prepare(made.module(), ops::registry(), {}).value().graph;
    return std::ranges::count_if(graph.nodes, [&](const Node& node) { return node.op->name == op; });
  };
  EXPECT_EQ(count({.image = "decode(8)"}, "softmax_ce"), 1);
  EXPECT_EQ(count({}, "softmax_ce"), 2);
  EXPECT_EQ(count({}, "linear"), count({.image = "decode(8)"}, "linear"));
  // A part of the loss without a label is not repeated, since the shares add up to 1.
  EXPECT_EQ(count({.loss = "softmax_ce(a, kind) + 0.1 * mse(b, b -> stop_gradient)"}, "softmax_ce"), 2);
}

TEST(MixedLabels, TheNamesOfInputsAreThoseOfTheirLabels) {
  const Checked made = checked({.image = "decode(8) -> mixup(0.2) -> cutmix(1, p=0.5)"});
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  const DataBinding* mixed = mixed_binding(made.module().data);
  ASSERT_NE(mixed, nullptr);
  EXPECT_EQ(mixed->target, "image");
  EXPECT_EQ(mixing_stage(*mixed)->name, "mixup");
  EXPECT_FALSE(draws_label(*mixing_stage(*mixed)));
}

TEST(MixedLabels, UsesThatCannotBeMixedAreRejected) {
  struct Fault {
    Parts parts;
    const char* code;
    const char* message;
  };
  const std::string head = "head id = cosine_classifier(feature, 5)";
  for (const Fault& fault : {
           Fault{{.image = "decode(8) -> mixup(0.2) -> random_flip"},
                 "XG0409",
                 "`random_flip` comes after `mixup`, which mixes finished rows"},
           Fault{{.image = "decode(8) -> mixup(0.2) -> mixup(1)"}, "XG0409", "`mixup` occurs twice"},
           Fault{{.image = "decode(8) -> mixup(0.2) -> cutmix(1, one_label=true)"},
                 "XG0434",
                 "only one of `mixup` and `cutmix` has one_label=true"},
           Fault{{.image = "mixup(0.2)"}, "XG0409", "`mixup` needs numbers, but `jpg` is an encoded file"},
           Fault{{.image = "decode(8) -> mixup(0)"}, "XG0413", "`alpha` is 0"},
           Fault{{.image = "decode(8) -> cutmix(1, p=1.5)"}, "XG0413", "`p` is 1.5"},
           Fault{{.image = "decode(8) -> cutmix"}, "XG0204", "alpha"},
           Fault{{.more_data = "other = png -> decode(8) -> mixup(0.2)",
           .inputs = "input other: f32[N, 3, 8, 8]",
           .loss = "softmax_ce(a, kind) + mse(image, other)"},
                 "XG0434",
                 "both `image` and `other` are mixed"},
           Fault{{.more_data = "other = png -> decode(8)",
           .inputs = "input other: f32[N, 3, 8, 8]",
           .loss = "softmax_ce(a, kind) + mse(image, other)"},
                 "XG0434",
                 "the loss also reads `other`, which `mixup` does not mix"},
           Fault{{.inputs = "input colour: index(4)[N]\n  near = colour -> embed(4, 6)",
           .model = "c = feature + near -> linear(5)",
           .loss = "softmax_ce(c, kind)"},
                 "XG0434",
                 "`embed` reads `colour`, of which a mixed row has two"},
           Fault{{.more_data = "part = cls -> ignore(-1) -> as_index(5)", .loss = "softmax_ce(a, part)"},
                 "XG0434",
                 "`mixup` needs two labels for a row, but some samples have no `part`"},
           Fault{{.more_data = "part = cls -> ignore(-1) -> as_index(5)",
           .train = "batch = 64\n  metrics = [accuracy(a, part)]"},
                 "XG0434",
                 "`mixup` needs two labels for a row, but some samples have no `part`"},
           Fault{{.loss = "mse(a, a -> stop_gradient)"},
                 "XG0434",
                 "`mixup` mixes samples of two classes, but the loss compares with no class"},
           Fault{{.train = "batch = 1"}, "XG0434", "a batch of one sample has no other sample that `mixup` could mix"},
           Fault{{.model = head, .loss = "cosface(id, kind)"},
                 "XG0434",
                 "`mixup` gives each row two labels, but the sharded head compares a row with one class"},
       }) {
    const Checked made = checked(fault.parts);
    EXPECT_THAT(made.codes(), ::testing::Contains(fault.code)) << fault.message << "\n" << made.rendered();
    EXPECT_THAT(made.rendered(), HasSubstr(fault.message));
  }
  const Checked drawn =
      checked({.image = "decode(8) -> mixup(0.2, one_label=true)", .model = head, .loss = "cosface(id, kind)"});
  EXPECT_TRUE(drawn.file.has_value()) << drawn.rendered();
}

TEST(MixedLabels, RowsOfNumbersCanBeMixedAsWell) {
  const Checked made(R"(
model m {
  input x: f32[N, 6]
  a = x -> linear(5)
  output a
}

data d {
  source train = csv("train.csv")

  x    = columns(0..6) -> standardize -> mixup(0.2)
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
  EXPECT_TRUE(made.file.has_value()) << made.rendered();
}

}  // namespace
}  // namespace xrun::lang
