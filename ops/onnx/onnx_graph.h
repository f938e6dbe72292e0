// A model in the terms of ONNX, without the types of protobuf. ops/onnx/convert.h makes it from a Graph, and the module
// xrun_onnx.so (runtime/interchange/onnx_module.h) writes it as a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "graph/settings/reader_def.h"
#include "graph/settings/specs.h"

namespace xrun::ops {

// The operator sets of exported models. A model has the first one unless it needs another: 18 has `Resize` with
// antialiasing, and 19 has fp8. libonnx 1.12, which Debian has, knows operators up to set 17.
inline constexpr int64_t kOnnxOpset = 17;
inline constexpr int64_t kResizeOpset = 18;
inline constexpr int64_t kFp8Opset = 19;

// Element types, with their numbers in TensorProto.DataType.
enum class OnnxType : int32_t { kFloat = 1, kUint8 = 2, kInt32 = 6, kInt64 = 7, kBool = 9, kDouble = 11, kFloat8 = 17 };

inline constexpr int64_t kAnySide = 0;  // a height or a width that is not fixed

// An input or output of the model. The first dimension is the batch, whose size is not fixed.
struct OnnxValue {
  std::string name;
  OnnxType type = OnnxType::kFloat;
  std::vector<int64_t> dims;  // kBatch for the batch; kAnySide
};

// A constant of the model. Exactly one of four has its values: `param` (rows of a parameter, which are read when the
// file is written), `floats`, `doubles` or `integers` (i64).
struct OnnxTensor {
  std::string name;
  std::vector<int64_t> dims;  // empty: one number
  ParamId param;
  int64_t first_row = 0;   // the first row of the parameter, whose rows are dims[0]
  bool unit_rows = false;  // each row is divided by its norm, or by 1e-12 if that is larger
  // kRows: the rows, f32. kFp8Rows: the rows in fp8 (ops/head/row_format.h). kScales: the f32 scale of each row in
  // fp8; with `unit_rows`, it is divided by the norm of the row.
  enum class Part : uint8_t { kRows, kFp8Rows, kScales } part = Part::kRows;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> integers;

  OnnxType type() const {
    if (param.valid() && part == Part::kFp8Rows) {
      return OnnxType::kFloat8;
    }
    return param.valid() || !floats.empty() ? OnnxType::kFloat : doubles.empty() ? OnnxType::kInt64 : OnnxType::kDouble;
  }
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

// An input that takes what a source gives: the stages of its data binding are nodes of the model.
struct OnnxPreprocessing {
  std::string input;             // input of the model, and of the file
  Field field;                   // the values that it takes; decoded pictures have the order C, H, W here
  std::vector<CallSpec> stages;  // in their order; those that only training has get no nodes
  std::vector<double> means;     // those of `standardize`, if it is one of them
  std::vector<double> deviations;
};

struct OnnxGraph {
  std::string name;
  int64_t opset = kOnnxOpset;
  std::vector<OnnxValue> inputs, outputs;
  std::vector<OnnxTensor> constants;
  std::vector<OnnxNode> nodes;  // in topological order
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<OnnxPreprocessing> preprocessing;

  int64_t ir_version() const { return opset < kFp8Opset ? 8 : 9; }
};

}  // namespace xrun::ops
