// Object code of compiled loops on disk (graph/base/cache_file.h), so that a loop is compiled once on a machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace xrun::ops {

// `key` describes the loop, the compiler and the build. None if there is no file for it, or one that is damaged, of
// another key, or that other users may have written.
std::optional<std::string> read_object(std::string_view key);
// Best effort.
void store_object(std::string_view key, std::string_view object);

}  // namespace xrun::ops
