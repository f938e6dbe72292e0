#include "lang/syntax/token.h"

#include <iterator>

namespace xrun::lang {

std::string_view text_of(TokenKind kind) {
  // Both in the order of TokenKind.
  constexpr std::string_view kNames[] = {"the end of the file",
                                         "the end of the line",
                                         "characters that the language does not have",
                                         "a name",
                                         "a number",
                                         "a string"};
  constexpr std::string_view kSpellings[] = {
      "true", "false", "auto", "none", "and", "or", "not", "if", "else", "repeat", "residual", "fork", "as",
      "(",    ")",     "[",    "]",    "{",   "}",  ",",   ":",  "->",   "=",      ".",        "..",   "...",
      "+",    "-",     "*",    "/",    "//",  "%",  "^",   "==", "!=",   "<",      "<=",       ">",    ">="};
  static_assert(std::size(kNames) + std::size(kSpellings) == static_cast<size_t>(TokenKind::kGreaterEqual) + 1);
  const auto place = static_cast<size_t>(kind);
  return place < std::size(kNames) ? kNames[place] : kSpellings[place - std::size(kNames)];
}

}  // namespace xrun::lang
