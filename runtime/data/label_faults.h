// Labels that do not fit the classes of a head: found when a source is opened, or explained when a sample is read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/base/result.h"
#include "graph/specs.h"
#include "runtime/data/reader.h"
#include "runtime/data/transform.h"

namespace xrun::runtime {

struct LabelPlaces {
  Span source;   // the call of the reader
  Span counted;  // the number of classes of the head; may be invalid
  Span binding;
};

// Checks that the source has no more classes than the head. There is one error for all samples, which names the first
// class that does not fit if classes have names. Fields whose classes are counted by `as_index` are searched for a
// sample of such a class. `trains`: this is the training source; the named classes of other sources are found by their
// names. Errors: XG0402.
Status check_class_count(const Reader& reader, int field, const DataBinding& binding, const Transform& transform,
                         int64_t classes, bool trains, const LabelPlaces& places);

// Whether all samples have labels of 1 to `classes`, and one has `classes`. `read` returns the label of a sample like
// Transform::run. Broken samples do not count.
bool count_from_one(int64_t samples, int64_t classes, const std::function<Result<int64_t>(int64_t sample)>& read);

// Completes an error of check_label for the sample `name`: adds its place, and how to correct it.
void explain_label(Error& error, const std::string& name, int64_t classes, bool from_one, const LabelPlaces& places);

}  // namespace xrun::runtime
