// The classes of a source by name, and their numbers in the training run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/specs.h"
#include "runtime/data/augment/transform.h"
#include "runtime/data/readers/reader.h"
#include "runtime/train/state/class_tables.h"

namespace xrun::runtime {

// Returns the classes of the input that `binding` fills from field number `field`: texts of a column, or the reader's
// class names. If a stage counts labels from a number other than 0, the classes are numbers. Errors, without a place:
// XG0402 two names are equal after conversion to valid UTF-8.
Result<ClassTable> table_of(const Transform& transform, const DataBinding& binding, const Reader& reader, int field,
                            const std::string& source);

// The names of a reader's classes, class 0 first; empty if a class has no name.
std::vector<std::string> class_names_of(const Reader& reader);

// Returns the number in `trained` of each class of `own`. REQUIRES: at least one of the tables has names. Errors,
// without a place: XG0402 a class is missing in `trained`, or one table has names and the other has numbers.
Result<std::vector<int64_t>> numbers_in(const ClassTable& trained, const ClassTable& own, const std::string& source);

}  // namespace xrun::runtime
