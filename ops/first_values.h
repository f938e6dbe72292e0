// The argument `init` of operators that own a weight.
#pragma once

#include <string_view>

#include "graph/op_def.h"

namespace xrun::ops {

// Initial values of a weight with `fan_in` terms per product and `fan_out` products per term: those that the attribute
// `init` names (graph/initialiser.h), a constant if it is a number, and `otherwise` without it. Errors: XG0303.
Result<Init> init_of(std::string_view op, const Attrs& attrs, int64_t fan_in, int64_t fan_out, Init otherwise);

}  // namespace xrun::ops
