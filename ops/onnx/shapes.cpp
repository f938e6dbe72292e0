// Operators that move elements: other dimensions, parts and joints, and the operators of sequences.
// Tests: tests/runtime/cli/commands/export_test.cpp
#include <array>
#include <numeric>

#include "ops/onnx/rules.h"

namespace xrun::ops {
namespace {

// The dimensions of a result as a shape for Reshape: the batch keeps its size.
std::vector<int64_t> shape_of(const TensorType& type) {
  std::vector<int64_t> dims = type.dims;
  dims[0] = 0;
  return dims;
}

Status same(OnnxBuilder& to, const Node& node) { return set_result(to, node, input_of(to, node, 0)); }

Status reshape(OnnxBuilder& to, const Node& node) {
  return set_result(to, node, to.reshape(input_of(to, node, 0), shape_of(to.type(node.outputs[0]))));
}

int64_t axis_in(const TensorType& type, int64_t axis) { return axis < 0 ? axis + type.rank() : axis; }

Status transpose(OnnxBuilder& to, const Node& node) {
  const TensorType& x = type_of_input(to, node, 0);
  std::vector<int64_t> order(x.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis_in(x, node.attrs.integer("a")))],
            order[static_cast<size_t>(axis_in(x, node.attrs.integer("b")))]);
  return set_result(to, node, to.transpose(input_of(to, node, 0), std::move(order)));
}

Status concat(OnnxBuilder& to, const Node& node) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    parts.push_back(input_of(to, node, i));
  }
  return set_result(to, node, to.add("Concat", std::move(parts), {{"axis", node.attrs.integer("axis")}}));
}

Status slice(OnnxBuilder& to, const Node& node) {
  return set_result(to, node,
                    to.add("Slice", {input_of(to, node, 0), to.list({node.attrs.integer("begin")}),
                                     to.list({node.attrs.integer("end")}), to.list({node.attrs.integer("axis")})}));
}

Status pad(OnnxBuilder& to, const Node& node) {
  const int64_t size = node.attrs.integer("size");
  return set_result(to, node, to.add("Pad", {input_of(to, node, 0), to.list({0, 0, size, size, 0, 0, size, size})}));
}

Status take(OnnxBuilder& to, const Node& node) {
  return set_result(
      to, node,
      to.add("Gather", {input_of(to, node, 0), to.integers({node.attrs.integer("i")}, {})}, {{"axis", int64_t{1}}}));
}

// The trained token is repeated for each sample of the batch, whose size is known only when the network runs.
Status class_token(OnnxBuilder& to, const Node& node) {
  const int64_t dim = type_of_input(to, node, 0).dims[2];
  const std::string x = input_of(to, node, 0);
  const std::string batch = to.add("Slice", {to.add("Shape", {x}), to.list({0}), to.list({1})});
  const std::string shape = to.add("Concat", {batch, to.list({1, dim})}, {{"axis", int64_t{0}}});
  const std::string token = to.add("Expand", {to.reshape(input_of(to, node, 1), {1, 1, dim}), shape});
  return set_result(to, node, to.add("Concat", {token, x}, {{"axis", int64_t{1}}}));
}

Status position_embedding(OnnxBuilder& to, const Node& node) {
  return set_result(to, node, to.add("Add", {input_of(to, node, 0), input_of(to, node, 1)}));
}

constexpr std::array<NamedOnnxRule, 12> kRules{{{"stop_gradient", same},
                                                {"dropout", same},
                                                {"drop_path", same},
                                                {"flatten", reshape},
                                                {"reshape", reshape},
                                                {"transpose", transpose},
                                                {"concat", concat},
                                                {"slice", slice},
                                                {"pad", pad},
                                                {"take", take},
                                                {"class_token", class_token},
                                                {"position_embedding", position_embedding}}};

// ---- reductions ----

Status reduced(OnnxBuilder& to, const Node& node, std::string_view op) {
  return set_result(to, node,
                    to.reduce(op, input_of(to, node, 0), node.attrs.integer("axis"), node.attrs.flag("keep", false)));
}

Status mean(OnnxBuilder& to, const Node& node) { return reduced(to, node, "ReduceMean"); }
Status max(OnnxBuilder& to, const Node& node) { return reduced(to, node, "ReduceMax"); }
Status sum(OnnxBuilder& to, const Node& node) {  // its axes are an input in operator set 17, too
  return set_result(to, node,
                    to.add("ReduceSum", {input_of(to, node, 0), to.list({node.attrs.integer("axis")})},
                           {{"keepdims", int64_t{node.attrs.flag("keep", false)}}}));
}

constexpr std::array<NamedOnnxRule, 3> kReductions{{{"mean", mean}, {"max", max}, {"sum", sum}}};

}  // namespace

std::span<const NamedOnnxRule> shape_rules() { return kRules; }
std::span<const NamedOnnxRule> reduction_rules() { return kReductions; }

}  // namespace xrun::ops
