// Parameters with a row for each class of an input: class weights of heads, the layer that makes dense logits, and
// tables of embeddings. Checkpoints find such rows by the names of the classes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace xrun {

// Row c of the parameter belongs to class c of the input.
struct ClassRows {
  ParamId param;
  std::string input;  // in Graph::inputs; empty if the targets of the loss are computed
  std::string part;   // the name of the head, else the path of the layer
  enum Kind { kHead, kLogits, kEmbedding } kind = kHead;
};

// Lists all such parameters in the order of the nodes. If a parameter belongs to several inputs, it is listed once, for
// the first of them. Accepts graphs before and after `prepare`.
std::vector<ClassRows> class_rows(const Graph& graph);

// The names of the inputs from which the outputs and the features of heads are computed. The other inputs are labels,
// which only losses and metrics read.
std::vector<std::string> inputs_of_results(const Graph& graph);
// The names of the inputs from which these values are computed.
std::vector<std::string> inputs_of(const Graph& graph, std::span<const ValueId> values);

}  // namespace xrun
