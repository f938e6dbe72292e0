// The margins that the arguments of losses describe. Errors: XG0303 an argument is out of range.
#pragma once

#include "graph/base/result.h"
#include "graph/op_def.h"

namespace xrun::ops {

Result<MarginForm> ce_margin(const Attrs& attrs);  // for `softmax_ce`, which has no margin
Result<MarginForm> arcface_margin(const Attrs& attrs);
Result<MarginForm> cosface_margin(const Attrs& attrs);
Result<MarginForm> combined_margin(const Attrs& attrs);

// Returns the form of a margin that is written in the language. Its attribute `f` is the text of a function of the
// target's cosine.
Result<MarginForm> own_margin(const Attrs& attrs);

}  // namespace xrun::ops
