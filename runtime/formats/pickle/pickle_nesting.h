// Checks that the values of a pickle form a tree, or share parts, but contain no cycle.
#pragma once

#include "graph/base/result.h"
#include "runtime/formats/pickle/pickle.h"

namespace xrun::runtime {

// Errors: XG0412 a value contains itself, or values are nested more than kMostPickleDepth deep. Time and memory grow
// with the size of the pickle, whatever is shared.
Status check_nesting(const Pickle& pickle);

}  // namespace xrun::runtime
