// `xrun explain FILE:NAME`: how a tensor of a model comes to its shape, from the input on.
#pragma once

#include <string>

#include "graph/base/result.h"
#include "runtime/cli/load.h"

namespace xrun::cli {

// A line for each operator on the way from an input of the model to the tensor, with the shape that it gives, its
// parameters and its place; a long way has a line for each part of the model instead. `name`: a binding, an output, or
// the path of an operator or of a part. Errors: XG0201 where the model has no such tensor.
Result<std::string> explain_tensor(const LoadedModel& model, const std::string& name);

}  // namespace xrun::cli
