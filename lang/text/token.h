// Tokens of one file: the output of the lexer, which the parser reads and `--emit tokens` prints.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/source.h"
#include "lang/text/number.h"

namespace xrun::lang {

enum class TokenKind : uint8_t {
  kEnd,
  kNewline,  // ends a statement; lay_out drops all other newlines
  kBad,      // characters that were already reported
  kName,
  kNumber,  // with its unit
  kString,
  // Reserved words; every other word is a kName.
  kTrue,
  kFalse,
  kAuto,
  kNone,
  kAnd,
  kOr,
  kNot,
  kIf,
  kElse,
  kRepeat,
  kResidual,
  kFork,
  kAs,
  // Signs.
  kLeftParen,
  kRightParen,
  kLeftBracket,
  kRightBracket,
  kLeftBrace,
  kRightBrace,
  kComma,
  kColon,
  kArrow,
  kAssign,
  kDot,
  kRange,
  kEllipsis,
  kPlus,
  kMinus,
  kStar,
  kSlash,
  kSlashSlash,
  kPercent,
  kCaret,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
};

// The names of token kinds in messages, for kinds without a fixed spelling; and the spellings of all other kinds. Both
// lists are in the order of TokenKind.
inline constexpr std::string_view kTokenNames[] = {"the end of the file",
                                                   "the end of the line",
                                                   "characters that the language does not have",
                                                   "a name",
                                                   "a number",
                                                   "a string"};
inline constexpr std::string_view kTokenSpellings[] = {
    "true", "false", "auto", "none", "and", "or", "not", "if", "else", "repeat", "residual", "fork", "as",
    "(",    ")",     "[",    "]",    "{",   "}",  ",",   ":",  "->",   "=",      ".",        "..",   "...",
    "+",    "-",     "*",    "/",    "//",  "%",  "^",   "==", "!=",   "<",      "<=",       ">",    ">="};
static_assert(std::size(kTokenNames) + std::size(kTokenSpellings) == static_cast<size_t>(TokenKind::kGreaterEqual) + 1);

// The spelling of a sign or a reserved word, "->"; for any other token its name in messages, "a name".
constexpr std::string_view text_of(TokenKind kind) {
  const auto place = static_cast<size_t>(kind);
  return place < std::size(kTokenNames) ? kTokenNames[place] : kTokenSpellings[place - std::size(kTokenNames)];
}
constexpr TokenKind next(TokenKind kind) { return static_cast<TokenKind>(static_cast<uint8_t>(kind) + 1); }
constexpr bool is_reserved(TokenKind kind) { return kind >= TokenKind::kTrue && kind <= TokenKind::kAs; }

struct Token {
  TokenKind kind = TokenKind::kEnd;
  bool starts_line = false;  // in column 1: a declaration there ends everything left open before it
  bool unpaired = false;     // a bracket without a partner, or a sign of another language; already reported
  uint32_t begin = 0;        // byte offsets in the file
  uint32_t end = 0;
  uint32_t literal = 0;  // kNumber: index into numbers; kString: index into strings
};

// A comment up to the end of its line, without trailing spaces.
struct Comment {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool is_doc = false;  // "##"
};

// The last token is kEnd. Views point into the text of the SourceMap.
struct Tokens {
  int32_t file = -1;
  std::string_view text;
  std::vector<Token> tokens;
  std::vector<Number> numbers;
  std::vector<std::string> strings;  // decoded
  std::vector<Comment> comments;     // in order

  Span span(const Token& token) const { return {file, token.begin, token.end}; }
  std::string_view spelling(const Token& token) const { return text.substr(token.begin, token.end - token.begin); }
};

}  // namespace xrun::lang
