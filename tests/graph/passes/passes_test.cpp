#include "graph/passes/passes.h"

#include <gtest/gtest.h>

#include "graph/gradients.h"
#include "graph/passes/autodiff.h"
#include "graph/passes/pipeline.h"
#include "graph/passes/untie.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "tests/support/parse_graph.h"
#include "tests/support/tiny_ops.h"

namespace xrun {
namespace {

using testing::draw_leaves;
using testing::evaluate;
using testing::random_tiny_graph;
using testing::tiny_registry;
using testing::TinyRun;

constexpr int64_t kRows = 3;

std::vector<double> output_of(const Graph& graph, uint64_t seed) {
  TinyRun run = draw_leaves(graph, kRows, seed);
  evaluate(graph, run);
  return run.values[static_cast<size_t>(graph.outputs[0].value.index)];
}

void expect_same_output(const Graph& before, const Graph& after, uint64_t seed) {
  ASSERT_TRUE(verify(after).ok()) << verify(after).error().message;
  const auto a = output_of(before, seed);
  const auto b = output_of(after, seed);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-12) << "seed " << seed << "\n" << print(before) << "\n" << print(after);
  }
}

class RandomGraphs : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphs, PrintAndParseGiveTheSameGraph) {
  const Graph graph = random_tiny_graph(GetParam(), 20);
  const std::string text = print(graph);
  const auto back = parse_graph(text, tiny_registry());
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(text, print(*back));
  EXPECT_TRUE(verify(*back).ok());
  expect_same_output(graph, *back, GetParam());
}

TEST(GraphText, ControlCharactersAreWrittenAsEscapesAndReadBack) {
  Graph graph = random_tiny_graph(1, 5);
  ASSERT_FALSE(graph.nodes.empty());
  graph.nodes[0].attrs.set("note", AttrValue(std::string("a\x1B[1m \"b\"\n\x7F")));
  const std::string text = print(graph);
  EXPECT_EQ(text.find('\x1B'), std::string::npos) << text;
  EXPECT_NE(text.find("a\\u{1B}[1m"), std::string::npos) << text;
  const auto back = parse_graph(text, tiny_registry());
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->nodes[0].attrs, graph.nodes[0].attrs);
  for (const char* wrong : {"\\u{}", "\\u{110000}", "\\u{41", "\\u{zz}"}) {
    std::string broken = text;
    broken.replace(broken.find("\\u{1B}"), 6, wrong);
    EXPECT_FALSE(parse_graph(broken, tiny_registry()).ok()) << broken;
  }
}

TEST_P(RandomGraphs, EveryPassKeepsTheOutput) {
  const Graph graph = random_tiny_graph(GetParam(), 20);
  expect_same_output(graph, simplify(graph).value(), GetParam());
  expect_same_output(graph, eliminate_common_subexpressions(graph).value(), GetParam());
  expect_same_output(graph, eliminate_dead_code(graph).value(), GetParam());
  expect_same_output(graph, fuse_elementwise(graph).value(), GetParam());
  expect_same_output(graph, mix_precision(graph, tiny_registry(), DType::kBF16).value(), GetParam());
}

// Compares gradients with central differences of the mean loss in a few elements of every parameter, on a graph without
// the kinks of relu.
TEST_P(RandomGraphs, GradientsAgreeWithFiniteDifferences) {
  const Graph forward = fuse_elementwise(simplify(random_tiny_graph(GetParam(), 14)).value()).value();
  const Graph graph = differentiate(forward, tiny_registry(), {.row_weight = 1.0 / kRows}).value();
  ASSERT_TRUE(verify(graph).ok()) << verify(graph).error().message;
  TinyRun base = draw_leaves(graph, kRows, GetParam());
  evaluate(graph, base);
  const auto loss_at = [&](ValueId param, size_t element, double delta) {
    TinyRun moved = draw_leaves(graph, kRows, GetParam());
    moved.values[static_cast<size_t>(param.index)][element] += delta;
    evaluate(graph, moved);
    double sum = 0;
    for (const double row : moved.values[static_cast<size_t>(graph.loss[0].rows.index)]) {
      sum += row / kRows;
    }
    return sum;
  };
  for (size_t p = 0; p < graph.params.size(); ++p) {
    const ValueId grad = graph.param_grads[p];
    const ValueId param = graph.params[p].value;
    for (size_t element = 0; element < 4; ++element) {
      const double up = loss_at(param, element, 1e-5);
      const double down = loss_at(param, element, -1e-5);
      const double middle = loss_at(param, element, 0);
      const double numeric = (up - down) / 2e-5;
      if (std::abs(up + down - 2 * middle) > 1e-7) {
        continue;  // a kink of relu lies between the two points
      }
      const double analytic = grad.valid() ? base.values[static_cast<size_t>(grad.index)][element] : 0.0;
      EXPECT_NEAR(numeric, analytic, 1e-4 * (1 + std::abs(numeric)))
          << graph.params[p].name << "[" << element << "], seed " << GetParam() << "\n"
          << print(graph);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range<uint64_t>(1, 41));

Graph parse(const std::string& text) {
  auto graph = parse_graph(text, tiny_registry());
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return std::move(graph).value();
}

TEST(Fuse, FusesReluWithItsProducer) {
  const Graph graph = parse(R"(input %0 x: f32[N, 4]
#0 %1: f32[N, 4] = add(%0, %0) @add
#1 %2: f32[N, 4] = relu(%1) @relu
output out %2
)");
  EXPECT_EQ(print(fuse_elementwise(graph).value()), R"(input %0 x: f32[N, 4]
#0 %1: f32[N, 4] = add(%0, %0) {relu=true} @add
output out %1
)");
}

TEST(Fuse, DoesNotFuseAReluWhoseOperandHasAnotherReader) {
  const Graph graph = parse(R"(input %0 x: f32[N, 4]
#0 %1: f32[N, 4] = add(%0, %0) @add
#1 %2: f32[N, 4] = relu(%1) @relu
#2 %3: f32[N, 4] = mul(%1, %2) @mul
output out %3
)");
  EXPECT_EQ(print(fuse_elementwise(graph).value()), print(graph));
}

TEST(Cse, MergesEqualCallsExceptRandomOnesAndThoseWithParameters) {
  const Graph graph = parse(R"(input %0 x: f32[N, 4]
#0 %1: f32[N, 4] = relu(%0) @relu
#1 %2: f32[N, 4] = relu(%0) @relu_2
#2 %3: f32[N, 4] = noise(%1) @noise
#3 %4: f32[N, 4] = noise(%2) @noise_2
#4 %5: f32[N, 4] = add(%3, %4) @add
output out %5
)");
  EXPECT_EQ(print(eliminate_common_subexpressions(graph).value()), R"(input %0 x: f32[N, 4]
#0 %1: f32[N, 4] = relu(%0) @relu
#1 %2: f32[N, 4] = noise(%1) @noise
#2 %3: f32[N, 4] = noise(%1) @noise_2
#3 %4: f32[N, 4] = add(%2, %3) @add
output out %4
)");
}

TEST(MixedPrecision, CastsActivationsOnceAndLeavesWeightsAndLosses) {
  const Graph graph = parse(R"(input %0 x: f32[N, 4]
param %1 a.weight: f32[4, 4] he_normal(4)
param %2 b.weight: f32[4, 4] he_normal(4)
#0 %3: f32[N, 4] = linear(%0, %1) {out=4} @a
#1 %4: f32[N, 4] = linear(%0, %2) {out=4} @b
#2 %5: f32[N, 4] = add(%3, %4) @add
#3 %6: f32[N] = square_loss(%5) @loss
output out %5
loss %6
)");
  EXPECT_EQ(print(mix_precision(graph, tiny_registry(), DType::kBF16).value()), R"(input %0 x: f32[N, 4]
param %1 a.weight: f32[4, 4] he_normal(4)
param %2 b.weight: f32[4, 4] he_normal(4)
#0 %3: bf16[N, 4] = cast(%0) {to="bf16"} @a.cast
#1 %4: bf16[N, 4] = linear(%3, %1) {out=4} @a
#2 %5: bf16[N, 4] = linear(%3, %2) {out=4} @b
#3 %6: bf16[N, 4] = add(%4, %5) @add
#4 %7: f32[N, 4] = cast(%6) {to="f32"} @loss.cast
#5 %8: f32[N] = square_loss(%7) @loss
output out %6
loss %8
)");
}

TEST(Autodiff, EachReaderOfAWeightHasAGradientOfItsOwn) {
  const Graph graph = parse(R"(input %0 x: f32[N, 4]
param %1 w: f32[4, 4] constant(1.0)
#0 %2: f32[N, 4] = linear(%0, %1) {out=4} @a
#1 %3: f32[N, 4] = linear(%2, %1) {out=4} @b
#2 %4: f32[N] = square_loss(%3) @loss
loss %4
)");
  const auto result = differentiate(graph, tiny_registry(), {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_TRUE(verify(*result).ok());
  const std::vector<ParamId> readers = tied_group(*result, ParamId(0));
  ASSERT_EQ(readers, tied_group(*result, ParamId(1)));
  ASSERT_EQ(readers.size(), 2U);
  EXPECT_EQ(result->parameter_count(), 16);
  EXPECT_EQ(result->param(readers[1]).name, "w");
  EXPECT_TRUE(result->is_tied_copy(readers[1]) && !result->is_tied_copy(readers[0]));
  EXPECT_NE(result->param_grads[readers[0]], result->param_grads[readers[1]]);
  EXPECT_EQ(result->node(NodeId(1)).inputs[1], result->param(readers[1]).value);
}

TEST(Autodiff, RejectsATiedWeightWithoutAGradientFromEveryReader) {
  const Graph graph = parse(R"(input %0 x: f32[N, 4]
param %1 w: f32[4, 4] constant(1.0)
#0 %2: f32[N, 4] = linear(%0, %1) {out=4} @a
#1 %3: f32[N, 4] = linear(%2, %1) {out=4} @b
#2 %4: f32[N] = square_loss(%2) @loss
loss %4
)");
  const auto result = differentiate(graph, tiny_registry(), {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, "XG0198");
}

TEST(Verify, FindsDamagedGraphs) {
  const Graph good = random_tiny_graph(5, 12);
  ASSERT_TRUE(verify(good).ok());
  Graph late = good;
  late.nodes[0].inputs[0] = late.nodes.back().outputs[0];
  EXPECT_FALSE(verify(late).ok());
  Graph typed = good;
  typed.value(typed.nodes.back().outputs[0]).type.dims = {kBatch, 9};
  EXPECT_FALSE(verify(typed).ok());
  Graph twins = good;
  twins.params.push_back(twins.params[0]);
  EXPECT_FALSE(verify(twins).ok());
}

TEST(ParseGraph, RejectsInvalidTextWithAMessage) {
  for (const char* text :
       {"inputt %0 x: f32[N]\n", "input %0 x: f99[N]\n", "#0 %1: f32[N] = relu(%0) @r\n",
        "input %0 x: f32[N, 4]\n#0 %1: f32[N, 4] = unknown(%0) @r\n", "input %99999999999 x: f32[N]\n",
        "input %5 x: f32[N]\n", "input %0 x: f32[N\n", "loss %0\n", "head h #0\n"}) {
    const auto graph = parse_graph(text, tiny_registry());
    ASSERT_FALSE(graph.ok()) << text;
    EXPECT_NE(graph.error().message.find("graph text"), std::string::npos);
  }
}

// A part of the model that only makes an output stays in the graph. Its weights get no gradient.
TEST(Autodiff, WeightsOfAPartThatTheLossDoesNotReadHaveNoGradient) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kBatch, 4}});
  const auto call = [&](const char* op, ValueId input, const char* path, Attrs attrs) {
    const NodeId node = call_op(graph, *tiny_registry().find(op), {input}, std::move(attrs), path, {}).value();
    return graph.node(node).outputs[0];
  };
  graph.outputs.push_back({"side", call("linear", x, "side", {{"out", int64_t{2}}})});
  graph.loss = {{call("square_loss", call("linear", x, "main", {{"out", int64_t{3}}}), "loss", {})}};
  EXPECT_FALSE(has_gradient(graph, ParamId(0)));
  const auto made = differentiate(graph, tiny_registry(), {});
  ASSERT_TRUE(made.ok());
  for (size_t p = 0; p < made->params.size(); ++p) {
    EXPECT_EQ(has_gradient(*made, ParamId(p)), made->params[p].name == "main.weight") << made->params[p].name;
  }
}

}  // namespace
}  // namespace xrun
