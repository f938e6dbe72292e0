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
  // "x0", "x1", ...: rows of `dims`.
  ValueId input(std::vector<int64_t> dims, DType dtype = DType::kF32) {
    dims.insert(dims.begin(), kBatch);
    return graph.add_input("x" + std::to_string(graph.inputs.size()), {.dtype = dtype, .dims = dims});
  }
  // The first output; the path is the operator with the number of the node.
  ValueId call(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    const std::string path = std::string(op) + std::to_string(graph.nodes.size());
    const auto made = call_op(graph, find_op(op)->def, std::move(inputs), std::move(attrs), path, Span{});
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return graph.node(*made).outputs[0];
  }
  void output(ValueId value) { graph.outputs.push_back({"y" + std::to_string(graph.outputs.size()), value}); }
};

}  // namespace xrun::ops
