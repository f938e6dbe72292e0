// The name tables that are part of the program, and how tables of users are read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "runtime/interchange/names/name_table.h"

namespace xrun::runtime {

// The text of a table of the program by its name, such as "torchvision_resnet".
struct NameText {
  std::string_view name;
  std::string_view text;
};
std::vector<NameText> name_texts();  // sorted by name

// Parses a table of the program. REQUIRES: there is one with this name.
NameTable known_table(std::string_view name);

// Parses file `file` of `sources`, and appends the lines of the table that it is like. Nullopt: it has errors, which
// are in `diagnostics` (XG0940).
std::optional<NameTable> table_of_user(const SourceMap& sources, int32_t file, Diagnostics& diagnostics);

}  // namespace xrun::runtime
