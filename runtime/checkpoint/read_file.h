// The files of a checkpoint, read front to back.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "graph/base/result.h"

namespace xrun::runtime {

// Calls `use` with the bytes of a file, piece by piece. Errors: XG0710 it is missing, XG0713 the system does not let it
// be read, and what `use` gives.
Status stream_file(const std::string& path, const std::function<Status(std::span<const std::byte>)>& use);

// A file of text as a whole. Errors: as above; XG0710 above 4 GiB.
Result<std::string> read_text(const std::string& path);

}  // namespace xrun::runtime
