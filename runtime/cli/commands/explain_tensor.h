// `xrun explain FILE:NAME`: how the shape of a tensor follows from the shape of the model's input.
#pragma once

#include <string>

#include "graph/base/result.h"
#include "runtime/cli/model/load.h"

namespace xrun::cli {

// Prints a line for each operator between an input of the model and the tensor: the shape of its result, its parameters
// and its place in the file. If there are many operators, prints a line for each part of the model instead. `name`: a
// binding, an output, or the path of an operator or of a part. Errors: XG0201 the model has no such tensor.
Result<std::string> explain_tensor(const LoadedModel& model, const std::string& name);

}  // namespace xrun::cli
