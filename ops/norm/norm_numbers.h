// Describes which numbers of a sample an operator normalises together, for checks of the language.
#pragma once

#include "graph/layouts/norm_group.h"

namespace xrun::ops {

// Returns the numbers that the operator normalises together (see NormOf). For a loss they are the classes of its
// softmax.
NormGroup norm_group(const OpDef& op, const TensorType& x, const Attrs& attrs);

}  // namespace xrun::ops
