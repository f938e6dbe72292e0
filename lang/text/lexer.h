// Converts the text of a file to tokens: names, signs, numbers with units, strings, comments, and the newlines that end
// statements (docs/reference/language.md, "Words, numbers, lines").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/base/source.h"
#include "lang/text/faults.h"
#include "lang/text/token.h"

namespace xrun::lang {

// The largest file in bytes. A larger file is rejected with XG0101 and not read.
inline constexpr uint32_t kMaxFileBytes = 4u << 20;

// Reads a whole file. Faults (XG0101..XG0105, XG0108, XG0109, and XG0111 for a bracket without a partner) leave kBad
// tokens or the likeliest value. Linear in the size of the file.
Tokens lex(const SourceMap& sources, int32_t file, Faults& faults);

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }

// A position in the text of a file: the base of the classes that read it character by character.
class Cursor {
 protected:
  Cursor(std::string_view text, int32_t file, uint32_t at, Faults& faults)
      : text_(text), file_(file), at_(at), faults_(faults) {}

  // The character `ahead` places after the cursor; '\0' after the end of the text.
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  Span span(uint32_t from, uint32_t to) const { return {file_, from, to}; }
  void skip_name() {
    while (is_name_char(peek())) {
      ++at_;
    }
  }

  std::string_view text_;
  int32_t file_;
  uint32_t at_;
  Faults& faults_;
};

// Reads the number with its unit that starts at `begin` (a digit), and sets `end` to the first byte after it. Faults
// are reported; the value is then the best guess.
Number lex_number(std::string_view text, int32_t file, uint32_t begin, uint32_t& end, Faults& faults);

// Reads the string that starts at `begin` (a quote), returns its value and sets `end` to the first byte after it.
// Faults are reported.
std::string lex_string(std::string_view text, int32_t file, uint32_t begin, uint32_t& end, Faults& faults);

// Pairs the brackets and drops the newlines that end no statement: those inside () and [], next to `->`, and after `=`,
// `,` and binary operators unless a declaration follows. Several newlines in a row become one.
void lay_out(Tokens& tokens, Faults& faults);

// Whether a declaration starts at token number `at`: one of its keywords in column 1, followed by a name, a string or
// `{`. Elsewhere such a word is a name. A declaration that starts inside an open bracket shows that the bracket was not
// closed.
bool starts_declaration(const Tokens& tokens, size_t at);

}  // namespace xrun::lang
