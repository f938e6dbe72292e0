// Fields of data sources, as messages speak of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/reader_def.h"

namespace xrun::lang {

inline constexpr std::string_view kRowField = "row";  // the field of a binding that starts with a stage

// Null where there is no field of this name.
const Field* find_field(const std::vector<Field>& fields, std::string_view name);
// "`pixels`, `label`"
std::string field_list(const std::vector<Field>& fields);
// Its type, "u8[N, ?, ?, 3]" where the size is found by opening the data; "an encoded file".
std::string field_text(const Field& field);

}  // namespace xrun::lang
