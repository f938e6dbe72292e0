// The backbone of the glyph classifier (models/glyphs.xgraph) with a dense loss over `classes`, as a prepared module.
// Kernels are benchmarked on it.
#pragma once

#include "graph/passes/pipeline.h"
#include "ops/kernel_spec.h"

namespace xrun::ops {

inline Result<Module> glyphs_module(int64_t batch, int64_t classes, PrecisionMode precision) {
  Module module;
  Graph& graph = module.graph;
  TensorType image;
  image.dims = {kBatch, 1, 32, 32};
  ValueId at = graph.add_input("image", image);
  TensorType label;
  label.dtype = DType::kI32;
  label.dims = {kBatch};
  label.classes = classes;
  const ValueId labels = graph.add_input("label", label);
  int count = 0;
  const auto call = [&](std::string_view op, std::vector<ValueId> inputs, Attrs attrs) -> Status {
    XRUN_ASSIGN(const NodeId node, call_op(graph, find_op(op)->def, std::move(inputs), std::move(attrs),
                                           std::string(op) + std::to_string(count++), Span{}));
    at = graph.node(node).outputs[0];
    return {};
  };
  const auto conv_bn = [&](int64_t width, int64_t stride, bool relu) -> Status {
    XRUN_TRY(call("conv", {at},
                  {{"width", width},
                   {"k", int64_t{3}},
                   {"stride", stride},
                   {"pad", int64_t{1}},
                   {"dilation", int64_t{1}},
                   {"groups", int64_t{1}},
                   {"bias", false}}));
    XRUN_TRY(call("bn", {at}, {{"momentum", 0.1}, {"eps", 1e-5}}));
    return relu ? call("relu", {at}, {}) : Status();
  };
  const auto basic = [&](int64_t width) -> Status {
    const ValueId x = at;
    XRUN_TRY(conv_bn(width, 1, true));
    XRUN_TRY(conv_bn(width, 1, false));
    XRUN_TRY(call("add", {x, at}, {}));
    return call("relu", {at}, {});
  };
  XRUN_TRY(conv_bn(32, 2, true));
  XRUN_TRY(conv_bn(64, 1, true));
  XRUN_TRY(conv_bn(64, 2, true));
  XRUN_TRY(basic(64));
  XRUN_TRY(conv_bn(128, 2, true));
  XRUN_TRY(basic(128));
  XRUN_TRY(call("flatten", {at}, {{"from", int64_t{1}}}));
  XRUN_TRY(call("dropout", {at}, {{"p", 0.1}}));
  XRUN_TRY(call("linear", {at}, {{"out", int64_t{256}}, {"bias", false}}));
  XRUN_TRY(call("bn", {at}, {{"momentum", 0.1}, {"eps", 1e-5}}));
  graph.outputs.push_back({"feature", at});
  XRUN_TRY(call("linear", {at}, {{"out", classes}, {"bias", false}}));
  XRUN_TRY(call("softmax_ce", {at, labels}, {{"scale", 1.0}, {"smoothing", 0.0}}));
  module.train.batch = batch;
  module.train.loss = {{at}};
  module.train.precision = precision;
  module.has_train = true;
  return prepare(std::move(module), registry(), {});
}

}  // namespace xrun::ops
