// Runs an ONNX file in onnxruntime, which is a Python package, so that its results can be compared with ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "ops/onnx/onnx_graph.h"

namespace xrun::runtime {

struct OnnxRun {
  bool ran = false;
  std::string why;      // if it did not run, the reason in words, such as that onnxruntime is missing or too old
  std::string version;  // the version of onnxruntime
  // The results of each output of the graph, in its order: f32, or i64 or i32 as the output's type says.
  std::vector<std::vector<std::byte>> outputs;
};

struct OnnxRunInput {
  std::string name;
  std::span<const std::byte> rows;
  std::vector<int64_t> dims;  // the dimensions of a row
};

/// Errors: XG0905 `python` (found in PATH unless it has a slash) does not start, or has no NumPy or onnxruntime.
Status check_onnxruntime(const std::string& python);

/// Starts `python` (found in PATH unless it has a slash), which loads the file and computes `rows` rows. `folder`: an
/// existing folder for inputs and results. Waits at most ten minutes. A Python that does not end, or that a signal
/// ends, and an onnxruntime that is too old for the file are no errors: the result has the reason. Errors: XG0932
/// onnxruntime rejects the file; kWorld XG0901 the folder cannot be written; kInterrupted `stop` was set, which ends
/// Python.
Result<OnnxRun> run_in_onnxruntime(const std::string& python, const std::string& file, const ops::OnnxGraph& graph,
                                   std::span<const OnnxRunInput> inputs, int64_t rows, const std::string& folder,
                                   StopFlag stop);

}  // namespace xrun::runtime
