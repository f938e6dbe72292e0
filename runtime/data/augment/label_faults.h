// Faults of labels that do not fit the classes of a head. They are found when a source is opened, or explained when a
// sample has been read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/base/result.h"
#include "graph/settings/specs.h"
#include "runtime/data/augment/transform.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

struct LabelPlaces {
  Span source;   // place of the call of the reader
  Span counted;  // place of the head's number of classes; may be invalid
  Span binding;
};

// Checks that the source has no more classes than the head, so that one error replaces an error for each sample. If
// classes have names, the error contains the first class that does not fit. Labels that `as_index` counts from 0 are
// all read, since only classes that occur count. `trains`: whether this is the training source; named classes of other
// sources are matched to it by name. Errors: XG0402.
Status check_class_count(const Reader& reader, int field, const DataBinding& binding, const Transform& transform,
                         int64_t classes, bool trains, const LabelPlaces& places);

// Whether labels count from 1 instead of 0: all are in 1..classes, and one is equal to `classes`. `read` returns the
// label of a sample like Transform::run. Broken samples are skipped.
bool count_from_one(int64_t samples, int64_t classes, const std::function<Result<int64_t>(int64_t sample)>& read);

// Completes an error of check_label for the sample `name`: adds the place of the error, and how to correct it.
void explain_label(Error& error, const std::string& name, int64_t classes, bool from_one, const LabelPlaces& places);

}  // namespace xrun::runtime
