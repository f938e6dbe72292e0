// Reads an encoded picture from disk, completely or only its start with the header.
#pragma once

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

// Makes the error XG0412 for a sample, with a help.
Error broken_sample(std::string why);

}  // namespace xrun::runtime
