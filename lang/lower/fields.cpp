#include "lang/lower/fields.h"

#include <algorithm>

#include "lang/text/nearest.h"

namespace xrun::lang {

const Field* find_field(const std::vector<Field>& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

std::string field_list(const std::vector<Field>& fields) {
  return listed(fields, [](const Field& field) { return "`" + field.name + "`"; });
}

std::string field_text(const Field& field) {
  if (field.encoded) {
    return "an encoded file";
  }
  std::string text = to_text(field.type);
  // A size of 0 is unknown until the data is opened.
  for (size_t at = text.find(" 0"); at != std::string::npos; at = text.find(" 0", at + 2)) {
    if (at + 2 < text.size() && (text[at + 2] == ',' || text[at + 2] == ']')) {
      text.replace(at, 2, " ?");
    }
  }
  return text;
}

}  // namespace xrun::lang
