// Names in messages: the known name that is nearest to an unknown one, and a short list of known names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// With more candidates `nearest` suggests nothing: one is always near by chance, and a file of slips would take
// minutes.
inline constexpr size_t kMostCandidates = 1000;

// The candidate nearest to `written`, whatever the case of their letters, if it is near enough to be a typing slip;
// empty if no candidate is, or if there are more than kMostCandidates.
std::string nearest(std::string_view written, const std::vector<std::string>& candidates);

// A part of a help text for the unknown name of a class or column, of which there may be millions. It names the nearest
// and at most five others:
//   the nearest is `zebra`; others are cat, cow, dog, fox, hen and 17 924 more
//   the nearest is `café`, which looks the same: it has U+00E9 where this one has U+0065 U+0301; others are ...
//   no known name is near; some are cat, cow, dog, fox, hen and 17 925 more
//   no names are known
// Long names are cut. Takes up to a second for a million candidates, so it is for an error that ends the work.
std::string nearest_names(std::string_view written, std::span<const std::string> candidates);

}  // namespace xrun
