#include "lang/lexer.h"

#include <algorithm>
#include <cctype>

#include "lang/parser.h"

namespace xrun::lang {
namespace {

// Bytes of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none (Unicode 15, table 3-7).
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

TokenKind word_kind(std::string_view word) {
  if (word.size() < 2 || word.size() > 8) {
    return TokenKind::kName;
  }
  for (int i = static_cast<int>(TokenKind::kTrue); i <= static_cast<int>(TokenKind::kAs); ++i) {
    const auto kind = static_cast<TokenKind>(i);
    if (text_of(kind) == word) {
      return kind;
    }
  }
  return TokenKind::kName;
}

// What people paste or carry over from other languages, and what is meant.
struct Foreign {
  std::string_view text;
  std::string_view meant;
};
constexpr Foreign kForeign[] = {
    {"\u2192", "->"}, {"\u2212", "-"},  {"\u2013", "-"},   {"\u00D7", "*"},  {"\u2264", "<="},
    {"\u2265", ">="}, {"\u2260", "!="}, {"\u2026", "..."}, {"\u201C", "\""}, {"\u201D", "\""},
    {"\u00A0", " "},  {"&&", "and"},    {"||", "or"},      {"!", "not "},    {"**", "^"},
};

struct Sign {
  TokenKind kind = TokenKind::kBad;
  uint32_t length = 0;  // 0: no sign of the language
};

// The longest sign that starts with these characters.
Sign sign_at(char a, char b, char c) {
  switch (a) {
    case '(':
      return {TokenKind::kLeftParen, 1};
    case ')':
      return {TokenKind::kRightParen, 1};
    case '[':
      return {TokenKind::kLeftBracket, 1};
    case ']':
      return {TokenKind::kRightBracket, 1};
    case '{':
      return {TokenKind::kLeftBrace, 1};
    case '}':
      return {TokenKind::kRightBrace, 1};
    case ',':
      return {TokenKind::kComma, 1};
    case ':':
      return {TokenKind::kColon, 1};
    case '+':
      return {TokenKind::kPlus, 1};
    case '*':
      return {TokenKind::kStar, 1};
    case '%':
      return {TokenKind::kPercent, 1};
    case '^':
      return {TokenKind::kCaret, 1};
    case '.':
      return b != '.'   ? Sign{TokenKind::kDot, 1}
             : c != '.' ? Sign{TokenKind::kRange, 2}
                        : Sign{TokenKind::kEllipsis, 3};
    case '-':
      return b == '>' ? Sign{TokenKind::kArrow, 2} : Sign{TokenKind::kMinus, 1};
    case '/':
      return b == '/' ? Sign{TokenKind::kSlashSlash, 2} : Sign{TokenKind::kSlash, 1};
    case '=':
      return b == '=' ? Sign{TokenKind::kEqual, 2} : Sign{TokenKind::kAssign, 1};
    case '<':
      return b == '=' ? Sign{TokenKind::kLessEqual, 2} : Sign{TokenKind::kLess, 1};
    case '>':
      return b == '=' ? Sign{TokenKind::kGreaterEqual, 2} : Sign{TokenKind::kGreater, 1};
    case '!':
      return b == '=' ? Sign{TokenKind::kNotEqual, 2} : Sign{};
    default:
      return {};
  }
}

class Lexer {
 public:
  Lexer(const SourceMap& sources, int32_t file, Faults& faults)
      : text_(sources.text(file)), file_(file), faults_(faults) {
    out_.file = file;
    out_.text = text_;
    out_.tokens.reserve(std::min<size_t>(text_.size(), kMaxFileBytes) / 3 + 16);
  }

  Tokens run() {
    if (text_.size() > kMaxFileBytes) {
      faults_.error("XG0101", {file_, 0, 0},
                    "the file has " + std::to_string(text_.size()) + " bytes; 4 MiB are allowed", "not read");
      push(TokenKind::kEnd, 0);
      return std::move(out_);
    }
    if (text_.starts_with("\xEF\xBB\xBF")) {
      at_ = 3;
      faults_.error("XG0102", span(0, 3), "the file starts with a byte-order mark; it is not needed")
          .fixes.push_back(replacement("remove it", span(0, 3), "", true));
    }
    while (at_ < text_.size() && !faults_.full()) {
      next();
    }
    push(TokenKind::kEnd, at_);
    report_counted();
    return std::move(out_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  Span span(uint32_t from, uint32_t to) const { return {file_, from, to}; }

  void push(TokenKind kind, uint32_t begin, uint32_t literal = 0) {
    out_.tokens.push_back({kind, begin == line_start_, false, begin, at_, literal});
  }

  void next() {
    const char c = text_[at_];
    const uint32_t begin = at_;
    if (c == ' ') {
      ++at_;
    } else if (c == '\n') {
      ++at_;
      if (out_.tokens.empty() || out_.tokens.back().kind != TokenKind::kNewline) {
        push(TokenKind::kNewline, begin);
      }
      line_start_ = at_;
    } else if (is_name_start(c)) {
      while (is_name_char(peek())) {
        ++at_;
      }
      push(word_kind(text_.substr(begin, at_ - begin)), begin);
    } else if (is_digit(c)) {
      Number number = lex_number(text_, file_, begin, at_, faults_);
      push(TokenKind::kNumber, begin, static_cast<uint32_t>(out_.numbers.size()));
      out_.numbers.push_back(number);
    } else if (c == '"') {
      string();
    } else if (c == '#') {
      comment();
    } else if (c == '\t') {
      tabs_.see(begin);
      ++at_;
    } else if (c == '\r' && (peek(1) == '\n' || at_ + 1 == text_.size())) {
      returns_.see(begin);
      ++at_;
    } else {
      sign();
    }
  }

  void sign() {
    const uint32_t begin = at_;
    if (peek() == '*' && peek(1) == '*') {
      bad_character();
      return;
    }
    if (peek() == '.' && is_digit(peek(1))) {
      leading_dot();
      return;
    }
    const auto [kind, length] = sign_at(peek(), peek(1), peek(2));
    if (length > 0) {
      at_ += length;
      push(kind, begin);
      return;
    }
    bad_character();
  }

  void leading_dot() {
    const uint32_t begin = at_;
    const bool after_value = !out_.tokens.empty() && out_.tokens.back().end == begin;
    if (after_value) {  // x.5: the parser says that a name is missing
      ++at_;
      push(TokenKind::kDot, begin);
      return;
    }
    faults_.error("XG0105", span(begin, begin + 1), "a number starts with a digit", "missing zero")
        .fixes.push_back(replacement("write the zero", span(begin, begin), "0", true));
    ++at_;
    Number number = lex_number(text_, file_, at_, at_, faults_);
    push(TokenKind::kNumber, begin, static_cast<uint32_t>(out_.numbers.size()));
    out_.numbers.push_back(number);
  }

  void bad_character() {
    const uint32_t begin = at_;
    const std::string_view rest = text_.substr(at_);
    const uint32_t length = sequence_length(rest);
    if (!out_.tokens.empty() && out_.tokens.back().kind == TokenKind::kBad && out_.tokens.back().end == begin) {
      at_ += std::max(length, 1U);
      out_.tokens.back().end = at_;  // one report for a run
      return;
    }
    if (rest.starts_with('\'')) {
      single_quotes();
      return;
    }
    for (const Foreign& foreign : kForeign) {
      if (rest.starts_with(foreign.text)) {
        at_ += static_cast<uint32_t>(foreign.text.size());
        push(TokenKind::kBad, begin);
        faults_.error("XG0102", span(begin, at_), "`" + std::string(foreign.text) + "` is not a sign of the language")
            .fixes.push_back(replacement("write `" + std::string(foreign.meant) + "`", span(begin, at_),
                                         std::string(foreign.meant), false));
        return;
      }
    }
    at_ += std::max(length, 1U);
    push(TokenKind::kBad, begin);
    if (length == 0) {
      faults_.error("XG0102", span(begin, at_), "the file is not UTF-8 text", "this byte starts no character");
      return;
    }
    const auto code = static_cast<unsigned char>(rest[0]);
    if (code < 0x20 || code == 0x7F) {
      faults_.error("XG0102", span(begin, at_), "control character with number " + std::to_string(code));
      return;
    }
    Diagnostic& fault = faults_.error("XG0102", span(begin, at_),
                                      "`" + std::string(rest.substr(0, length)) + "` is not a sign of the language");
    if (code == ';') {
      fault.fixes.push_back(replacement("a newline ends a statement", span(begin, at_), "", false));
    } else if (length > 1) {
      fault.notes.push_back("names are made of a-z, A-Z, 0-9 and `_`; other characters stand in strings and comments");
    }
  }

  // 'abc': what people mean is plain, so the whole of it is one fault.
  void single_quotes() {
    const uint32_t begin = at_;
    const std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
    const size_t close = line.find('\'', 1);
    at_ += static_cast<uint32_t>(close == line.npos ? 1 : close + 1);
    push(TokenKind::kBad, begin);
    Diagnostic& fault = faults_.error("XG0102", span(begin, at_), "strings stand in double quotes");
    if (close != line.npos && line.find_first_of("\"\\") > close) {
      fault.fixes.push_back(
          replacement("write it so", span(begin, at_), "\"" + std::string(line.substr(1, close - 1)) + "\"", true));
    }
  }

  void comment() {
    const uint32_t begin = at_;
    const size_t end = text_.find('\n', at_);
    at_ = static_cast<uint32_t>(end == text_.npos ? text_.size() : end);
    if (at_ > begin && text_[at_ - 1] == '\r') {
      --at_;
    }
    const std::string_view body = text_.substr(begin, at_ - begin);
    check_utf8(begin, body);
    out_.comments.push_back({begin, at_, body.starts_with("##")});
  }

  void check_utf8(uint32_t begin, std::string_view body) {
    for (size_t i = 0; i < body.size();) {
      const uint32_t length = sequence_length(body.substr(i));
      if (length == 0) {
        const auto at = begin + static_cast<uint32_t>(i);
        faults_.error("XG0102", span(at, at + 1), "the file is not UTF-8 text", "this byte starts no character");
        return;
      }
      i += length;
    }
  }

  void string() {
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
          faults_.error("XG0103", span(at_, at_ + 1), "a tab in a string")
              .fixes.push_back(replacement("write `\\t`", span(at_, at_ + 1), "\\t", true));
        }
        value += c;
        ++at_;
      }
    }
    if (!closed) {
      // What follows on the line is part of the string as far as anyone can tell.
      faults_.error("XG0104", span(begin, at_), "the string is not closed on its line", "starts here");
    }
    check_utf8(begin, text_.substr(begin, at_ - begin));
    push(TokenKind::kString, begin, static_cast<uint32_t>(out_.strings.size()));
    out_.strings.push_back(std::move(value));
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
        append_utf8(value, code);
        return;
      }
      faults_.error("XG0104", span(begin, at_),
                    "`\\u{...}` holds the number of a character, 1 to 6 hexadecimal digits");
      return;
    }
    const uint32_t length =
        peek() == '\n' || at_ == text_.size() ? 0 : std::max(1U, sequence_length(text_.substr(at_)));
    at_ += length;
    faults_.error("XG0104", span(begin, at_), "unknown escape `" + std::string(text_.substr(begin, at_ - begin)) + "`",
                  "known are \\n \\t \\\\ \\\" \\u{..}");
  }

  // Faults that come by the hundred or not at all are reported once, with their number.
  struct Counted {
    uint32_t first = 0;
    uint32_t count = 0;
    void see(uint32_t at) {
      first = count == 0 ? at : first;
      ++count;
    }
  };

  void report_counted() {
    if (tabs_.count > 0) {
      Diagnostic& fault = faults_.error("XG0103", span(tabs_.first, tabs_.first + 1), "a tab; indent by two spaces");
      if (tabs_.count == 1) {
        fault.fixes.push_back(replacement("write two spaces", span(tabs_.first, tabs_.first + 1), "  ", true));
      } else {
        fault.notes.push_back("the file has " + std::to_string(tabs_.count) + " tabs");
      }
    }
    if (returns_.count > 0) {
      faults_
          .error("XG0102", span(returns_.first, returns_.first + 1),
                 "lines end with a carriage return; a line feed alone is used")
          .notes.push_back("the file has " + std::to_string(returns_.count) + " such lines");
    }
  }

  std::string_view text_;
  int32_t file_;
  Faults& faults_;
  uint32_t at_ = 0;
  uint32_t line_start_ = 0;
  Counted tabs_;
  Counted returns_;
  Tokens out_;
};

}  // namespace

Tokens lex(const SourceMap& sources, int32_t file, Faults& faults) {
  Tokens tokens = Lexer(sources, file, faults).run();
  lay_out(tokens, faults);
  return tokens;
}

}  // namespace xrun::lang
