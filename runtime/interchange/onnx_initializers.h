// Reads the constants of ONNX files through the module xrun_onnx.so (onnx_module.h). Only their places are read; the
// constants themselves stay in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// A constant of the main graph (`initializer`).
struct OnnxInitializer {
  enum class Place : uint8_t {
    kRaw,       // [offset, offset + bytes) of the model file has the elements, little-endian
    kMessage,   // [offset, offset + bytes) has the TensorProto, whose elements decode_onnx gives
    kExternal,  // a file in the folder of the model has them
  };

  std::string name;
  int data_type = 0;  // a TensorProto.DataType
  std::vector<int64_t> dims;
  Place place = Place::kRaw;
  Bytes offset = 0;
  Bytes bytes = 0;         // kExternal: -1 if it is not said; then all of the file from `offset` on
  std::string location{};  // kExternal: name of the file
};

struct OnnxInitializers {
  std::vector<OnnxInitializer> tensors;
  std::vector<std::string> sparse;  // names of sparse constants, which are not read
  // Names of constants that are rows of one matrix, or parts of its bias, in their order: `Concat` joins the results of
  // `Gemm` nodes with the same input, each with one of them. They need not be initializers.
  std::vector<std::vector<std::string>> pieces;
};

// The most bytes that protobuf reads as one message.
inline constexpr Bytes kMostOnnx = 2 * kGiB - 1;

// Lists the constants of a model. `file` is an open descriptor of at most kMostOnnx bytes, which stays open; `path` is
// for messages. Errors: XG0931 the module is missing or of another build; XG0412 the file is not a model of ONNX, is
// damaged or cut short, a constant is in several segments, or there are more than 250,000 constants. Threads: any.
Result<OnnxInitializers> list_onnx(int file, const std::string& path);

// The elements of a TensorProto, little-endian as in raw_data. Errors: XG0931; XG0412 the message is damaged, its
// elements are texts, or their type has no numbers that are read.
Result<std::vector<std::byte>> decode_onnx(std::span<const std::byte> message, const std::string& path);

// ---- the interface of the module

using ListOnnx = Result<OnnxInitializers> (*)(int file, const std::string& path);
inline constexpr const char* kListOnnx = "xrun_list_onnx";
using DecodeOnnx = Result<std::vector<std::byte>> (*)(std::span<const std::byte> message, const std::string& path);
inline constexpr const char* kDecodeOnnx = "xrun_decode_onnx";

}  // namespace xrun::runtime
