// A model in the terms of ONNX (operator set 17), without the types of protobuf. ops/onnx/convert.h makes it from a
// Graph, and the module xrun_onnx.so (runtime/interchange/onnx_module.h) writes it as a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace xrun::ops {

inline constexpr int64_t kOnnxOpset = 17;
inline constexpr int64_t kOnnxIrVersion = 8;

// Element types, with their numbers in TensorProto.DataType.
enum class OnnxType : int32_t { kFloat = 1, kUint8 = 2, kInt32 = 6, kInt64 = 7, kBool = 9 };

// An input or output of the model. The first dimension is the batch, whose size is not fixed.
struct OnnxValue {
  std::string name;
  OnnxType type = OnnxType::kFloat;
  std::vector<int64_t> dims;  // kBatch for the batch
};

// A constant of the model. Exactly one of three has its values: `param` (f32 rows of a parameter, which are read when
// the file is written), `floats` or `integers` (i64).
struct OnnxTensor {
  std::string name;
  std::vector<int64_t> dims;  // empty: one number
  ParamId param;
  int64_t first_row = 0;   // the first row of the parameter, whose rows are dims[0]
  bool unit_rows = false;  // each row is divided by its norm, or by 1e-12 if that is larger
  std::vector<float> floats;
  std::vector<int64_t> integers;

  OnnxType type() const { return param.valid() || !floats.empty() ? OnnxType::kFloat : OnnxType::kInt64; }
};

struct OnnxAttribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>> value;
};

struct OnnxNode {
  std::string op;  // "Conv"
  std::string name;
  std::vector<std::string> inputs;  // names of inputs, constants and results of earlier nodes
  std::vector<std::string> outputs;
  std::vector<OnnxAttribute> attributes;
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxValue> inputs, outputs;
  std::vector<OnnxTensor> constants;
  std::vector<OnnxNode> nodes;  // in topological order
  std::vector<std::pair<std::string, std::string>> metadata;
};

}  // namespace xrun::ops
