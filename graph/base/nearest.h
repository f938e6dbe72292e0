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

// Help text for an unknown name of a class or a column, of which there may be millions. It lists at most six names:
// all, if there are no more, or else those that are near, the nearest first.
//   the nearest is `zebra`; others are cat, cow and dog
//   the nearest is `id_17930`; id_1793 and id_1730 are also near; there are 17 931 names
//   the nearest is `café`, which looks the same: it has U+00E9 where this one has U+0065 U+0301; there are ...
//   none of the 17 931 known names is near; the first line of the table has them
//   no names are known
//   where  a clause that says where all names are listed, for the fourth form; may be empty
// Long names are cut. Takes up to a second for a million candidates, so use it only for an error that ends the work.
std::string nearest_names(std::string_view written, std::span<const std::string> candidates,
                          std::string_view where = {});

}  // namespace xrun
