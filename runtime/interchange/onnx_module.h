// Writes ONNX files through the module xrun_onnx.so, which is built on libonnx and protobuf; their types stay inside
// the module.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "ops/onnx/onnx_graph.h"

namespace xrun::runtime {

struct OnnxFile {
  std::string path;       // the model
  std::string data_name;  // name of the file for large constants, in the folder of the model
  // Weights are in a file of their own if all have more bytes than this; protobuf cannot hold 2 GiB.
  Bytes most_inside = kGiB;
  StopFlag stop = nullptr;  // checked before each constant
};

// A file of constants begins with this text, so that no file of another program is replaced.
inline constexpr std::string_view kOnnxDataMagic = "xrun: constants of an ONNX model\n";

struct OnnxWritten {
  Bytes bytes = 0;       // size of the model file
  Bytes data_bytes = 0;  // size of the file of constants; 0: there is none
};

// Writes the values of a constant that is a parameter, weight_bytes(constant), to `out`, which is aligned for f32.
using ConstantValues = std::function<void(const ops::OnnxTensor& constant, std::byte* out)>;

/// Writes the model, and checks it with libonnx's own checker if its operator set is kOnnxOpset: the libonnx of Debian
/// does not know later ones. Existing files are replaced. Errors: XG0931 the module is missing or of another build;
/// XG0932 libonnx rejects the model; kWorld XG0901 a file cannot be written; kInterrupted. Threads: one.
Result<OnnxWritten> write_onnx(const ops::OnnxGraph& graph, const ConstantValues& values, const OnnxFile& file);

/// Checks that the file of constants of a model at `path` may be written, if the graph needs one. Errors: kUsage XG0901
/// a file is there that xrun did not write.
Status check_data_place(const ops::OnnxGraph& graph, const std::string& path, Bytes most_inside = kGiB);

/// The bytes of the rows of a parameter that a constant has; 0 if it has other values.
inline Bytes weight_bytes(const ops::OnnxTensor& constant) {
  Bytes bytes = constant.type() == ops::OnnxType::kFloat8 ? 1 : static_cast<Bytes>(sizeof(float));
  for (const int64_t dim : constant.dims) {
    bytes *= dim;
  }
  return constant.param.valid() ? bytes : 0;
}

// ---- the interface of the module

// The symbol whose text is the XRUN_ONNX_BUILD of the sources from which the module was built.
inline constexpr const char* kOnnxBuild = "xrun_onnx_build";
using WriteOnnx = Result<OnnxWritten> (*)(const ops::OnnxGraph& graph, const ConstantValues& values,
                                          const OnnxFile& file);
inline constexpr const char* kWriteOnnx = "xrun_write_onnx";

}  // namespace xrun::runtime
