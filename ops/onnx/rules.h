// The rules by which operators become nodes of ONNX, one table for each family.
#pragma once

#include <span>
#include <string_view>

#include "ops/onnx/builder.h"

namespace xrun::ops {

// Appends the nodes of a call and sets the names of its visible outputs. Errors: XG0930 for a form that ONNX lacks.
using OnnxRule = Status (*)(OnnxBuilder& to, const Node& node);

struct NamedOnnxRule {
  std::string_view op;
  OnnxRule rule;
};

std::span<const NamedOnnxRule> window_rules();     // convolutions and pooling
std::span<const NamedOnnxRule> dense_rules();      // products, tables, heads
std::span<const NamedOnnxRule> norm_rules();       // norms and softmax
std::span<const NamedOnnxRule> shape_rules();      // other dimensions, parts, sequences
std::span<const NamedOnnxRule> reduction_rules();  // sums, means and maxima along a dimension
std::span<const NamedOnnxRule> attention_rules();
// The rule of operators that compute a function of numbers element by element (OpDef::expr).
Status function_rule(OnnxBuilder& to, const Node& node);

// The name of operand or parameter i of a call.
inline std::string input_of(OnnxBuilder& to, const Node& node, size_t i) { return to.name_of(node.inputs[i]); }
inline const TensorType& type_of_input(const OnnxBuilder& to, const Node& node, size_t i) {
  return to.type(node.inputs[i]);
}
// Sets the name of the call's result.
inline Status set_result(OnnxBuilder& to, const Node& node, std::string name) {
  to.set_name(node.outputs[0], std::move(name));
  return {};
}

}  // namespace xrun::ops
