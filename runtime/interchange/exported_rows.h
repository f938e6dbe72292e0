// The values of the constants of an exported model, read from the state of a run.
#pragma once

#include "ops/onnx/onnx_graph.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Writes the values of a constant that is a parameter, f32 [dims], to `out`. Class rows that were idle have caught up.
// `graph`: the graph for which the constant was made; it has the parameter's name. REQUIRES: the state has all rows.
void read_exported(const Graph& graph, const TrainState& state, const ops::OnnxTensor& constant, float* out);

}  // namespace xrun::runtime
