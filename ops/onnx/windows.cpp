// Convolutions and pooling. The padding of a window is equal on opposite sides, and sizes are rounded down, in both
// formats. Averages are over the cells inside the image.
// Tests: tests/runtime/cli/commands/export_test.cpp
#include <array>

#include "ops/dnn/window.h"
#include "ops/onnx/rules.h"

namespace xrun::ops {
namespace {

std::vector<int64_t> pair_of(const Extents& e) { return {e.h, e.w}; }
std::vector<int64_t> sides_of(const Extents& e) { return {e.h, e.w, e.h, e.w}; }

constexpr Extents kOne{1, 1};

std::vector<OnnxAttribute> window_of(const Attrs& attrs, const Extents& otherwise) {
  return {{"kernel_shape", pair_of(extents_of(attrs, "k"))},
          {"strides", pair_of(extents_of(attrs, "stride", kOne))},
          {"pads", sides_of(extents_of(attrs, "pad", otherwise))}};
}

std::vector<std::string> all_inputs(OnnxBuilder& to, const Node& node) {
  std::vector<std::string> names;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    names.push_back(input_of(to, node, i));
  }
  return names;
}

Status conv(OnnxBuilder& to, const Node& node) {
  const Extents k = extents_of(node.attrs, "k");
  std::vector<OnnxAttribute> attributes = window_of(node.attrs, {k.h / 2, k.w / 2});
  attributes.push_back({"dilations", pair_of(extents_of(node.attrs, "dilation", kOne))});
  const int64_t channels = type_of_input(to, node, 0).dims[1];
  attributes.push_back({"group", channels / type_of_input(to, node, 1).dims[1]});
  return set_result(to, node, to.add("Conv", all_inputs(to, node), std::move(attributes)));
}

Status deconv(OnnxBuilder& to, const Node& node) {
  return set_result(to, node, to.add("ConvTranspose", all_inputs(to, node), window_of(node.attrs, {0, 0})));
}

Extents half_before(const Attrs& attrs) {
  const Extents k = extents_of(attrs, "k");
  return {(k.h - 1) / 2, (k.w - 1) / 2};
}

Status max_pool(OnnxBuilder& to, const Node& node) {
  return set_result(to, node,
                    to.add("MaxPool", {input_of(to, node, 0)}, window_of(node.attrs, half_before(node.attrs))));
}

Status avg_pool(OnnxBuilder& to, const Node& node) {
  return set_result(to, node,
                    to.add("AveragePool", {input_of(to, node, 0)}, window_of(node.attrs, half_before(node.attrs))));
}

Status global_avg_pool(OnnxBuilder& to, const Node& node) {
  const std::string mean = to.add("GlobalAveragePool", {input_of(to, node, 0)});
  return set_result(to, node, to.add("Flatten", {mean}));
}

constexpr std::array<NamedOnnxRule, 6> kRules{{{"conv", conv},
                                               {"dwconv", conv},
                                               {"deconv", deconv},
                                               {"max_pool", max_pool},
                                               {"avg_pool", avg_pool},
                                               {"global_avg_pool", global_avg_pool}}};

}  // namespace

std::span<const NamedOnnxRule> window_rules() { return kRules; }

}  // namespace xrun::ops
