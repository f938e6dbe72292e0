// Compares an exported file with the model: both compute the same random inputs.
#pragma once

#include <string>
#include <vector>

#include "ops/onnx/convert.h"
#include "runtime/cli/model/planned.h"
#include "runtime/train/session/session.h"

namespace xrun::cli {

inline constexpr int64_t kComparedRows = 16;

struct OnnxDifference {
  std::string output;
  double largest = 0;    // largest absolute difference of a number
  double scale = 0;      // largest magnitude of the model's numbers
  int64_t classes = -1;  // for best classes: rows whose first class is equal; -1: numbers
};

struct OnnxComparison {
  std::string why;      // if onnxruntime did not run, the reason
  std::string version;  // the version of onnxruntime
  std::vector<OnnxDifference> differences;
};

// Computes kComparedRows random rows with the session and with onnxruntime. For an input with preprocessing, the file
// gets random pictures or columns, and the session gets the results of the stages (raw_inputs.h). `file`: the exported
// model; `folder`: an existing folder for inputs and results; `python`: the interpreter that has onnxruntime. Errors:
// those of run_in_onnxruntime and of steps.
Result<OnnxComparison> compare_with_onnxruntime(const PlannedModel& planned, runtime::Session& session,
                                                const ops::OnnxGraph& graph, const ops::ExportOptions& exported,
                                                const std::string& file, const std::string& folder,
                                                const std::string& python);

}  // namespace xrun::cli
