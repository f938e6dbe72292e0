#include "graph/settings/pair_fields.h"

#include <algorithm>

namespace xrun {

bool has_pairs(const std::vector<Field>& fields) {
  return std::ranges::any_of(
      fields, [](const Field& field) { return field.name == kPairField || field.name == kTemplateField; });
}

bool has_pairs(const DataSpec& data, std::string_view source) {
  const auto spec = std::ranges::find(data.sources, source, &SourceSpec::name);
  const ReaderDef* reader = spec == data.sources.end() ? nullptr : data_registry().find_reader(spec->reader.name);
  if (reader == nullptr) {
    return false;
  }
  const auto fields = reader->fields(spec->reader.args);
  return fields.ok() && has_pairs(*fields);
}

int bound_field(const std::vector<Field>& fields, const DataBinding& binding) {
  auto found = std::ranges::find(fields, binding.field, &Field::name);
  const bool decodes = !binding.stages.empty() && binding.stages[0].name == "decode";
  if (found == fields.end() && decodes && has_pairs(fields)) {
    found = std::ranges::find(fields, true, &Field::encoded);
  }
  return found == fields.end() ? -1 : static_cast<int>(found - fields.begin());
}

}  // namespace xrun
