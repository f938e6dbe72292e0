// Matrices that an ONNX file has in pieces, as `xrun export` writes large heads: `id.weight`, `id.weight_2`, ...
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/interchange/weights/stored_weights.h"

namespace xrun::runtime {

// Replaces the first piece of each matrix by the whole one, and removes the others. `pieces`: OnnxInitializers::pieces.
// Only pieces whose names are those of the first one with _2, _3, ... are joined, since two layers with the same input,
// whose results are joined, look the same otherwise. Errors: XG0412 such pieces have other rows or types.
Status join_onnx_pieces(std::span<const std::vector<std::string>> pieces, WeightContents& to);

}  // namespace xrun::runtime
