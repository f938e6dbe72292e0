// Text in the style of other languages and of word processors: their signs, comments, and letters that look like ours.
// The lexer reports each with its replacement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lang/text/faults.h"
#include "lang/text/token.h"

namespace xrun::lang {

struct ForeignText {
  uint32_t end = 0;                   // end of the foreign text
  TokenKind meant = TokenKind::kBad;  // the token that the text stands for; kNewline: no token (a comment)
  std::string message;
  Fix fix;
};

// A place in the text of a file.
struct Place {
  std::string_view text;
  int32_t file = -1;
  uint32_t at = 0;

  std::string_view rest() const { return text.substr(at); }
  Span to(uint32_t end) const { return {file, at, end}; }
  std::string_view line_before() const;  // from the start of the line
  std::string_view rest_of_line() const;
};

// A comment of another language: `//`, `/* */`, `--`, `%`, `;`, `"""`, `<!-- -->`. `starts_statement`: it is the first
// text of its statement.
std::optional<ForeignText> foreign_comment(const Place& place, bool starts_statement);
// A sign such as `=>`, `&&` or a full-width comma; an invisible character; a space other than U+0020.
std::optional<ForeignText> foreign_sign(const Place& place);
// The word at the place if it has characters that names cannot have. `at` may point at ASCII letters before them.
std::optional<ForeignText> foreign_word(const Place& place);

// A string in quotes of another language or a word processor.
std::optional<ForeignText> foreign_string(const Place& place);
// The fix of a `;` at the place: it is removed, or replaced by a newline if another statement follows.
Fix statement_end(const Place& place);

// Whether the text has two words in a row, as prose does; no expression has them.
bool is_prose(std::string_view text);
// The radians of an angle in degrees, as text: "0.1745".
std::string radians(double degrees);

}  // namespace xrun::lang
