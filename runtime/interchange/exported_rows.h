// The values of the constants of an exported model, read from the state of a run.
#pragma once

#include <cstddef>

#include "ops/onnx/onnx_graph.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Writes the values of a constant that is a parameter to `out`, which is aligned for f32: rows f32 [dims], their
// numbers in fp8, or their scales f32 [rows]. Class rows that were idle have caught up; in fp8 they are then rounded to
// the nearest. `graph`: the graph for which the constant was made; it has the parameter's name. REQUIRES: the state has
// all rows.
void read_exported(const Graph& graph, const TrainState& state, const ops::OnnxTensor& constant, std::byte* out);

}  // namespace xrun::runtime
