// The numbers that an operator normalises together.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/op_def.h"

namespace xrun {

struct NormGroup {
  int64_t numbers = 0;             // of a sample; 0: the operator does not normalise, or takes samples together
  std::string_view result_of_one;  // the result for a single number, which does not depend on its size: "1"
};

// The group of an operator with this first operand. REQUIRES: OpDef::infer succeeded. It is no field of OpDef, since
// one check of the language reads it (docs/decisions/0050-norms-of-one-number.md).
using NormOf = NormGroup (*)(const OpDef& op, const TensorType& x, const Attrs& attrs);

}  // namespace xrun
