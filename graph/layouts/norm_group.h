// The group of numbers that an operator normalises together.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/op_def.h"

namespace xrun {

struct NormGroup {
  int64_t numbers = 0;             // numbers of a sample; 0: nothing is normalised, or samples are normalised together
  std::string_view result_of_one;  // the result for a single number, which is independent of its value: "1"
};

// The group of an operator with this first operand. REQUIRES: OpDef::infer succeeded. It is not a field of OpDef, since
// only one check of the language reads it (docs/decisions/0050-norms-of-one-number.md).
using NormOf = NormGroup (*)(const OpDef& op, const TensorType& x, const Attrs& attrs);

}  // namespace xrun
