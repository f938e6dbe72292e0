// Builds a graph of operators of the catalog, call by call.
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/op_runner.h"

namespace xrun::ops {

struct GraphBuilder {
  Graph graph;
  // Adds an input with the dimensions [N, dims...]; inputs are named "x0", "x1", ...
  ValueId input(std::vector<int64_t> dims, DType dtype = DType::kF32) {
    dims.insert(dims.begin(), kBatch);
    return graph.add_input("x" + std::to_string(graph.inputs.size()), {.dtype = dtype, .dims = dims});
  }
  // Adds a call and returns its first output. The path of the node is the operator's name with the number of the node.
  ValueId call(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    const std::string path = std::string(op) + std::to_string(graph.nodes.size());
    const auto made = call_op(graph, find_op(op)->def, std::move(inputs), std::move(attrs), path, Span{});
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return graph.node(*made).outputs[0];
  }
  // Adds a convolution with 3 x 3 filters that keeps height and width.
  ValueId conv(ValueId x, int64_t width) {
    return call("conv", {x},
                {{"width", width},
                 {"k", int64_t{3}},
                 {"stride", int64_t{1}},
                 {"pad", int64_t{1}},
                 {"dilation", int64_t{1}},
                 {"groups", int64_t{1}},
                 {"bias", false}});
  }
  // Adds the loss of a classifier of 5 classes on features [N, D]; its logits are an output.
  void classify(ValueId features) {
    const ValueId logits = call("linear", {features}, {{"out", int64_t{5}}, {"bias", true}});
    output(logits);
    const ValueId label = graph.add_input("label", {.dtype = DType::kI32, .dims = {kBatch}, .classes = 5});
    graph.loss = {{call("softmax_ce", {logits, label}, {{"scale", 1.0}, {"smoothing", 0.0}}), 1.0}};
  }
  void output(ValueId value) { graph.outputs.push_back({"y" + std::to_string(graph.outputs.size()), value}); }
};

}  // namespace xrun::ops
