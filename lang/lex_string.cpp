// string = '"' { character | escape } '"' ;   escape = "\" ( "n" | "t" | "\" | '"' | "u{" hex "}" )
#include <algorithm>
#include <cctype>

#include "lang/lexer.h"

namespace xrun::lang {
namespace {

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

class StringLexer {
 public:
  StringLexer(std::string_view text, int32_t file, uint32_t begin, Faults& faults)
      : text_(text), file_(file), at_(begin), faults_(faults) {}

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
        if (c == '\t') {
          faults_.error("XG0103", span(at_, at_ + 1), "a tab in a string", "",
                        replacement("write `\\t`", span(at_, at_ + 1), "\\t", true));
        }
        value += c;
        ++at_;
      }
    }
    if (!closed) {
      // What follows on the line is part of the string as far as anyone can tell.
      const uint32_t last = at_ > begin + 1 && text_[at_ - 1] == '\r' ? at_ - 1 : at_;
      faults_.error("XG0104", span(begin, at_), "the string is not closed on its line", "starts here",
                    replacement("close it where it ends", span(last, last), "\""));
    }
    check_utf8(text_.substr(begin, at_ - begin), file_, begin, faults_);
    end = at_;
    return value;
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  Span span(uint32_t from, uint32_t to) const { return {file_, from, to}; }

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
    faults_.error("XG0104", span(begin, at_), "unknown escape `" + std::string(text_.substr(begin, at_ - begin)) + "`",
                  "known are \\n \\t \\\\ \\\" \\u{..}",
                  replacement("a backslash alone is written `\\\\`", span(begin, begin), "\\"));
  }

  std::string_view text_;
  int32_t file_;
  uint32_t at_;
  Faults& faults_;
};

}  // namespace

uint32_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return tail(1) ? 2 : 0;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

void not_utf8(Span byte, Faults& faults) {
  faults.error("XG0102", byte, "the file is not UTF-8 text", "this byte starts no character",
               {.title = "save the file as UTF-8, or convert it from what it is",
                .lines = {"$ iconv -f LATIN1 -t UTF-8 OLD > NEW"}});
}

void check_utf8(std::string_view text, int32_t file, uint32_t begin, Faults& faults) {
  for (size_t i = 0; i < text.size();) {
    const uint32_t length = sequence_length(text.substr(i));
    if (length == 0) {
      const auto at = begin + static_cast<uint32_t>(i);
      not_utf8({file, at, at + 1}, faults);
      return;
    }
    i += length;
  }
}

std::string lex_string(std::string_view text, int32_t file, uint32_t begin, uint32_t& end, Faults& faults) {
  return StringLexer(text, file, begin, faults).run(end);
}

}  // namespace xrun::lang
