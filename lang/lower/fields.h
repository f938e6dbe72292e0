// Fields of data sources: look-up, and their text in messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/settings/reader_def.h"

namespace xrun::lang {

inline constexpr std::string_view kRowField = "row";  // the field of a binding that starts with a stage

// The field with this name; null if it does not exist.
const Field* find_field(const std::vector<Field>& fields, std::string_view name);
// The names of the fields as messages list them: "`pixels`, `label`".
std::string field_list(const std::vector<Field>& fields);
// The type of a field, "u8[N, ?, ?, 3]" if a size is unknown until the data is opened; or "an encoded file".
std::string field_text(const Field& field);

}  // namespace xrun::lang
