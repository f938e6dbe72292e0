// Preprocessing inside an exported model: the stages of a data binding become nodes in front of the network.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/settings/specs.h"
#include "ops/onnx/builder.h"

namespace xrun::ops {

// The numbers by which `standardize` has trained, one for each column.
struct ColumnScale {
  std::vector<double> means;
  std::vector<double> deviations;
};
using ColumnScales = std::map<std::string, ColumnScale>;  // key: input

/// Describes what is left of the binding of an input: decoding is left out. Stages that only training has stay, since
/// they decide the type of the pixels after them, but they have no nodes.
/// The file takes decoded pictures of any size or of the input's own, u8 [N, H, W, C] in the order of decoders; columns
/// of a table that the binding has chosen, f64 [N, columns]; and other fields as they are. Fields are those of the
/// source `train`, or of the first source that has the field. Errors: XG0930 a stage has no exact form in ONNX, or no
/// source gives the field; XG0409, XG0413 those of AugmentDef::infer.
Result<OnnxPreprocessing> preprocessing_of(const DataSpec& data, const NamedValue& input, const TensorType& target,
                                           const ColumnScales& scales);

/// Declares the input of the file, appends the nodes, and makes their result the value of the model's input. Errors:
/// XG0930. REQUIRES: the operator set is kResizeOpset or later.
Status add_preprocessing(OnnxBuilder& to, const OnnxPreprocessing& from, const NamedValue& input);

}  // namespace xrun::ops
