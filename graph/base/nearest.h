// Names in messages: the known name nearest to an unknown one, and a short list of known names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// The most candidates with which `nearest` suggests a name. With more, some candidate is always near by chance, and
// checking a file full of misspelt names would take minutes.
inline constexpr size_t kMostCandidates = 1000;

// The candidate nearest to `written`, ignoring case, if it is near enough to be a typing slip; empty if no candidate is
// near, or if there are more than kMostCandidates.
std::string nearest(std::string_view written, const std::vector<std::string>& candidates);

// Help text for an unknown name of a class or a column, of which there may be millions. It names the nearest known name
// and at most five other known names:
//   the nearest is `zebra`; others are cat, cow, dog, fox, hen and 17 924 more
//   the nearest is `café`, which looks the same: it has U+00E9 where this one has U+0065 U+0301; others are ...
//   no known name is near; some are cat, cow, dog, fox, hen and 17 925 more
//   no names are known
// Long names are cut. Takes up to a second for a million candidates, so use it only for an error that ends the work.
std::string nearest_names(std::string_view written, std::span<const std::string> candidates);

}  // namespace xrun
