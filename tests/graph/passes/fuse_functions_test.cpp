// Functions after a batch norm are fused with it into one operator: which functions are fused, and that a prelu keeps
// the bits of results and, in f32, of gradients.
#include <gtest/gtest.h>

#include "graph/passes/autodiff.h"
#include "graph/passes/passes.h"
#include "graph/print.h"
#include "tests/ops/graph_builder.h"

namespace xrun::ops {
namespace {

const Attrs kNorm{{"momentum", 0.1}, {"eps", 1e-5}};

Graph fused(const Graph& graph) { return fuse_functions(fuse_elementwise(graph).value(), registry()).value(); }

std::vector<std::string> operators_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    names.emplace_back(node.op->name);
  }
  return names;
}

TEST(FuseFunctions, APreluIsFusedWithTheNormBeforeIt) {
  GraphBuilder b;
  b.output(b.call("prelu", {b.call("bn", {b.input({8})}, kNorm)}));
  const Graph graph = fused(b.graph);
  ASSERT_EQ(operators_of(graph), std::vector<std::string>{"bn.prelu"});
  const Node& node = graph.nodes[0];
  ASSERT_EQ(node.inputs.size(), 6U);
  EXPECT_EQ(graph.param(graph.value(node.inputs[5]).param).name, "prelu1.slope") << "the weights keep their names";
  EXPECT_EQ(graph.params.size(), b.graph.params.size());
}

TEST(FuseFunctions, OtherFunctionsAreNotFused) {
  using Names = std::vector<std::string>;
  GraphBuilder twice;  // the norm has a second reader
  const ValueId norm = twice.call("bn", {twice.input({8})}, kNorm);
  twice.output(twice.call("add", {twice.call("prelu", {norm}), norm}));
  EXPECT_EQ(operators_of(fused(twice.graph)), (Names{"bn", "prelu", "add"}));
  GraphBuilder held;  // the norm is an output
  held.output(held.call("bn", {held.input({8})}, kNorm));
  held.output(held.call("prelu", {held.graph.outputs[0].value}));
  EXPECT_EQ(operators_of(fused(held.graph)), (Names{"bn", "prelu"}));
  GraphBuilder cut;  // a relu is between the norm and the prelu
  cut.output(cut.call("prelu", {cut.call("relu", {cut.call("bn", {cut.input({8})}, kNorm)})}));
  EXPECT_EQ(operators_of(fused(cut.graph)), (Names{"bn", "prelu"}));
  GraphBuilder sum;  // there is no norm
  sum.output(sum.call("prelu", {sum.call("add", {sum.input({8}), sum.input({8})})}));
  EXPECT_EQ(operators_of(fused(sum.graph)), (Names{"add", "prelu"}));
}

// Returns the outputs and the gradients of all weights, in the order of their names.
std::vector<Values> results_of(const Graph& graph, const KernelOptions& options) {
  const Graph whole = options.training ? differentiate(graph, registry(), {.row_weight = 1.0 / 6}).value() : graph;
  std::map<ValueId, Values> all;
  for (const NamedValue& input : whole.inputs) {
    const TensorType& type = whole.value(input.value).type;
    const auto count = static_cast<size_t>(type.elements(6, 6));
    all[input.value] = type.classes > 0 ? Values{0, 3, 1, 4, 2, 0} : random_values(count, -2, 2, 5);
  }
  for (size_t p = 0; p < whole.params.size(); ++p) {
    const TensorType& type = whole.value(whole.params[p].value).type;
    all[whole.params[p].value] = random_values(static_cast<size_t>(type.elements(0, 0)), 0.1, 1, 40 + p);
  }
  const Status status = run_graph(whole, {.kernel = options}, all);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  std::vector<Values> results{all.at(whole.outputs[0].value)};
  for (size_t p = 0; options.training && p < whole.params.size(); ++p) {
    if (whole.params[p].trained) {
      results.push_back(all.at(whole.param_grads[p]));
    }
  }
  return results;
}

TEST(FuseFunctions, AFusedPreluGivesTheSameBits) {
  for (const bool bf16 : {false, true}) {
    for (const int64_t channels : {3, 16, 37}) {
      for (const bool training : {true, false}) {
        SCOPED_TRACE(std::to_string(channels) + " channels" + (training ? ", training" : "") + (bf16 ? ", bf16" : ""));
        GraphBuilder b;
        const ValueId x = b.conv(b.input({3, 9, 9}), channels);
        const ValueId y = b.call("prelu", {b.call("bn", {x}, kNorm)});
        const ValueId logits =
            b.call("linear", {b.call("global_avg_pool", {y})}, {{"out", int64_t{5}}, {"bias", true}});
        b.output(logits);
        if (training) {
          const ValueId label = b.graph.add_input("label", {.dtype = DType::kI32, .dims = {kBatch}, .classes = 5});
          b.graph.loss = {{b.call("softmax_ce", {logits, label}, {{"scale", 1.0}, {"smoothing", 0.0}}), 1.0}};
        }
        const KernelOptions options{.norm_rows = 6, .training = training, .deterministic = true, .isa = detect_isa()};
        const Graph apart = bf16 ? mix_precision(b.graph, registry(), DType::kBF16).value() : b.graph;
        const Graph together = fused(apart);
        ASSERT_EQ(together.nodes.size() + 1, apart.nodes.size());
        const std::vector<Values> wanted = results_of(apart, options);
        const std::vector<Values> results = results_of(together, options);
        ASSERT_EQ(results.size(), wanted.size());
        EXPECT_EQ(results[0], wanted[0]);
        for (size_t i = 1; i < wanted.size(); ++i) {
          if (bf16) {  // in the fused operator, the gradient between the two is not rounded
            EXPECT_LT(relative_distance(results[i], wanted[i]), 5e-3) << "gradient " << i;
          } else {
            EXPECT_EQ(results[i], wanted[i]) << "gradient " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace xrun::ops
