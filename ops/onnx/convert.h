// Turns the forward part of a model into the nodes of an ONNX file. Weights are not copied: the file's writer asks for
// the rows of parameters.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "ops/onnx/onnx_graph.h"
#include "ops/onnx/preprocessing.h"

namespace xrun::ops {

// The head whose classes an exported model names.
struct ExportedHead {
  std::string name;
  int64_t topk = 0;  // 0: all logits
};

struct ExportOptions {
  std::vector<std::string> outputs;  // names of outputs of the model; empty: all of them
  std::vector<ExportedHead> heads;   // heads whose results are further outputs
  // The data whose bindings become nodes in front of the network; null: the file takes what they make.
  const DataSpec* preprocess = nullptr;
  ColumnScales scales{};  // with `preprocess`: those of training
  HeadForm form{};
};

/// Returns the model as ONNX. Inputs keep their names, types and shapes, except with `preprocess` (preprocessing.h);
/// the batch has no fixed size. Values are in the order (N, C, H, W). A head `id` gives the output `id_logits` f32 [N,
/// C], or with topk `id_classes` i64 [N, k], best first, and `id_logits` f32 [N, k]; the logits of a cosine head are
/// cosines. Norms use their running statistics, and dropout is left out. `graph` is that of a checked file, before any
/// pass (graph/passes/pipeline.h). Errors: XG0930 there is no such output or head, the model has nothing to export, or
/// an operator has no form in ONNX; those of preprocessing_of.
Result<OnnxGraph> to_onnx(const std::string& model, const Graph& graph, const ExportOptions& options);

}  // namespace xrun::ops
