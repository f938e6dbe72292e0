#include "graph/base/utf8.h"
#include "lang/syntax/print_syntax.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

std::string_view class_of(TokenKind kind) {
  constexpr std::string_view kClasses[] = {"end", "newline", "bad", "name", "number", "string"};
  return kind < TokenKind::kTrue ? kClasses[static_cast<size_t>(kind)] : is_reserved(kind) ? "word" : "sign";
}

}  // namespace

std::string print_tokens(const SourceMap& sources, int32_t file, Diagnostics& diagnostics) {
  Faults faults(diagnostics);
  const Tokens tokens = lex(sources, file, faults);
  faults.flush();
  std::string out;
  for (const Token& token : tokens.tokens) {
    const Position at = sources.position(file, token.begin);
    out += std::to_string(at.line) + ":" + std::to_string(at.column) + " ";
    out += class_of(token.kind);
    if (token.kind != TokenKind::kEnd && token.kind != TokenKind::kNewline) {
      out += " ";
      out += printable(tokens.spelling(token));
    }
    out += "\n";
  }
  return out;
}

}  // namespace xrun::lang
