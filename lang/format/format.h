// The canonical layout of a file of the language (docs/reference/language.md, "Layout"): `xrun fmt`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"

namespace xrun::lang {

// The text of a file in canonical layout: the tree is unchanged, the comments keep their order between tokens, and
// formatting the result changes nothing. Formatting decides lines and spaces, groups the digits of numbers, and moves
// imports and options to the front. The author decides where a pipeline breaks, where a blank line stands inside
// braces, and the text of comments. Tabs, carriage returns and a byte-order mark are also replaced.
//
// The file is added to `sources` as `path`. Returns nullopt if the text does not parse, or if the result would be
// longer than the parser reads; the faults are in `diagnostics`. Time and memory are linear in the size of the text.
std::optional<std::string> format(const std::string& path, std::string_view text, SourceMap& sources,
                                  Diagnostics& diagnostics);

// The lines of `before`, counted from 1, that differ in `after`: from the first to the last. If `after` only has
// additional lines, these are the two lines around the insertion. `first` is 0 if the texts are equal.
struct ChangedLines {
  int first = 0;
  int last = 0;
};
ChangedLines changed_lines(std::string_view before, std::string_view after);

}  // namespace xrun::lang
