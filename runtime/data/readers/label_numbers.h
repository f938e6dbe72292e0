// Labels that are numbers: checks, and the number of classes that follows from them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

// Returns the argument `classes` or, without it, the largest label plus one. Labels below 0 are not counted. Errors:
// XG0402 a label is not below `classes`; without `classes`, the labels are far above the number of samples, since a
// head would get that many classes. `path` is the file of the labels.
Result<int64_t> count_label_classes(const Attrs& args, std::span<const int32_t> labels, const std::string& path);

// Returns how many of the classes have no sample. REQUIRES: labels are below `classes`.
int64_t count_label_gap(std::span<const int32_t> labels, int64_t classes);

// The warning XG0416 of a source with such a gap; empty if `gap` is 0.
std::vector<Error> gap_warnings(int64_t classes, int64_t gap);

}  // namespace xrun::runtime
