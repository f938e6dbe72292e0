// Reads the files of a checkpoint from start to end. A checkpoint may come from an untrusted source, so only ordinary
// files are read, and links, which could point outside the checkpoint, are not followed.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// The help of a message about a file or directory of a checkpoint that the system cannot read, by the errno.
const char* read_help(int number);

// Calls `use` with the bytes of a file, piece by piece. `expected`: the size that the file must have; nullopt: any
// size. Errors: XG0710 the file is missing, a link, not an ordinary file, or has another size; XG0713 the system cannot
// read it; and those of `use`.
Status stream_file(const std::string& path, std::optional<Bytes> expected,
                   const std::function<Status(std::span<const std::byte>)>& use);

// The whole text of a file. Errors: those of stream_file; XG0710 it has more than `most` bytes.
Result<std::string> read_text(const std::string& path, Bytes most);

}  // namespace xrun::runtime
