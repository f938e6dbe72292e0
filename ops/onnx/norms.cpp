// Norms and softmax. Batch norm uses the running statistics. Operator set 17 lacks group norm and norms by the root
// mean square, which become several nodes.
// Tests: tests/runtime/cli/commands/export_test.cpp
#include <array>

#include "ops/onnx/rules.h"

namespace xrun::ops {
namespace {

OnnxAttribute eps_of(const Node& node) { return {"epsilon", static_cast<float>(node.attrs.real("eps"))}; }

Status bn(OnnxBuilder& to, const Node& node) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < 5; ++i) {  // x, weight, bias, running mean, running variance
    inputs.push_back(input_of(to, node, i));
  }
  return set_result(to, node, to.add("BatchNormalization", std::move(inputs), {eps_of(node)}));
}

Status layer_norm(OnnxBuilder& to, const Node& node) {
  return set_result(to, node,
                    to.add("LayerNormalization", {input_of(to, node, 0), input_of(to, node, 1), input_of(to, node, 2)},
                           {{"axis", int64_t{-1}}, eps_of(node)}));
}

Status rms_norm(OnnxBuilder& to, const Node& node) {
  const std::string x = input_of(to, node, 0);
  const std::string mean = to.reduce("ReduceMean", to.add("Mul", {x, x}), -1, true);
  const std::string eps = to.number(static_cast<float>(node.attrs.real("eps")));
  const std::string size = to.add("Sqrt", {to.add("Add", {mean, eps})});
  return set_result(to, node, to.add("Mul", {to.add("Div", {x, size}), input_of(to, node, 1)}));
}

// A group is a channel of an instance norm without weights; weight and bias of the channels follow.
Status group_norm(OnnxBuilder& to, const Node& node) {
  const TensorType& x = type_of_input(to, node, 0);
  const int64_t groups = node.attrs.integer("groups");
  const auto count = static_cast<size_t>(groups);
  const std::string joined = to.reshape(input_of(to, node, 0), {0, groups, -1});
  const std::string normed = to.add(
      "InstanceNormalization",
      {joined, to.floats(std::vector<float>(count, 1), {groups}), to.floats(std::vector<float>(count, 0), {groups})},
      {eps_of(node)});
  const std::string y = to.reshape(normed, {0, x.dims[1], x.dims[2], x.dims[3]});
  const std::string weight = to.reshape(input_of(to, node, 1), {-1, 1, 1});
  const std::string bias = to.reshape(input_of(to, node, 2), {-1, 1, 1});
  return set_result(to, node, to.add("Add", {to.add("Mul", {y, weight}), bias}));
}

Status prelu(OnnxBuilder& to, const Node& node) {
  std::string slope = input_of(to, node, 1);
  if (type_of_input(to, node, 0).rank() == 4) {
    slope = to.reshape(slope, {-1, 1, 1});
  }
  return set_result(to, node, to.add("PRelu", {input_of(to, node, 0), slope}));
}

Status softmax(OnnxBuilder& to, const Node& node) {
  return set_result(to, node, to.add("Softmax", {input_of(to, node, 0)}, {{"axis", node.attrs.integer("axis", -1)}}));
}

constexpr std::array<NamedOnnxRule, 6> kRules{{{"bn", bn},
                                               {"layer_norm", layer_norm},
                                               {"rms_norm", rms_norm},
                                               {"group_norm", group_norm},
                                               {"prelu", prelu},
                                               {"softmax", softmax}}};

}  // namespace

std::span<const NamedOnnxRule> norm_rules() { return kRules; }

}  // namespace xrun::ops
