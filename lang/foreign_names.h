// Names of losses, metrics, curves, optimizers and layers in other frameworks, which a new user writes first, and our
// name for each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lang/faults.h"

namespace xrun::lang {

enum class NameKind { kLoss, kMetric, kCurve, kOptimizer, kLayer };

// Whether `word` is such a name. Capitals, `_` and a final `loss` do not count: `CrossEntropyLoss` is `cross_entropy`.
bool is_foreign(NameKind kind, std::string_view word);

// The fix for an unknown name of a kind: our name for it, else the nearest of `known`, else `otherwise`.
Fix our_name(NameKind kind, std::string_view word, const std::vector<std::string>& known, Span at, Help otherwise);

}  // namespace xrun::lang
