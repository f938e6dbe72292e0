// Sources of pairs, which `verification` measures: samples 2i and 2i + 1 form pair i, or the samples are pictures of
// templates (graph/settings/template_pairs.h), which form the pairs.
#pragma once

#include <string_view>
#include <vector>

#include "graph/settings/reader_def.h"

namespace xrun {

// The field that says whether the pair of a sample shows one class: bool, without dimensions.
inline constexpr std::string_view kPairField = "same";
// The field with the number of a sample's template: i64, without dimensions.
inline constexpr std::string_view kTemplateField = "template";

// Whether a source with these fields has pairs.
bool has_pairs(const std::vector<Field>& fields);
// Whether a source of `data` has pairs, which the arguments of its reader show. False if there is no such source.
bool has_pairs(const DataSpec& data, std::string_view source);

// Returns the position of the field that a binding reads, -1 if the source has no such field. Readers have different
// names for an encoded picture, so a binding that begins with `decode` also reads the picture of a source of pairs.
int bound_field(const std::vector<Field>& fields, const DataBinding& binding);

}  // namespace xrun
