// Bounds and types that the records of readers and of data stages share. Only graph/settings/reader_def.cpp,
// graph/settings/augment_def.cpp and the files with types of stages (picture_types.cpp, column_types.cpp) include this.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/base/errors.h"
#include "graph/base/result.h"
#include "graph/settings/reader_def.h"
#include "graph/types/attr.h"
#include "graph/types/tensor_type.h"

namespace xrun {

inline constexpr int64_t kMostColumns = 1 << 24;
inline constexpr int64_t kMostStandardized = 1 << 16;  // columns whose mean and deviation a checkpoint stores

// Makes the error XG0413, "`name` is VALUE", whose help gives the allowed values.
Error out_of_range(std::string_view name, const Text& value, const Text& allowed);

// Checks the arguments against bounds such as "size 4..1024, em 4..1024"; those of a list are the bounds of each of its
// numbers. Errors: XG0413.
Status check_bounds(std::string_view bounds, const Attrs& args);

// Checks that a list has `least` to `most` numbers that do not decrease, if it is given. Errors: XG0413.
Status check_ends(const Attrs& args, std::string_view name, size_t least, size_t most);

// Checks that an argument is a range a..b with 0 <= a < b <= limit. Errors: XG0413.
Status check_interval(const Attrs& args, std::string_view name, int64_t limit);

// The type of a field with these dimensions in each sample: the batch dimension comes first.
TensorType per_sample(DType dtype, std::vector<int64_t> dims, int64_t classes = 0);

// The element type for class numbers below `classes`.
DType index_dtype(int64_t classes);

}  // namespace xrun
