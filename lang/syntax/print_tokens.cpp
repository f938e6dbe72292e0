#include "graph/base/utf8.h"
#include "lang/syntax/lexer.h"
#include "lang/syntax/print_syntax.h"

namespace xrun::lang {
namespace {

std::string_view class_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::kEnd:
      return "end";
    case TokenKind::kNewline:
      return "newline";
    case TokenKind::kBad:
      return "bad";
    case TokenKind::kName:
      return "name";
    case TokenKind::kNumber:
      return "number";
    case TokenKind::kString:
      return "string";
    default:
      return is_reserved(kind) ? "word" : "sign";
  }
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
