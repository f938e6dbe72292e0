// Names in messages: the nearest known name ("did you mean `x`?"), and lists of names.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace xrun::lang {

// With more candidates nothing is suggested: one is always near by chance, and a file of slips would take minutes.
inline constexpr size_t kMostCandidates = 1000;

// The candidate nearest to `written`, whatever the case of their letters, if it is near enough to be a typing slip;
// empty if none is, or if there are more than kMostCandidates.
std::string nearest(std::string_view written, const std::vector<std::string>& candidates);

// The names of a range, by a member or a function of its elements: candidates of `nearest`.
template <class Range, class Name>
std::vector<std::string> names_of(const Range& range, Name name) {
  std::vector<std::string> names;
  for (const auto& item : range) {
    names.emplace_back(std::invoke(name, item));
  }
  return names;
}

// "a, b, c": the elements of a range as `print` writes them; those that it writes as nothing are left out.
template <class Range, class Print>
std::string listed(const Range& range, Print print) {
  std::string text;
  for (const auto& item : range) {
    const std::string one(std::invoke(print, item));
    text += text.empty() || one.empty() ? one : ", " + one;
  }
  return text;
}

}  // namespace xrun::lang
