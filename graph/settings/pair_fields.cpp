#include "graph/settings/pair_fields.h"

#include <algorithm>

namespace xrun {

int bound_field(const std::vector<Field>& fields, const DataBinding& binding) {
  auto found = std::ranges::find(fields, binding.field, &Field::name);
  const bool decodes = !binding.stages.empty() && binding.stages[0].name == "decode";
  if (found == fields.end() && decodes && std::ranges::find(fields, kPairField, &Field::name) != fields.end()) {
    found = std::ranges::find(fields, true, &Field::encoded);
  }
  return found == fields.end() ? -1 : static_cast<int>(found - fields.begin());
}

}  // namespace xrun
