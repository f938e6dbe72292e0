// The tokens of name tables (name_table.h).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"

namespace xrun::runtime {

struct NameToken {
  enum class Kind { kWord, kString, kComma, kArrow, kOpen, kClose, kNewline, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // a word, which may contain captures in braces; a string without its quotes
  Span span;
};

// The error of a line that cannot be read: XG0940.
Diagnostic name_fault(Span at, std::string message, std::string label, std::string help);

// Splits a text into tokens; the last one is kEnd. A brace that is followed by a letter belongs to a word. Faults are
// added to `diagnostics`.
std::vector<NameToken> name_tokens(const SourceMap& sources, int32_t file, Diagnostics& diagnostics);

// Returns the index after a `within` whose heading begins at token `first`: the token after its closing brace, or
// without a brace the end of its heading. REQUIRES: the last token is kEnd.
size_t end_of_block(const std::vector<NameToken>& tokens, size_t first);

}  // namespace xrun::runtime
