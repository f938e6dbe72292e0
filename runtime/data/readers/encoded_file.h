// Encoded pictures in files of their own, which are read completely or only up to the end of the header.
#pragma once

#include <functional>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

inline constexpr Bytes kLargestPicture = 256 * kMiB;  // limit for the size of the encoded file
inline constexpr Bytes kPictureStart = kMiB;          // size of the start of a file that is read for its header

// Reads the file, or only its start, into `out` as u8 [bytes]. Errors, without the file's name: XG0412 it is missing,
// too large or not a file, so another sample may replace it; XG0401 the operating system denies the read.
Status read_encoded(const std::string& path, bool only_start, FieldValue& out);

// Checks that a list names some file that exists: a wrong `root` is found when the list is opened, and not by a run in
// which all samples are broken. `path_of` returns the path of a sample; only looked_samples are examined. Errors:
// XG0401.
Status check_some_exist(const std::string& list, int64_t samples, const std::function<std::string(int64_t)>& path_of);

// Makes the error XG0412 for a sample, with a help.
Error broken_sample(std::string why);

}  // namespace xrun::runtime
