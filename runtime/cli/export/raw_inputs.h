// Random inputs of an exported file with preprocessing, and what the model's stages make of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/base/result.h"
#include "ops/onnx/onnx_graph.h"

namespace xrun::cli {

struct RawInput {
  std::vector<std::byte> given;  // the rows that the file takes; pictures [H, W, C]
  std::vector<int64_t> dims;     // the dimensions of one of them
  std::vector<std::byte> rows;   // the rows of the model's input, in the order of its dimensions
};

// Makes `rows` rows that depend only on the seed and the input's name. If the file takes pictures of any size, they are
// larger than the stages' results where the stages allow it. If missing values are filled, some are missing.
//   target  the type of the model's input
// Errors: those of Transform::compile and Transform::run.
Result<RawInput> make_raw_input(const ops::OnnxPreprocessing& from, const TensorType& target, int64_t rows,
                                uint64_t seed);

}  // namespace xrun::cli
