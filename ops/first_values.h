// The argument `init` of operators that own a weight.
#pragma once

#include <string_view>

#include "graph/op_def.h"

namespace xrun::ops {

// First values of a weight with `fan_in` terms a product and `fan_out` products a term: those that the attribute `init`
// names, and `otherwise` without it. The attribute is a number, for a constant, or the text of a call:
//   he_normal()      deviation sqrt(2 / fan_in)                  He et al., ICCV 2015
//   xavier_normal()  deviation sqrt(2 / (fan_in + fan_out))      Glorot, Bengio, AISTATS 2010
//   lecun_normal()   deviation sqrt(1 / fan_in)                  LeCun et al., "Efficient BackProp", 1998
//   normal(0.02)  constant(0.1)  zeros()  ones()                 brackets without a number may be left out
// Errors: XG0303.
Result<Init> init_of(std::string_view op, const Attrs& attrs, int64_t fan_in, int64_t fan_out, Init otherwise);

}  // namespace xrun::ops
