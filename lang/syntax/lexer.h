// Text to tokens: characters, numbers with units, strings, comments, and which newlines mean something
// (docs/language.md, "Words, numbers, lines").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/base/source.h"
#include "lang/faults.h"
#include "lang/syntax/token.h"

namespace xrun::lang {

// Reads a whole file. Faults (XG0101..XG0109, and XG0111 for a bracket that is never closed) leave kBad tokens or the
// nearest meaning. Linear in the size of the file.
Tokens lex(const SourceMap& sources, int32_t file, Faults& faults);

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }

// A place in the text of a file: the base of the classes that read it character by character.
class Cursor {
 protected:
  Cursor(std::string_view text, int32_t file, uint32_t at, Faults& faults)
      : text_(text), file_(file), at_(at), faults_(faults) {}

  // The character so far ahead; '\0' behind the end.
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

// The number that starts at `begin` (a digit) with its unit. Sets `end` behind it; faults are reported, and the value
// is then the best guess.
Number lex_number(std::string_view text, int32_t file, uint32_t begin, uint32_t& end, Faults& faults);

// The value of the string that starts at `begin` (a quote). Sets `end` behind it; faults are reported.
std::string lex_string(std::string_view text, int32_t file, uint32_t begin, uint32_t& end, Faults& faults);

// Pairs the brackets and drops the newlines that mean nothing: inside () and [], beside `->`, and behind `=`, `,` and
// binary operators. Runs of newlines become one.
void lay_out(Tokens& tokens, Faults& faults);

// Whether a declaration starts at the token `at`: such a word in column 1 with what follows it. Words of declarations
// are names elsewhere, so this is how what was left open above is told from a name.
bool starts_declaration(const Tokens& tokens, size_t at);

}  // namespace xrun::lang
