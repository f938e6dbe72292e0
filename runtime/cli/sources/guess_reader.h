// Finds the reader for a file of data, so that `xrun data show` needs only its name.
#pragma once

#include <string>

#include "graph/base/result.h"

namespace xrun::cli {

// Returns the call of the reader for a path, such as `idx("train-images-idx3-ubyte", "train-labels-idx1-ubyte")`. The
// first bytes of the file decide; formats without a signature are known by their extensions. A directory stands
// for its only `.rec`, or for its tar shards, and otherwise for its pictures. A pattern of tar shards is one source. A
// text that is a call already is returned unchanged. Errors: XG0401 the path cannot be read; XG0412 no reader is known
// for it.
Result<std::string> guess_reader(const std::string& path);

// The text as a string of the language, in quotes.
std::string quoted_text(const std::string& text);

}  // namespace xrun::cli
