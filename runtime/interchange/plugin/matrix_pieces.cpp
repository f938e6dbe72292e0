// Tests: tests/runtime/interchange/weights/onnx_pieces_test.cpp
#include "runtime/interchange/plugin/matrix_pieces.h"

#include <string_view>
#include <utility>

namespace xrun::runtime {
namespace {

// The value of an attribute that is a whole number or a float.
double number_of(const onnx::NodeProto& node, std::string_view name, double otherwise) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) {
      return attribute.type() == onnx::AttributeProto::FLOAT ? static_cast<double>(attribute.f())
                                                             : static_cast<double>(attribute.i());
    }
  }
  return otherwise;
}

}  // namespace

void MatrixPieces::add(const onnx::NodeProto& node) {
  if (node.op_type() == "Gemm" && node.input_size() >= 2 && node.output_size() == 1) {
    const bool is_plain = number_of(node, "transB", 0) == 1 && number_of(node, "transA", 0) == 0 &&
                          number_of(node, "alpha", 1) == 1 && number_of(node, "beta", 1) == 1;
    if (is_plain) {
      products_[node.output(0)] = {node.input(0), node.input(1), node.input_size() > 2 ? node.input(2) : ""};
    }
  } else if (node.op_type() == "Concat" && node.input_size() > 1 && number_of(node, "axis", 0) == 1) {
    joints_.emplace_back(node.input().begin(), node.input().end());
  }
}

std::vector<std::vector<std::string>> MatrixPieces::joined() {
  std::vector<std::vector<std::string>> found;
  for (const std::vector<std::string>& results : joints_) {
    std::vector<std::string> weights;
    std::vector<std::string> biases;
    std::string x;
    for (const std::string& result : results) {
      // A product is a piece of one matrix, so the names that are found have fewer bytes than the file.
      auto product = products_.extract(result);
      if (product.empty() || (!weights.empty() && product.mapped().x != x)) {
        weights.clear();
        break;
      }
      x = std::move(product.mapped().x);
      weights.push_back(std::move(product.mapped().weight));
      if (!product.mapped().bias.empty()) {
        biases.push_back(std::move(product.mapped().bias));
      }
    }
    if (weights.size() == results.size()) {
      found.push_back(weights);
      if (biases.size() == weights.size()) {
        found.push_back(std::move(biases));
      }
    }
  }
  return found;
}

}  // namespace xrun::runtime
