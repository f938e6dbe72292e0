// States of blocks and models: an assignment becomes an update, and wrong assignments are rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Checks a model of x: f32[N, 4] with these statements.
Checked model(const std::string& statements, const std::string& declarations = "") {
  return Checked(declarations + "\nmodel m {\n  input x: f32[N, 4]\n\n" + statements + "  output y\n}\n",
                 {.ops = &ops::registry()});
}

TEST(OwnStates, AnAssignmentBecomesAnUpdate) {
  const Checked made =
      model("  y = x -> centered(0.75) as c -> linear(3)\n",
            "block centered(x: [N, D], keep: float) -> [N, D] {\n  state center: [D] = 0.5\n\n"
            "  center = keep * center + (1 - keep) * (batch_mean(x) + batch_mean(x * x))\n  return x - center\n}\n");
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
  const Graph& graph = made.module().graph;
  ASSERT_EQ(graph.params.size(), 3U);
  const Parameter& center = graph.params[0];
  EXPECT_EQ(center.name, "c.center");
  EXPECT_FALSE(center.trained);
  EXPECT_EQ(center.init.value, 0.5);
  EXPECT_EQ(graph.parameter_count(), 4 * 3 + 3);  // states are not trained
  const auto update = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.op->folds_states; });
  ASSERT_NE(update, graph.nodes.end());
  EXPECT_EQ(update->op->name, "state.update");
  EXPECT_EQ(update->path, "c.update");
  EXPECT_EQ(update->attrs.text("y"), "0.75 * x0 + 0.25 * (x1 + x2)");
  ASSERT_EQ(update->inputs.size(), 3U);
  EXPECT_EQ(update->operands, 2);
  EXPECT_EQ(update->inputs[2], center.value);
}

TEST(OwnStates, AStateOfOneNumberMayAverageOneNumberPerSample) {
  const Checked made = model("  state level: [1] = 0\n\n  level = batch_mean(x -> mean(1))\n  y = x - level\n");
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
}

TEST(OwnStates, AFunctionOfNumbersMayBeCalled) {
  const Checked made = model("  state s: [4] = 1\n\n  s = limit(max(s, batch_mean(x)))\n  y = x / s\n",
                             "pointwise limit(a) = clamp(a, 0.1, 9)\n");
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
}

struct Fault {
  const char* name;
  const char* statements;
  const char* code;
  const char* message;
};

class Faults : public ::testing::TestWithParam<Fault> {};

TEST_P(Faults, InvalidStatesAreRejectedWithAMessage) {
  const Checked made = model(GetParam().statements);
  EXPECT_THAT(made.codes(), ElementsAre(GetParam().code)) << made.rendered();
  EXPECT_THAT(made.rendered(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    OwnStates, Faults,
    ::testing::Values(
        Fault{"NoAssignment", "  state s: [4] = 0\n\n  y = x - s\n", "XG0230", "the state `s` is never assigned"},
        Fault{"NoMean", "  state s: [4] = 0\n\n  s = s + 1\n  y = x - s\n", "XG0230", "reads no mean of the batch"},
        Fault{"Twice", "  state s: [4] = 0\n\n  s = batch_mean(x)\n  s = s + batch_mean(x)\n  y = x - s\n", "XG0202",
              "`s` is assigned twice"},
        Fault{"OutsideOfAnAssignment", "  y = x - batch_mean(x)\n", "XG0230",
              "`batch_mean` is allowed only in the assignment of a state"},
        Fault{"InsideOfAMean", "  state s: [4] = 0\n\n  s = batch_mean(x - batch_mean(x))\n  y = x - s\n", "XG0230",
              "`batch_mean` is allowed only in the assignment of a state"},
        Fault{"AnotherShape", "  state s: [5] = 0\n\n  s = batch_mean(x)\n  y = x\n  z = s\n", "XG0301",
              "`s` is f32[5], but the mean here has the shape of one sample of f32[N, 4]"},
        Fault{"ATensor", "  state s: [4] = 0\n\n  s = s + x\n  y = x - s\n", "XG0304",
              "the assignment of a state computes with plain numbers, not with a tensor"},
        Fault{"ANumber", "  state s: [4] = 0\n\n  s = batch_mean(1)\n  y = x - s\n", "XG0230",
              "`batch_mean` takes one tensor of the batch"},
        Fault{"NoType", "  state s = 0\n\n  s = batch_mean(x)\n  y = x - s\n", "XG0302",
              "write its dimensions without `N`: state s: [64] = 0"},
        Fault{"AsAnOutput", "  state s: [4] = 0\n\n  s = batch_mean(x)\n  y = x - s\n  output s\n", "XG0303",
              "an output is computed for each sample, and `s` is a state"},
        Fault{"AsAWeight", "  state s: [4] = 0\n\n  s = batch_mean(x)\n  y = x -> rms_norm(weight=s)\n", "XG0301",
              "`rms_norm` trains its tensor `weight`, but gets a state"},
        Fault{"OfTheBatch", "  state s: [N, 4] = 0\n\n  s = batch_mean(x)\n  y = x - s\n", "XG0302",
              "a state of a block is f32"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(OwnStates, ATypeOfAnOptimizerStateIsRejected) {
  const Checked made("optimizer own(lr) {\n  state m: [4] = 0\n  m = m + grad\n  weight = weight - lr * m\n}\n",
                     {.ops = &ops::registry()});
  EXPECT_THAT(made.codes(), ElementsAre("XG0228")) << made.rendered();
  EXPECT_THAT(made.rendered(), HasSubstr("leave it out: state m = 0"));
}

}  // namespace
}  // namespace xrun::lang
