// Products, tables of rows, and classifier heads. The weights of a head are cut into pieces (HeadForm), each of which
// gives the logits of its classes; onnxruntime then needs less memory than with one large constant.
// Tests: tests/runtime/cli/commands/export_test.cpp
#include <algorithm>
#include <array>

#include "graph/base/errors.h"
#include "ops/dense/einsum_rule.h"
#include "ops/onnx/rules.h"

namespace xrun::ops {
namespace {

Status linear(OnnxBuilder& to, const Node& node) {
  const std::string bias = node.inputs.size() > 2 ? input_of(to, node, 2) : std::string();
  return set_result(to, node,
                    to.product(input_of(to, node, 0), type_of_input(to, node, 0).rank(), node.inputs[1], bias));
}

Status matmul(OnnxBuilder& to, const Node& node) {
  return set_result(to, node, to.add("MatMul", {input_of(to, node, 0), input_of(to, node, 1)}));
}

Status einsum(OnnxBuilder& to, const Node& node) {
  const std::array types{type_of_input(to, node, 0), type_of_input(to, node, 1)};
  return set_result(to, node,
                    to.add("Einsum", {input_of(to, node, 0), input_of(to, node, 1)},
                           {{"equation", product_rule_of(types, node.attrs).text()}}));
}

Status embed(OnnxBuilder& to, const Node& node) {
  return set_result(to, node, to.add("Gather", {input_of(to, node, 1), input_of(to, node, 0)}));
}

// The rows of all numbers, times 0 for padding, summed; and for a mean divided by the number of the others.
Status embed_bag(OnnxBuilder& to, const Node& node) {
  const std::string x = to.cast(input_of(to, node, 0), OnnxType::kInt64);
  const std::string rows = to.add("Gather", {input_of(to, node, 1), x});
  const std::string padding = to.add("Equal", {x, to.integers({node.attrs.integer("padding")}, {})});
  const std::string counts = to.cast(to.add("Not", {padding}), OnnxType::kFloat);
  const std::string factors = to.add("Unsqueeze", {counts, to.list({2})});
  const std::string sum =
      to.add("ReduceSum", {to.add("Mul", {rows, factors}), to.list({1})}, {{"keepdims", int64_t{0}}});
  if (!node.attrs.flag("mean", true)) {
    return set_result(to, node, sum);
  }
  const std::string count = to.add("ReduceSum", {counts, to.list({1})}, {{"keepdims", int64_t{1}}});
  return set_result(to, node, to.add("Div", {sum, to.add("Max", {count, to.number(1)})}));
}

// x over its norm, or over 1e-12 if that is larger.
std::string unit(OnnxBuilder& to, const std::string& x, int64_t axis) {
  const std::string norm = to.reduce("ReduceL2", x, axis, true);
  return to.add("Div", {x, to.add("Max", {norm, to.number(1e-12F)})});
}

// The logits of the classes of a piece. Rows in fp8 are multiplied by their scales after the product, so that no second
// copy of them is made.
std::string piece_of(OnnxBuilder& to, const Node& node, const std::string& x, const OnnxTensor& piece, bool fp8) {
  std::string bias;
  if (node.inputs.size() > 2) {
    const ParamId param = to.graph().value(node.inputs[2]).param;
    bias = to.rows_of(
        {.name = to.graph().param(param).name, .dims = {piece.dims[0]}, .param = param, .first_row = piece.first_row});
  }
  const std::vector<OnnxAttribute> by_rows{{"transB", int64_t{1}}};
  if (!fp8) {
    std::vector<std::string> inputs{x, to.rows_of(piece)};
    if (!bias.empty()) {
      inputs.push_back(bias);
    }
    return to.add("Gemm", std::move(inputs), by_rows);
  }
  OnnxTensor rows = piece;
  rows.name += ".fp8";
  rows.part = OnnxTensor::Part::kFp8Rows;
  OnnxTensor scales = piece;
  scales.name += ".scale";
  scales.part = OnnxTensor::Part::kScales;
  scales.dims = {piece.dims[0]};
  const std::string numbers = to.cast(to.rows_of(std::move(rows)), OnnxType::kFloat);
  const std::string logits = to.add("Mul", {to.add("Gemm", {x, numbers}, by_rows), to.rows_of(std::move(scales))});
  return bias.empty() ? logits : to.add("Add", {logits, bias});
}

Status head(OnnxBuilder& to, const Node& node) {
  const bool cosines = node.op->head(node.attrs).cosine;
  const Graph& graph = to.graph();
  std::string x = input_of(to, node, 0);
  if (cosines) {
    x = unit(to, x, -1);
  }
  const Value& weight = graph.value(node.inputs[1]);
  const int64_t classes = weight.type.dims[0];
  const int64_t dim = weight.type.dims[1];
  const int64_t most = std::max<int64_t>(1, to.heads().piece / (4 * dim));
  const auto is_this = [&](const Head& one) {
    return &graph.node(one.node) == &node && to.heads().fp8.contains(one.name);
  };
  const bool fp8 = std::ranges::any_of(graph.heads, is_this);
  std::vector<std::string> pieces;
  for (int64_t first = 0; first < classes; first += most) {
    const OnnxTensor piece{.name = graph.param(weight.param).name,
                           .dims = {std::min(most, classes - first), dim},
                           .param = weight.param,
                           .first_row = first,
                           .unit_rows = cosines};
    pieces.push_back(piece_of(to, node, x, piece, fp8));
  }
  return set_result(to, node, pieces.size() == 1 ? pieces[0] : to.add("Concat", pieces, {{"axis", int64_t{1}}}));
}

Status topk(OnnxBuilder& to, const Node& node) {
  const auto best = to.add_several("TopK", 2, {input_of(to, node, 0), to.list({node.attrs.integer("k")})});
  to.set_name(node.outputs[1], best[0]);
  // Class numbers are i32 in the model, and i64 in ONNX.
  return set_result(to, node, to.cast(best[1], OnnxType::kInt32));
}

Status gather(OnnxBuilder& to, const Node& node) { return set_result(to, node, input_of(to, node, 0)); }

Status l2norm(OnnxBuilder& to, const Node& node) {
  return set_result(to, node, unit(to, input_of(to, node, 0), node.attrs.integer("axis", -1)));
}

constexpr std::array<NamedOnnxRule, 10> kRules{{{"linear", linear},
                                                {"matmul", matmul},
                                                {"einsum", einsum},
                                                {"embed", embed},
                                                {"embed_bag", embed_bag},
                                                {"classifier", head},
                                                {"cosine_classifier", head},
                                                {"topk", topk},
                                                {"gather", gather},
                                                {"l2norm", l2norm}}};

}  // namespace

std::span<const NamedOnnxRule> dense_rules() { return kRules; }

}  // namespace xrun::ops
