// The stage `ignore` of a binding, which lists the cell values that mean "no label". Such a cell becomes kNoLabel,
// which the end of the binding writes as -1.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "graph/settings/specs.h"
#include "runtime/data/augment/augment.h"

namespace xrun::runtime {

inline constexpr double kNoLabel = -std::numeric_limits<double>::infinity();

// Makes the step of a call of `ignore`.
//   texts      the texts of a column, or the directories of a folder, by class; empty: labels are numbers. Removes the
//              ignored texts, so that the remaining classes are numbered without gaps
//   unmatched  receives the texts that the call lists but that `texts` does not contain
AugmentStep ignore_step(const CallSpec& call, std::vector<std::string>& texts, std::vector<std::string>& unmatched);

// Whether the call lists texts, not numbers.
bool ignores_texts(const CallSpec& call);

// Whether the call ignores missing values: by `missing`, or by a text such as "NA" that stands for a missing value.
bool ignores_missing(const CallSpec& call);

// The warning XG0426, without a place: `ignore` of `input` lists these texts, but no cell of `train` has them.
Error nothing_to_ignore(const std::string& input, const std::vector<std::string>& texts);

}  // namespace xrun::runtime
