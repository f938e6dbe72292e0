// The stage `ignore` of a binding: cells that stand for no label. A number without a label is kNoLabel up to the end of
// the binding, which writes -1.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "graph/specs.h"
#include "runtime/data/augment.h"

namespace xrun::runtime {

inline constexpr double kNoLabel = -std::numeric_limits<double>::infinity();

// The step of a call of `ignore`. `texts` are the classes in order: the texts of a column, or the directories of a
// folder. Those that are ignored are removed from it, and the others are renumbered without gaps. Empty: labels are
// numbers. `unmatched` receives the texts of the call that are not in `texts`.
AugmentStep ignore_step(const CallSpec& call, std::vector<std::string>& texts, std::vector<std::string>& unmatched);

// Whether the call names cells by texts.
bool ignores_texts(const CallSpec& call);

// Whether the call names missing values.
bool ignores_missing(const CallSpec& call);

// The warning for texts that `ignore` of an input names and the source `train` lacks; it has no place in a file.
Error nothing_to_ignore(const std::string& input, const std::vector<std::string>& texts);

}  // namespace xrun::runtime
