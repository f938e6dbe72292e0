// Constants of ONNX files: the initializers of the main graph, in the model file or in files next to it. The module
// xrun_onnx.so is needed.
#pragma once

#include <memory>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "runtime/formats/random_file.h"
#include "runtime/interchange/weights/weight_file.h"

namespace xrun::runtime {

// Errors: those of open_weight_file; XG0931 the module is missing; XG0412 also if the model file has 2 GiB or more, or
// names a file outside of its folder.
Result<std::unique_ptr<WeightFile>> open_onnx_weights(std::shared_ptr<const RandomFile> file, StopFlag stop);

}  // namespace xrun::runtime
