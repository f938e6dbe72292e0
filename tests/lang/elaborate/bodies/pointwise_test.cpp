// `pointwise` functions and parameters of blocks: the graph that they become, and uses that are rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/print.h"
#include "ops/op.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Checks `declarations` before a model that has one input and `body`.
struct Answer : Checked {
  Answer(const std::string& declarations, const std::string& body, const std::string& input = "x: f32[N, 8]")
      : Checked(declarations + "\nmodel m {\n  input " + input + "\n" + body + "  output y\n}\n",
                {.ops = &ops::registry()}) {}
  // Returns the functions of the graph's `map` operators, in order.
  std::vector<std::string> maps() const {
    EXPECT_TRUE(file.has_value()) << rendered();
    std::vector<std::string> texts;
    for (const Node& node : file ? file->module.graph.nodes : IdVector<NodeId, Node>()) {
      if (node.op->name == "map") {
        texts.push_back(node.attrs.text("y"));
      }
    }
    return texts;
  }
};

TEST(Pointwise, AFunctionBecomesOneNode) {
  const Answer swish("pointwise swish(x, beta = 1.0) = x * sigmoid(beta * x)\n", "  y = x -> swish(beta=1.5)\n");
  EXPECT_THAT(swish.maps(), ElementsAre("x0 * sigmoid(1.5 * x0)"));
  EXPECT_EQ(swish.file->module.graph.nodes[0].path, "swish");
  EXPECT_THAT(swish.codes(), IsEmpty());
}

TEST(Pointwise, AFunctionMayCallOperatorsAndOtherFunctions) {
  const Answer nested(
      "fn third(a) = a / 3\n"
      "pointwise inner(x) = gelu(x) + third(x)\n"
      "pointwise outer(a, b) = inner(a) * max(b, 0, -1) - clamp(a, -1, 1) ^ 2\n",
      "  y = outer(x -> linear(8), x)\n");
  ASSERT_EQ(nested.maps().size(), 1U) << nested.rendered();
  EXPECT_EQ(nested.maps()[0],
            "t0 = select(x0 < -1, -1, select(1 < x0, 1, x0)); "
            "(0.5 * x0 * (1 + erf(0.7071067811865476 * x0)) + x0 / 3) * max(max(x1, 0), -1) - t0 * t0");
}

TEST(Pointwise, ConditionsBecomeSelections) {
  const Answer choice("pointwise f(x) = if x > 0 and not x >= 2 { x } else { -x }\n", "  y = x -> f\n");
  EXPECT_THAT(choice.maps(), ElementsAre("select((0 < x0) * select(2 <= x0, 0, 1), x0, -x0)"));
  const Answer stages("pointwise f(x) = x -> if x < 0 { exp } -> residual { sin }\n", "  y = x -> f\n");
  EXPECT_THAT(stages.maps(), ElementsAre("t0 = select(x0 < 0, exp(x0), x0); t0 + sin(t0)"));
  const Answer constant("pointwise f(x, flag = true) = if flag { x * x } else { x }\n", "  y = x -> f(flag=false)\n");
  EXPECT_THAT(constant.maps(), ElementsAre("x0"));
}

TEST(Pointwise, ATensorGivenTwiceIsReadOnce) {
  const Answer square("pointwise times(a, b) = a * b\n", "  y = times(x, x)\n");
  EXPECT_THAT(square.maps(), ElementsAre("x0 * x0"));
  EXPECT_EQ(square.file->module.graph.nodes[0].inputs.size(), 1U);
}

TEST(Pointwise, ACallWithNumbersGivesANumber) {
  const Answer size("pointwise half(x) = floor(x / 2)\n", "  y = x -> linear(half(9))\n");
  EXPECT_THAT(size.codes(), IsEmpty()) << size.rendered();
  EXPECT_EQ(size.file->module.graph.nodes[0].attrs.integer("out"), 4);
}

TEST(Pointwise, StandardFunctionsNeedNoImport) {
  const Answer known("", "  y = x -> hswish -> leaky_relu(0.2) -> softplus\n");
  EXPECT_THAT(known.maps(), ElementsAre("t0 = x0 + 3; x0 * (select(t0 < 0, 0, select(6 < t0, 6, t0)) / 6)",
                                        "select(0 < x0, x0, 0.2 * x0)", "max(x0, 0) + log(1 + exp(-abs(x0)))"));
  const Answer own("pointwise hswish(x) = 2 * x\n", "  y = x -> hswish\n");
  EXPECT_THAT(own.maps(), ElementsAre("2 * x0"));
}

TEST(Pointwise, OperationsWithoutAnOperatorOfTheirOwnBecomeMaps) {
  const Answer signs("", "  y = max(x ^ 2, x) * (x > 0.5) + min(x % 3, x)\n");
  EXPECT_THAT(signs.maps(), ElementsAre("x0 * x0", "max(x0, x1)", "0.5 < x0", "x0 - floor(x0 / 3) * 3", "min(x0, x1)"));
  const Answer axis("", "  y = max(x, 1)\n");
  EXPECT_THAT(axis.maps(), IsEmpty());
  EXPECT_EQ(axis.file->module.graph.nodes[0].op->name, "max");
}

TEST(Pointwise, BodiesAreCheckedWhereverTheyAreCalled) {
  const auto codes = [](const std::string& declarations) { return Answer(declarations, "  y = x -> relu\n").codes(); };
  EXPECT_THAT(codes("pointwise f(x) = x * sigmoit(x)\n"), ElementsAre("XG0201"));
  EXPECT_THAT(codes("pointwise f(x) = y * x\n"), ElementsAre("XG0201"));
  EXPECT_THAT(codes("pointwise f(x) = f(x)\n"), ElementsAre("XG0208"));
  EXPECT_THAT(codes("pointwise f(x) = x -> conv(3)\n"), ElementsAre("XG0220"));
  EXPECT_THAT(codes("block b(x: [N, D]) { return x -> relu }\npointwise f(x) = b(x)\n"), ElementsAre("XG0220"));
  EXPECT_THAT(codes("block b(x: [N, D]) { return x -> relu }\npointwise f(x) = b * x\n"), ElementsAre("XG0220"));
  EXPECT_THAT(codes("pointwise f(x) = if x { 1 } else { 2 }\n"), ElementsAre("XG0304"));
  EXPECT_THAT(codes("pointwise f(x) = x + \"a\"\n"), ElementsAre("XG0304"));
  EXPECT_THAT(codes("pointwise f(x) = x + 3MiB\n"), ElementsAre("XG0304"));
  EXPECT_THAT(codes("pointwise f(x) = (x, x)\n"), ElementsAre("XG0304"));
  EXPECT_THAT(codes("pointwise f(x) = exp(x, x)\n"), ElementsAre("XG0204"));
  EXPECT_THAT(codes("pointwise f(x) = exp(v=x)\n"), ElementsAre("XG0203"));
}

TEST(Pointwise, OperandsBroadcast) {
  const std::string scale = "pointwise scale(x, s) = x * s\n";
  const Answer fits(scale, "  y = scale(x, x -> global_avg_pool -> reshape([N, 3, 1, 1]))\n", "x: f32[N, 3, 4, 4]");
  EXPECT_THAT(fits.codes(), IsEmpty()) << fits.rendered();
  const Answer differs(scale, "  y = scale(x, x -> linear(5))\n");
  EXPECT_THAT(differs.codes(), ElementsAre("XG0301"));
  EXPECT_THAT(differs.rendered(), HasSubstr("f32[N, 8] and f32[N, 5]"));
  const Answer text("pointwise f(x, s = 1) = x * s\n", "  y = f(x, \"a\")\n");
  EXPECT_THAT(text.codes(), ElementsAre("XG0205"));
}

TEST(Pointwise, FunctionsThatCannotTrainAreReported) {
  const Answer log("pointwise f(x) = log(-1 - x * x)\n", "  y = x -> f\n");
  EXPECT_THAT(log.codes(), ElementsAre("XG0313"));
  EXPECT_THAT(log.rendered(), HasSubstr("`log` has no finite value"));
  const Answer corner("pointwise f(x) = sqrt(x - x)\n", "  y = x -> relu\n");
  EXPECT_THAT(corner.codes(), ElementsAre("XG0313"));
  const Answer fine("pointwise f(x) = if x > 0 { log(x) } else { 0 }\n", "  y = x -> f\n");
  EXPECT_THAT(fine.codes(), IsEmpty());
}

TEST(Pointwise, UnusualCallsAreAcceptedOrRejectedWithACode) {
  const auto codes = [](const std::string& declarations, const std::string& body = "  y = x -> relu\n") {
    return Answer(declarations, body).codes();
  };
  EXPECT_THAT(codes("pointwise f(x, y = x * 2) = x + y\n"), IsEmpty());
  EXPECT_THAT(codes("pointwise f(x) = acos(x)\nlet c = 1 + f(2)\n", "  y = x * c\n"), ElementsAre("XG0304"));
  EXPECT_THAT(codes("pointwise f(x) = acos(x)\n", "  y = x * f(2)\n"), ElementsAre("XG0304"));
  EXPECT_THAT(codes("pointwise f(x) = x > 0 and x > zz\n"), ElementsAre("XG0201"));
  EXPECT_THAT(codes("let k = exp(2)\npointwise f(x) = x * k\n", "  y = x -> f -> linear(floor(k))\n"), IsEmpty());
  EXPECT_THAT(codes("pointwise f(x) = x * 1e300\n"), ElementsAre("XG0313"));
  const Answer axis("", "  y = max(x, x, 0) + ((x, x * 2) -> max) + max(2, x)\n");
  EXPECT_THAT(axis.maps(), ElementsAre("max(max(x0, x0), 0)", "max(x0, x1)", "max(2, x0)"));
  const Checked margin(
      "pointwise lin(c, m = 0.5) = m ^ 2 * (c + 1)\n" +
          replaced(small_run(), "softmax_ce(id, label, scale=16)", "margin_softmax(id, label, lin(m=feature), 16)"),
      {.ops = &ops::registry()});
  EXPECT_THAT(margin.codes(), ElementsAre("XG0205"));
}

TEST(Pointwise, FunctionWithTooManyOperationsIsRejected) {
  std::string chain;
  for (int i = 0; i < 30; ++i) {
    chain += "pointwise f" + std::to_string(i) + "(x) = " +
             (i == 0 ? std::string("sin(x) + 1")
                     : "f" + std::to_string(i - 1) + "(sin(f" + std::to_string(i - 1) + "(x)))") +
             "\n";
  }
  const Answer doubled(chain, "  y = x -> f29\n");
  EXPECT_THAT(doubled.codes(), testing::Contains("XG0216"));
}

TEST(Pointwise, AFunctionPassedAsAnArgumentKeepsItsFirstParameterFree) {
  const auto answer = [](const std::string& loss) {
    return Checked("pointwise arc(c, m = 0.5) = cos(acos(clamp(c, -1, 1)) + m)\npointwise two(a, b) = a + b\n" +
                       replaced(small_run(), "softmax_ce(id, label, scale=16)", loss),
                   {.ops = &ops::registry()});
  };
  const Checked arc = answer("margin_softmax(id, label, arc(m=0.3), 16)");
  ASSERT_TRUE(arc.file.has_value()) << arc.rendered();
  const Graph& graph = arc.module().graph;
  EXPECT_EQ(graph.node(graph.value(graph.loss[0].rows).producer).attrs.text("f"),
            "cos(acos(select(x0 < -1, -1, select(1 < x0, 1, x0))) + 0.3)");
  EXPECT_THAT(answer("margin_softmax(id, label, arc, 16)").codes(), IsEmpty());
  EXPECT_THAT(answer("margin_softmax(id, label, arc(k=1), 16)").codes(), ElementsAre("XG0203"));
  EXPECT_THAT(answer("margin_softmax(id, label, two, 16)").codes(), ElementsAre("XG0204"));
  EXPECT_THAT(answer("margin_softmax(id, label, 3, 16)").codes(), ElementsAre("XG0205"));
  EXPECT_THAT(answer("margin_softmax(id, label, relu, 16)").codes(), ElementsAre("XG0205"));
  EXPECT_THAT(answer("margin_softmax(id, label, ark, 16)").codes(), ElementsAre("XG0201"));
}

TEST(OwnParams, AreNamedByTheirScope) {
  const Answer scaled(
      "block scaled(x: [N, D]) -> [N, D] {\n"
      "  param gamma: [D] = constant(1e-4)\n"
      "  param w: [3, D] = he_normal()\n"
      "  return x * gamma + w\n}\n",
      "  y = x -> linear(3) -> linear(3) -> relu\n", "x: f32[N, 8]");
  EXPECT_THAT(scaled.codes(), testing::Not(IsEmpty()));  // [N, D] and [3, D] differ
  const Answer good(
      "block scaled(x: [N, D]) -> [N, D] {\n"
      "  param gamma: [D] = constant(1e-4)\n"
      "  param shift: [1] = 0.5\n"
      "  return x * gamma + shift\n}\n",
      "  y = x -> scaled as first -> scaled\n");
  ASSERT_TRUE(good.file.has_value()) << good.rendered();
  std::vector<std::string> names;
  for (const Parameter& parameter : good.file->module.graph.params) {
    names.push_back(parameter.name + " " + to_text(good.file->module.graph.value(parameter.value).type));
  }
  EXPECT_THAT(names,
              ElementsAre("first.gamma f32[8]", "first.shift f32[1]", "scaled.gamma f32[8]", "scaled.shift f32[1]"));
  EXPECT_EQ(good.file->module.graph.params[0].init.value, 1e-4);
  EXPECT_EQ(good.file->module.graph.params[1].init.value, 0.5);
}

TEST(OwnParams, MayBeReadBySeveralOperators) {
  const auto checked = [](const std::string& feature) {
    return Checked(replaced(small_run(), "  feature = x -> linear(4) as embed\n",
                            "  param p: [4] = ones\n  embed = x -> linear(4)\n  feature = " + feature + "\n"),
                   {.ops = &ops::registry()});
  };
  const Checked once = checked("embed * p");
  ASSERT_TRUE(once.file.has_value()) << once.rendered();
  EXPECT_TRUE(once.module().not_yet.empty());
  const Checked twice = checked("embed * p + p");
  ASSERT_TRUE(twice.file.has_value()) << twice.rendered();
  EXPECT_TRUE(twice.module().not_yet.empty());
  const Checked without = checked("embed * p + stop_gradient(p * embed)");
  EXPECT_THAT(without.rendered(), HasSubstr("XG0198]: this operator reads the weight `p` and gives it no gradient"));
}

TEST(OwnParams, WrongInitialValuesAreRejected) {
  const auto answer = [](const std::string& param) {
    return Answer("", "  param p: " + param + "\n  y = x * p\n").codes();
  };
  EXPECT_THAT(answer("[8] = ones"), IsEmpty());
  EXPECT_THAT(answer("[8] = normal(0.02)"), IsEmpty());
  EXPECT_THAT(answer("[8] = glorot()"), ElementsAre("XG0201"));
  EXPECT_THAT(answer("[8] = normal()"), ElementsAre("XG0204"));
  EXPECT_THAT(answer("[8] = uniform(0, 1)"), ElementsAre("XG0204"));
  EXPECT_THAT(answer("[8] = normal(-1)"), ElementsAre("XG0303"));
  EXPECT_THAT(answer("[8] = \"a\""), ElementsAre("XG0304"));
  EXPECT_THAT(answer("[N, 8] = ones"), ElementsAre("XG0302"));
  EXPECT_THAT(answer("bf16[8] = ones"), ElementsAre("XG0302"));
  EXPECT_THAT(answer("[7] = ones"), ElementsAre("XG0301"));
  EXPECT_THAT(answer("[8] = 1e300"), ElementsAre("XG0303"));
}

// A function may combine two parameters first. When it then reads a tensor of the batch, the whole function becomes one
// node.
TEST(FunctionsOfParams, BecomeOneNodeWhenTheyReadATensor) {
  const auto model = [](const std::string& statements) {
    return Checked(
        "model m {\n  input x: f32[N, 8]\n\n  param a: [8] = ones\n  param b: [8] = ones\n  param t: [1] = 0\n\n" +
            statements + "  output y\n}\n",
        {.ops = &ops::registry()});
  };
  const auto text_of = [&](const std::string& statements) {
    const Checked made = model(statements);
    EXPECT_TRUE(made.file.has_value()) << made.rendered();
    return made.file ? made.module().graph.nodes.back().attrs.text("y") : std::string();
  };
  EXPECT_EQ(text_of("  scale = sqrt(a ^ 2 + 1e-3) * exp(t)\n  y = x / scale - b\n"),
            text_of("  y = (x / (sqrt(a ^ 2 + 1e-3) * exp(t))) - b\n"));
  EXPECT_EQ(text_of("  y = x * exp(t)\n"), "x0 * exp(x1)");
  EXPECT_EQ(text_of("  gate = tanh(t)\n  y = gate * (x * (a + b))\n"), "tanh(x0) * x1");
  EXPECT_EQ(text_of("  y = x * max(-a, b, 0.1)\n"), "x0 * max(max(-x1, x2), 0.1)");
  EXPECT_EQ(text_of("  y = hswish(a + t) * x\n").find("hswish"), std::string::npos);
}

TEST(FunctionsOfParams, AreRejectedByOperatorsOnTheBatch) {
  for (const char* value : {"linear(4)", "relu", "softmax"}) {
    const Checked made("model m {\n  input x: f32[N, 8]\n\n  param a: [8] = ones\n\n  y = a + 1 -> " +
                           std::string(value) + "\n  z = x * a\n  output z\n}\n",
                       {.ops = &ops::registry()});
    EXPECT_FALSE(made.file.has_value());
    EXPECT_THAT(made.rendered(), HasSubstr("a function of parameters")) << made.rendered();
  }
}

}  // namespace
}  // namespace xrun::lang
