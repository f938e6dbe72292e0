// string = '"' { character | escape } '"' ;   escape = "\" ( "n" | "t" | "\" | '"' | "u{" hex "}" )
// Tests: tests/lang/text/lexer_test.cpp
#include <algorithm>
#include <cctype>

#include "graph/base/utf8.h"
#include "lang/text/foreign_text.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

class StringLexer : private Cursor {
 public:
  StringLexer(std::string_view text, int32_t file, uint32_t begin, Faults& faults)
      : Cursor(text, file, begin, faults) {}

  std::string run(uint32_t& end) {
    const uint32_t begin = at_++;
    std::string value;
    bool closed = false;
    while (at_ < text_.size() && peek() != '\n') {
      const char c = peek();
      if (c == '"') {
        ++at_;
        closed = true;
        break;
      }
      if (c == '\\') {
        escape(value);
      } else {
        if (is_control(c) && !is_line_end()) {
          control(c);
        }
        value += c;
        ++at_;
      }
    }
    if (!closed) {
      return unclosed(begin, end);
    }
    end = at_;
    return value;
  }

 private:
  // Reads a string without its second quote. The quote is most likely missing before the brackets or the argument that
  // end the line.
  std::string unclosed(uint32_t begin, uint32_t& end) {
    const std::string_view line = Place{text_, file_, begin}.rest_of_line();
    const size_t length = likely_length(Place{text_, file_, begin}.line_before(), line);
    end = begin + static_cast<uint32_t>(length);
    const std::string_view body = line.substr(1, length - 1);
    // If another kind of quote ends the line, as in "text', it was meant as the second quote.
    const bool is_mixed = body.ends_with('\'') || body.ends_with('`');
    const std::string_view value = body.substr(0, body.size() - (is_mixed ? 1 : 0));
    faults_.error("XG0104", span(begin, end), "the string is not closed on its line", "starts here",
                  replacement("close it where it ends", span(end - (is_mixed ? 1 : 0), end), "\""));
    return std::string(value);
  }

  // The number of bytes of `line` before the place where its second quote is most likely missing. `line` begins with
  // the first quote.
  static size_t likely_length(std::string_view before, std::string_view line) {
    std::string open;  // brackets that this line left open
    bool in_string = false;
    for (const char c : before) {
      in_string = in_string != (c == '"');
      if (!in_string && (c == '(' || c == '[' || c == '{')) {
        open += c == '(' ? ')' : c == '[' ? ']' : '}';
      } else if (!in_string && !open.empty() && c == open.back()) {
        open.pop_back();
      }
    }
    line = line.substr(0, line.find(" #"));  // leaves out a comment
    size_t length = line.find_last_not_of(" \t\r") + 1;
    for (size_t comma = line.find(", "); comma != std::string_view::npos; comma = line.find(", ", comma + 1)) {
      const size_t name = comma + 2;
      size_t behind = name;
      while (behind < line.size() && is_name_char(line[behind])) {
        ++behind;
      }
      if (behind > name && behind < line.size() && line[behind] == '=') {
        return comma;  // "a.csv, header=true)
      }
    }
    while (length > 1 && !open.empty() && line[length - 1] == open.front()) {
      --length;
      open.erase(0, 1);
    }
    return length;
  }

  // Whether the next character is the carriage return of a line end; it is not reported as a part of the string.
  bool is_line_end() const { return peek() == '\r' && (peek(1) == '\n' || at_ + 1 == text_.size()); }

  // Reports an invisible character, which has to be written as an escape.
  void control(char c) {
    const Span at = span(at_, at_ + 1);
    if (c == '\t') {
      faults_.error("XG0103", at, "a tab in a string", "", replacement("write `\\t`", at, "\\t", true));
      return;
    }
    const std::string text = escape_of(c);
    faults_.error(
        "XG0102", at, "a control character in a string", {"number {}", static_cast<int>(c)},
        c == 0 ? replacement("leave it out", at, "") : replacement({"write `{}`, or leave it out", text}, at, text));
  }

  void escape(std::string& value) {
    const uint32_t begin = at_++;
    const char c = peek();
    if (c == 'n' || c == 't' || c == '\\' || c == '"') {
      value += c == 'n' ? '\n' : c == 't' ? '\t' : c;
      ++at_;
      return;
    }
    if (c == 'u' && peek(1) == '{') {
      at_ += 2;
      uint32_t code = 0;
      int digits = 0;
      for (; digits < 7 && std::isxdigit(static_cast<unsigned char>(peek())) != 0; ++at_, ++digits) {
        code = code * 16 + static_cast<uint32_t>(is_digit(peek()) ? peek() - '0' : (peek() | 0x20) - 'a' + 10);
      }
      const bool is_scalar = code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
      if (peek() == '}' && digits > 0 && digits < 7 && is_scalar) {
        ++at_;
        if (code == 0) {  // such a character would end a path early
          faults_.error("XG0104", span(begin, at_), "a string does not hold the character with number 0", "",
                        replacement("leave it out", span(begin, at_), ""));
          return;
        }
        append_utf8(value, code);
        return;
      }
      faults_.error("XG0104", span(begin, at_), "`\\u{...}` holds the number of a character, 1 to 6 hexadecimal digits",
                    "", {"write the digits and close the brace, as in \\u{4E00}; the last character is \\u{10FFFF}"});
      return;
    }
    const uint32_t length =
        peek() == '\n' || at_ == text_.size() ? 0 : std::max(1U, sequence_length(text_.substr(at_)));
    at_ += length;
    faults_.error("XG0104", span(begin, at_), {"unknown escape `{}`", text_.substr(begin, at_ - begin)},
                  "valid escapes: \\n \\t \\\\ \\\" \\u{..}",
                  replacement("a backslash alone is written `\\\\`", span(begin, begin), "\\"));
  }
};

}  // namespace

std::string lex_string(std::string_view text, int32_t file, uint32_t begin, uint32_t& end, Faults& faults) {
  return StringLexer(text, file, begin, faults).run(end);
}

}  // namespace xrun::lang
