// The standard library: source text that is part of the binary, so that importing "std/..." reads no file.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace xrun::lang {

// Source text of a file of the standard library, "std/vision"; nullopt if there is no file with that name.
std::optional<std::string_view> std_source(std::string_view name);
std::vector<std::string_view> std_files();  // names of the files
// Whether every file can use the declarations of this one without an import: functions of numbers, and optimizers.
bool is_known_without_import(std::string_view name);

}  // namespace xrun::lang
