// Labels that are numbers: checks, and the number of classes that follows from them.
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/result.h"
#include "graph/types/attr.h"

namespace xrun::runtime {

// Checks a label as a file gives it: a whole number that i64 holds, and below `classes` unless that is 0. A label below
// 0 is left to the stages of the binding, since it may mean that the sample has no label. Errors: XG0402.
Status check_label_number(double label, int64_t classes);

// The number of classes of a source with `samples` samples: the argument `classes`, else the largest label plus one.
// `path`: for messages. Errors: XG0402 the label is not below `classes`; or, without `classes`, the label is more than
// 16 times the number of samples, since a head would get that many classes by mistake.
Result<int64_t> count_classes(const Attrs& args, int64_t largest_label, int64_t samples, const std::string& path);

}  // namespace xrun::runtime
