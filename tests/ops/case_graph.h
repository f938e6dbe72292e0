// Turns a case of the conformance suite into a graph: one call, its gradients, and the values of its inputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "tests/ops/cases.h"
#include "tests/ops/op_runner.h"

namespace xrun::ops {

struct Built {
  Graph graph;
  NodeId node;
  std::vector<ValueId> output_grads;
  std::vector<ValueId> grads;  // gradient of each input of the node; invalid if the input has no gradient
  std::map<ValueId, Values> values;
};

inline TensorType input_type(const Case& c, size_t i, DType dtype) {
  TensorType type;
  type.dtype = dtype;
  type.dims = {kBatch};
  if (c.classes > 0 && i + 1 == c.inputs.size()) {
    type.dtype = DType::kI32;
    type.classes = c.classes;
  }
  type.dims.insert(type.dims.end(), c.inputs[i].begin(), c.inputs[i].end());
  return type;
}

inline Result<Built> build(const Case& c, DType dtype, bool backward) {
  Built b;
  const Op* op = find_op(c.op);
  XRUN_CHECK(op != nullptr, c.op);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(b.graph.add_input("x" + std::to_string(i), input_type(c, i, dtype)));
  }
  for (const std::vector<int64_t>& dims : c.params) {
    const std::string name = "p" + std::to_string(inputs.size());
    inputs.push_back(b.graph.add_param(name, {.dtype = DType::kF32, .dims = dims}, {}, true, false, {}));
  }
  XRUN_ASSIGN(b.node, call_op(b.graph, op->def, inputs, c.attrs, "op", Span{}));
  const std::vector<ValueId> all = b.graph.node(b.node).inputs;
  for (size_t i = 0; i < all.size(); ++i) {
    const TensorType& type = b.graph.value(all[i]).type;
    const bool data = i < c.inputs.size();
    const auto count = static_cast<size_t>(type.elements(c.rows, c.rows));
    b.values[all[i]] = random_values(count, data ? c.low : 0.5, data ? c.high : 1.5, 100 + i);
    for (size_t e = 0; c.zeros && i == 0 && e < count; e += 2) {
      b.values[all[i]][e] = 0;
    }
    if (type.classes > 0) {
      b.values[all[i]] = random_values(count, 0, static_cast<double>(type.classes), 100 + i);
      std::ranges::transform(b.values[all[i]], b.values[all[i]].begin(), [](double v) { return std::floor(v); });
    }
  }
  if (!backward || op->def.grad == nullptr) {
    return b;
  }
  std::vector<ValueId> output_grads;
  for (size_t i = 0; i < b.graph.node(b.node).outputs.size(); ++i) {
    if (static_cast<int>(i) >= op->def.visible_outputs) {
      output_grads.emplace_back();
      continue;
    }
    const TensorType type = b.graph.value(b.graph.node(b.node).outputs[i]).type;
    const ValueId dy = b.graph.add_input("dy" + std::to_string(i), type);
    b.values[dy] = random_values(static_cast<size_t>(type.elements(c.rows, c.rows)), -1, 1, 200 + i);
    output_grads.push_back(dy);
  }
  b.output_grads = output_grads;
  std::vector<bool> wanted(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    const ParamId param = b.graph.value(all[i]).param;
    wanted[i] = !param.valid() || b.graph.param(param).trained;
  }
  GradBuilder builder(b.graph, registry(), b.node, output_grads, wanted);
  XRUN_TRY(op->def.grad(builder));
  b.grads = builder.grads();
  return b;
}

inline RunOptions options_for(const Case& c) {
  return {.kernel = {.norm_rows = c.rows, .training = true, .deterministic = true, .isa = detect_isa()}};
}

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.op + "_" + std::to_string(info.index);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace xrun::ops
