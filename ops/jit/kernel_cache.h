// Object code of compiled loops on disk (graph/os/cache_file.h), so that a loop is compiled only once on a machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace xrun::ops {

// Reads the object code for `key`, which describes the loop, the compiler and the build. Returns nullopt if there is no
// file for it, or if the file is damaged, has another key, or may have been written by other users.
std::optional<std::string> read_object(std::string_view key);
// Stores the object code for `key`. Failures are ignored.
void store_object(std::string_view key, std::string_view object);

}  // namespace xrun::ops
