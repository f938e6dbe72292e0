// Bytes that outlive a crash: what is renamed over something good must be on the disk before its name is.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace xrun {

/// Writes a whole file and syncs it. A file that is there is replaced in place: write beside it and rename.
/// @return 0, or the errno of the first step that failed; what was written until then stays.
int write_durably(const std::string& path, std::span<const std::byte> bytes);

/// Syncs a directory: the names in it (files made, renamed, removed) stand from then on.
/// @return 0, or the errno of the step that failed.
int sync_directory(const std::string& path);

}  // namespace xrun
