// Names in messages of the language: candidates of `nearest` ("did you mean `x`?"), and lists of names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/nearest.h"

namespace xrun::lang {

// The names of all elements of a range, given by a member or a function of an element. They are candidates for
// `nearest`.
template <class Range, class Name>
std::vector<std::string> names_of(const Range& range, Name name) {
  std::vector<std::string> names;
  for (const auto& item : range) {
    names.emplace_back(std::invoke(name, item));
  }
  return names;
}

// The elements of a range as text, "a, b, c". `print` makes the text of an element; elements with an empty text are
// left out.
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
