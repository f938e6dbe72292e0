// string = '"' { character | escape } '"' ;   escape = "\" ( "n" | "t" | "\" | '"' | "u{" hex "}" )
#include <algorithm>
#include <cctype>

#include "graph/base/utf8.h"
#include "lang/syntax/lexer.h"

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
      // The rest of the line is taken as part of the string.
      const uint32_t last = at_ > begin + 1 && text_[at_ - 1] == '\r' ? at_ - 1 : at_;
      faults_.error("XG0104", span(begin, at_), "the string is not closed on its line", "starts here",
                    replacement("close it where it ends", span(last, last), "\""));
    }
    end = at_;
    return value;
  }

 private:
  // Whether the next character is the carriage return of a line end, which is not reported as part of the string.
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
        if (code == 0) {  // it would end a path early
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
                  "known are \\n \\t \\\\ \\\" \\u{..}",
                  replacement("a backslash alone is written `\\\\`", span(begin, begin), "\\"));
  }
};

}  // namespace

std::string lex_string(std::string_view text, int32_t file, uint32_t begin, uint32_t& end, Faults& faults) {
  return StringLexer(text, file, begin, faults).run(end);
}

}  // namespace xrun::lang
