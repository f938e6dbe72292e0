// Reports on a model without a plan: shapes, parameters, operations and activations of one sample.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"

namespace xrun::planner {

// A layer is a group of consecutive nodes whose paths share the first parts (layer_name); a head is also a layer.
struct ModelLayer {
  std::string name;
  std::string output;  // dims of one sample, "64 x 28 x 28"
  int64_t parameters = 0;
  Flops flops = 0;          // per sample, forward pass
  int64_t activations = 0;  // numbers that its operators compute per sample
};
// Returns the layers in the order of the graph. `depth` is that of list_layers.
std::vector<ModelLayer> list_model_layers(const Graph& graph, int depth = 0);

// The page of a model: inputs, outputs, totals and a table of the layers. REQUIRES: the graph has no backward part.
std::string model_text(const Module& module, int depth = 0);
// The document {v, model, inputs, outputs, parameters, flops, activations, layers}, indented, ending in a newline.
std::string model_json(const Module& module, int depth = 0);

}  // namespace xrun::planner
