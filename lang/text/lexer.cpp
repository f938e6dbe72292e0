// Reads a file from start to end. `next` decides by the first character: a name, a number (lex_number.cpp), a string
// (lex_string.cpp), a comment or a sign. Before signs, text of other languages is recognised (foreign_text.h); it is
// reported, and replaced by the token that it stands for, so that the parser does not report it again. lay_out
// (layout.cpp) then pairs the brackets and drops newlines.
#include "lang/text/lexer.h"

#include <algorithm>

#include "graph/base/utf8.h"
#include "graph/os/large_pages.h"
#include "lang/text/file_faults.h"
#include "lang/text/foreign_text.h"
#include "lang/text/signs.h"

namespace xrun::lang {
namespace {

class Lexer : private Cursor {
 public:
  Lexer(const SourceMap& sources, int32_t file, Faults& faults)
      : Cursor(sources.text(file), file, 0, faults), path_(sources.path(file)) {
    out_.file = file;
    out_.text = text_;
    const std::string_view read = text_.substr(0, kMaxFileBytes);
    // A large text reserves space for the most tokens and numbers that it may have: a token per byte, and a number per
    // two bytes. Growing vectors would be copied, whereas reserved memory that is not used is never touched. Other
    // texts reserve the usual number.
    constexpr size_t kLarge = size_t{1} << 20;
    const size_t bytes = read.size();
    reserve_large(out_.tokens, bytes < kLarge ? bytes / 3 + 16 : bytes + 16);
    reserve_large(out_.numbers, bytes < kLarge ? bytes / 4 : bytes / 2);
  }

  Tokens run() {
    if (text_.size() > kMaxFileBytes) {
      faults_.error("XG0101", {file_, 0, 0}, "the file is larger than 4 MiB", "not read",
                    {"divide it: `import` and `from ... use` bring in the declarations of other files"});
      push(TokenKind::kEnd, 0);
      return std::move(out_);
    }
    if (text_.starts_with("\xEF\xBB\xBF")) {
      at_ = 3;
      faults_.error("XG0102", span(0, 3), "the file starts with a byte-order mark; it is not needed", "",
                    replacement("remove it", span(0, 3), "", true));
    }
    check_encoding(text_, file_, at_, faults_);
    while (at_ < text_.size() && !faults_.full()) {
      next();
    }
    push(TokenKind::kEnd, at_);
    report_counted(tabs_, returns_, file_, path_, faults_);
    return std::move(out_);
  }

 private:
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
      skip_name();
      if (static_cast<unsigned char>(peek()) >= 0x80 && foreign(begin, foreign_word(place(begin)))) {
        return;
      }
      push(word_kind(text_.substr(begin, at_ - begin)), begin);
    } else if (is_digit(c)) {
      Number number = lex_number(text_, file_, begin, at_, faults_);
      push(TokenKind::kNumber, begin, static_cast<uint32_t>(out_.numbers.size()));
      out_.numbers.push_back(number);
    } else if (c == '"') {
      if (peek(1) == '"' && peek(2) == '"' && foreign(begin, foreign_comment(place(begin), starts_statement()))) {
        return;
      }
      if (opening_is_missing()) {
        return;
      }
      std::string value = lex_string(text_, file_, begin, at_, faults_);
      push(TokenKind::kString, begin, static_cast<uint32_t>(out_.strings.size()));
      out_.strings.push_back(std::move(value));
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
    if (may_be_foreign() && (foreign(begin, foreign_comment(place(begin), starts_statement())) ||
                             foreign(begin, foreign_sign(place(begin))))) {
      return;
    }
    if (peek() == '.' && is_digit(peek(1))) {
      leading_dot();
      return;
    }
    if (const TokenKind kind = sign_at(text_.substr(at_)); kind != TokenKind::kBad) {
      at_ += static_cast<uint32_t>(text_of(kind).size());
      push(kind, begin);
      see_bracket(kind);
      return;
    }
    bad_character();
  }

  Place place(uint32_t at) const { return {text_, file_, at}; }

  // Whether the cursor is at the start of its statement.
  bool starts_statement() const {
    return open_ == 0 && (out_.tokens.empty() || out_.tokens.back().kind == TokenKind::kNewline);
  }

  void see_bracket(TokenKind kind) {
    if (kind == TokenKind::kLeftParen || kind == TokenKind::kLeftBracket) {
      ++open_;
    } else if (kind == TokenKind::kRightParen || kind == TokenKind::kRightBracket) {
      open_ = std::max(0, open_ - 1);
    } else if (kind == TokenKind::kLeftBrace || kind == TokenKind::kRightBrace) {
      open_ = 0;  // an earlier bracket was never closed
    }
  }

  // Whether the sign at the cursor may belong to another language. This quick test excludes most signs.
  bool may_be_foreign() const {
    const char c = peek();
    const char second = peek(1);
    switch (c) {
      case '-':
        return second == '-';
      case '/':
        return second == '/' || second == '*';
      case '=':
        return second == '>' || (second == '=' && peek(2) == '=');
      case '<':
        return second == '!' || second == '>';
      case '>':
        return second == '>';
      case ':':
        return second == '=';
      case '*':
        return second == '*';
      case '%':
      case ';':
      case '|':
      case '&':
      case '~':
      case '?':
        return true;
      case '!':
        return second != '=' || peek(2) == '=';
      default:
        return static_cast<unsigned char>(c) >= 0x80;
    }
  }

  // If text of another language was found, reports it and continues after it with the token that it stands for. Returns
  // whether there was such text.
  bool foreign(uint32_t begin, std::optional<ForeignText> found) {
    if (!found) {
      return false;
    }
    at_ = found->end;
    if (found->meant != TokenKind::kNewline) {
      push(found->meant, begin);
      see_bracket(found->meant);
      out_.tokens.back().unpaired = found->meant > TokenKind::kRightBrace || is_reserved(found->meant);
    }
    const std::string_view all = text_.substr(begin, at_ - begin);
    const auto end = begin + static_cast<uint32_t>(std::min(all.find('\n'), all.size()));
    faults_.error("XG0102", span(begin, end), std::move(found->message), "", std::move(found->fix));
    return true;
  }

  // Whether the opening quote of a string is missing, as in folder(pictures"): the only quote of its line comes after
  // the word. The fault is then reported and the string is read.
  bool opening_is_missing() {
    const std::string_view line = place(at_).line_before();
    const std::string_view ends = ")],";
    const char behind = peek(1);
    if (!touches_value() || place(at_ + 1).rest_of_line().find('"') != std::string_view::npos ||
        std::ranges::count(line, '"') % 2 != 0 ||
        (behind != '\0' && behind != '\n' && ends.find(behind) == std::string_view::npos)) {
      return false;
    }
    const std::string_view stops = "([,= \"";
    const auto begin = static_cast<uint32_t>(at_ - line.size() + line.find_last_of(stops) + 1);
    while (!out_.tokens.empty() && out_.tokens.back().begin >= begin) {
      out_.tokens.pop_back();
    }
    ++at_;
    push(TokenKind::kString, begin, static_cast<uint32_t>(out_.strings.size()));
    out_.strings.emplace_back(text_.substr(begin, at_ - 1 - begin));
    faults_.error("XG0104", span(begin, at_), "the string has no quote before it", "",
                  replacement("open it where it begins", span(begin, begin), "\""));
    return true;
  }

  // Whether a value ends directly before the cursor; a dot at the cursor then selects one of its fields.
  bool touches_value() const {
    if (out_.tokens.empty() || out_.tokens.back().end != at_) {
      return false;
    }
    const TokenKind before = out_.tokens.back().kind;
    return before == TokenKind::kName || before == TokenKind::kNumber || before == TokenKind::kString ||
           before == TokenKind::kRightParen || before == TokenKind::kRightBracket || is_reserved(before);
  }

  void leading_dot() {
    const uint32_t begin = at_;
    if (touches_value()) {  // x.5: the parser reports that a name is missing
      ++at_;
      push(TokenKind::kDot, begin);
      return;
    }
    faults_.error("XG0105", span(begin, begin + 1), "a number starts with a digit", "missing zero",
                  replacement("write the zero", span(begin, begin), "0", true));
    ++at_;
    Number number = lex_number(text_, file_, at_, at_, faults_);
    number.is_guess = true;
    push(TokenKind::kNumber, begin, static_cast<uint32_t>(out_.numbers.size()));
    out_.numbers.push_back(number);
  }

  void bad_character() {
    const uint32_t begin = at_;
    const std::string_view rest = text_.substr(at_);
    const uint32_t length = sequence_length(rest);
    if (!out_.tokens.empty() && out_.tokens.back().kind == TokenKind::kBad && out_.tokens.back().end == begin) {
      at_ += std::max(length, 1U);
      out_.tokens.back().end = at_;  // consecutive bad characters are reported once
      return;
    }
    if (foreign(begin, foreign_string(place(begin)))) {
      return;
    }
    if (length > 1 && foreign(begin, foreign_word(place(begin)))) {
      return;
    }
    at_ += std::max(length, 1U);
    push(TokenKind::kBad, begin);
    if (length == 0) {
      return;  // already reported by check_encoding
    }
    const auto code = static_cast<unsigned char>(rest[0]);
    if (code < 0x20 || code == 0x7F) {
      faults_.error("XG0102", span(begin, at_), {"control character with number {}", code}, "",
                    replacement("leave it out", span(begin, at_), ""));
      return;
    }
    Fix fix = replacement("leave it out", span(begin, at_), "");
    if (code == ';') {
      fix = statement_end(place(begin));
    } else if (rest.starts_with("\u00B0") && touches_number()) {
      const Number& number = out_.numbers.back();
      fix = replacement("angles are in radians", span(out_.tokens[out_.tokens.size() - 2].begin, at_),
                        radians(number.value), true);
    } else if (code == '@') {
      fix = {"a product with a weight is `linear`; of two tensors, `matmul(b)`"};
    } else if (length > 1) {
      fix = {"names are made of a-z, A-Z, 0-9 and `_`; other characters are allowed only in strings and comments"};
    }
    faults_.error("XG0102", span(begin, at_), {"`{}` is not a sign of the language", rest.substr(0, length)}, "",
                  std::move(fix));
  }

  bool touches_number() const {
    const size_t count = out_.tokens.size();
    return count > 1 && out_.tokens[count - 2].kind == TokenKind::kNumber &&
           out_.tokens[count - 2].end == out_.tokens[count - 1].begin;
  }

  void comment() {
    const uint32_t begin = at_;
    const size_t end = text_.find('\n', at_);
    at_ = static_cast<uint32_t>(end == std::string_view::npos ? text_.size() : end);
    std::string_view body = text_.substr(begin, at_ - begin);
    if (body.ends_with('\r')) {
      --at_;  // `next` counts this character
    }
    body = body.substr(0, body.find_last_not_of(" \t\r") + 1);
    out_.comments.push_back({begin, begin + static_cast<uint32_t>(body.size()), body.starts_with("##")});
  }

  std::string path_;
  uint32_t line_start_ = 0;
  int open_ = 0;  // round and square brackets
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
