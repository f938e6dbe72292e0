// The files of a checkpoint, read front to back. A checkpoint may come from others: only ordinary files are read, and
// links are not followed, so that nothing outside of the checkpoint is read in its name.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// Calls `use` with the bytes of a file, piece by piece. A file that has not `expected` bytes, where that is given, is
// not read. Errors: XG0710 it is missing, a link, no ordinary file or of another size; XG0713 the system does not let
// it be read; and what `use` gives.
Status stream_file(const std::string& path, std::optional<Bytes> expected,
                   const std::function<Status(std::span<const std::byte>)>& use);

// A file of text as a whole. Errors: as above; XG0710 above `most` bytes.
Result<std::string> read_text(const std::string& path, Bytes most);

}  // namespace xrun::runtime
