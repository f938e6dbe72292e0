// Initial values of the weight that an operator owns, from its argument `init`.
#pragma once

#include <string_view>

#include "graph/op_def.h"

namespace xrun::ops {

// Returns the initial values of a weight. `fan_in` is the number of inputs of each output, `fan_out` the number of
// outputs that read each input. The attribute `init` is the name of an initialiser (graph/initialiser.h) or a number,
// which makes a constant; without it the result is `otherwise`. Errors: XG0303.
Result<Init> init_of(std::string_view op, const Attrs& attrs, int64_t fan_in, int64_t fan_out, Init otherwise);

}  // namespace xrun::ops
