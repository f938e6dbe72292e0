// Tests: tests/ptx/parser_test.cpp
#include "tests/support/ptx/tokens.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>

namespace xrun::ptx {

namespace {

constexpr size_t kLongestText = size_t{16} << 20;

bool begins_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}
bool continues_word(char c) { return begins_word(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    if (text_.size() > kLongestText) {
      return text_error(0, "the text has more than 16 MiB");
    }
    while (true) {
      XRUN_TRY(skip_blanks());
      if (at_ >= text_.size()) {
        break;
      }
      XRUN_TRY(next());
    }
    tokens_.push_back({TokenKind::kEnd, text_.substr(text_.size()), 0, 0, line_});
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  // Moves past blanks and comments.
  Status skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\n') {
        ++line_;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else if (peek(0) == '/' && peek(1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (peek(0) == '/' && peek(1) == '*') {
        const size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) {
          return text_error(line_, "a comment is not closed");
        }
        for (; at_ < end + 2; ++at_) {
          line_ += text_[at_] == '\n' ? 1 : 0;
        }
      } else {
        break;
      }
    }
    return {};
  }

  void add(TokenKind kind, size_t length, uint64_t bits = 0, int float_bits = 0) {
    tokens_.push_back({kind, text_.substr(at_, length), bits, float_bits, line_});
    at_ += length;
  }

  Status next() {
    const char c = peek(0);
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      return number();
    }
    if (c == '"') {
      const size_t end = text_.find_first_of("\"\n", at_ + 1);
      if (end == std::string_view::npos || text_[end] == '\n') {
        return text_error(line_, "a string is not closed");
      }
      add(TokenKind::kString, end + 1 - at_);
      return {};
    }
    if (begins_word(c) || (c == '.' && begins_word(peek(1)))) {
      size_t length = 1;
      // A word has dots, and pairs of colons as in `.shared::cta`; a single colon ends a label.
      while (continues_word(peek(length)) || (peek(length) == '.' && continues_word(peek(length + 1))) ||
             (peek(length) == ':' && peek(length + 1) == ':') || (peek(length) == ':' && peek(length - 1) == ':')) {
        ++length;
      }
      add(TokenKind::kWord, length);
      return {};
    }
    if (std::string_view(",;{}()[]<>:+-@!=|").find(c) != std::string_view::npos) {
      add(TokenKind::kSign, 1);
      return {};
    }
    return text_error(line_,
                      fmt::format("no token of PTX begins with the character {:#04x}", static_cast<unsigned char>(c)));
  }

  Status number() {
    size_t length = 1;
    while (continues_word(peek(length)) ||
           (peek(length) == '.' && std::isdigit(static_cast<unsigned char>(peek(length + 1))) != 0)) {
      ++length;
    }
    std::string_view digits = text_.substr(at_, length);
    if (digits.size() > 2 && digits[0] == '0' && std::string_view("fFdD").find(digits[1]) != std::string_view::npos) {
      const int bits = digits[1] == 'f' || digits[1] == 'F' ? 32 : 64;
      uint64_t value = 0;
      if (std::ssize(digits) != 2 + bits / 4 || !read(digits.substr(2), 16, value)) {
        return text_error(line_, fmt::format("`{}` is not the bits of a number", digits));
      }
      add(TokenKind::kFloat, length, value, bits);
      return {};
    }
    if (digits.find('.') != std::string_view::npos) {
      const std::string copy(digits);
      char* end = nullptr;
      const double value = std::strtod(copy.c_str(), &end);
      if (*end != '\0') {
        return text_error(line_, fmt::format("`{}` is not a number", digits));
      }
      add(TokenKind::kFloat, length, std::bit_cast<uint64_t>(value), 64);
      return {};
    }
    uint64_t value = 0;
    std::string_view rest = digits.ends_with('U') ? digits.substr(0, digits.size() - 1) : digits;
    const bool hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    const bool binary = rest.starts_with("0b") || rest.starts_with("0B");
    const int base = hexadecimal ? 16 : binary ? 2 : rest.size() > 1 && rest[0] == '0' ? 8 : 10;
    if (!read(hexadecimal || binary ? rest.substr(2) : rest, base, value)) {
      return text_error(line_, fmt::format("`{}` is not a number of at most 64 bits", digits));
    }
    add(TokenKind::kNumber, length, value);
    return {};
  }

  static bool read(std::string_view digits, int base, uint64_t& value) {
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    return code == std::errc() && end == digits.data() + digits.size();
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Error text_error(int line, std::string cause, std::string help) {
  return Error{.kind = ErrorKind::kContent,
               .code = "",
               .message = fmt::format("PTX line {}: {}", line, cause),
               .help = std::move(help)};
}

Result<std::vector<Token>> tokens_of(std::string_view text) { return Lexer(text).run(); }

}  // namespace xrun::ptx
