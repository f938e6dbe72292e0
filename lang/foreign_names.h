// What other frameworks call losses, metrics, curves, optimizers and layers: a new user writes these names first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lang/faults.h"

namespace xrun::lang {

enum class NameKind { kLoss, kMetric, kCurve, kOptimizer, kLayer };

// Whether `word` is such a name, in any spelling: `CrossEntropyLoss` is `cross_entropy`.
bool is_foreign(NameKind kind, std::string_view word);

// The fix of an unknown name of a kind: our name for a foreign one, the nearest of `known`, else `otherwise`.
Fix our_name(NameKind kind, std::string_view word, const std::vector<std::string>& known, Span at, Help otherwise);

}  // namespace xrun::lang
