// Scans the raw tokens of a file twice:
//   1. Pairing finds the partner of each bracket and reports brackets without a partner.
//   2. drop_newlines drops the newlines that do not end a statement. It needs the result of step 1: inside a
//      parenthesis that is never closed, newlines would otherwise have no meaning up to the end of the file.
// Tests: tests/lang/text/lexer_test.cpp, tests/lang/syntax/parser_test.cpp
#include <algorithm>

#include "lang/syntax/parser.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

// Whether the statement continues after a token of this kind: a binary operator, `->`, `=` or `,`.
bool continues_behind(TokenKind kind) {
  switch (kind) {
    case TokenKind::kArrow:
    case TokenKind::kAssign:
    case TokenKind::kComma:
    case TokenKind::kAnd:
    case TokenKind::kOr:
    case TokenKind::kRange:
      return true;
    default:
      return kind >= TokenKind::kPlus;
  }
}

bool opens(TokenKind kind) {
  return kind == TokenKind::kLeftParen || kind == TokenKind::kLeftBracket || kind == TokenKind::kLeftBrace;
}

TokenKind partner_of(TokenKind closing) {
  return closing == TokenKind::kRightParen     ? TokenKind::kLeftParen
         : closing == TokenKind::kRightBracket ? TokenKind::kLeftBracket
                                               : TokenKind::kLeftBrace;
}

std::string closing_of(TokenKind opening) {
  return opening == TokenKind::kLeftParen ? ")" : opening == TokenKind::kLeftBracket ? "]" : "}";
}

class Pairing {
 public:
  Pairing(Tokens& tokens, Faults& faults) : tokens_(tokens), faults_(faults) {}

  void run() {
    std::vector<Token>& all = tokens_.tokens;
    for (size_t i = 0; i < all.size(); ++i) {
      Token& token = all[i];
      if (token.kind == TokenKind::kNewline) {
        ++line_;
      } else if (opens(token.kind)) {
        open_.push_back({i, line_});
      } else if (token.kind == TokenKind::kRightParen || token.kind == TokenKind::kRightBracket) {
        close(token);
      } else if (token.kind == TokenKind::kRightBrace) {
        close_brace(token);
      } else if (token.kind == TokenKind::kEnd || starts_declaration(tokens_, i)) {
        drop_until_brace(token);
      }
    }
  }

 private:
  struct Open {
    size_t token;
    int line;
  };

  bool is_brace(const Open& open) const { return tokens_.tokens[open.token].kind == TokenKind::kLeftBrace; }

  void close_brace(Token& token) {
    const bool was_open = !open_.empty();
    drop_until_brace(token);
    if (!open_.empty()) {
      open_.pop_back();
      return;
    }
    token.unpaired = true;
    if (!was_open) {
      closes_nothing(token);
    }
  }

  void closes_nothing(const Token& token) {
    if (!faults_.full()) {
      faults_.error("XG0111", tokens_.span(token), {"`{}` closes nothing", text_of(token.kind)},
                    {"no `{}` is open here", text_of(partner_of(token.kind))},
                    replacement("leave it out, or open it before", tokens_.span(token), ""));
    }
  }

  void close(Token& token) {
    const TokenKind partner = partner_of(token.kind);
    // A brace that this line has left open is a likelier mistake than an additional closing bracket.
    size_t at = open_.size();
    while (at > 0 && tokens_.tokens[open_[at - 1].token].kind != partner) {
      const Open& open = open_[at - 1];
      // The bound keeps the scan linear. Brackets that nest deeper are a fault in any case.
      if ((is_brace(open) && open.line != line_) || open_.size() - at > kMaxNesting) {
        break;
      }
      --at;
    }
    if (at == 0 || tokens_.tokens[open_[at - 1].token].kind != partner) {
      token.unpaired = true;
      closes_nothing(token);
      return;
    }
    drop_from(at, token);
    open_.pop_back();
  }

  // Reports the outermost of the brackets that are still open inside the innermost open brace, and closes all of them:
  // their partners are missing.
  void drop_until_brace(const Token& seen) {
    size_t from = open_.size();
    while (from > 0 && !is_brace(open_[from - 1])) {
      --from;
    }
    drop_from(from, seen);
  }

  void drop_from(size_t from, const Token& seen) {
    if (from == open_.size()) {
      return;
    }
    for (size_t i = from; i < open_.size(); ++i) {
      tokens_.tokens[open_[i].token].unpaired = true;
    }
    const size_t more = open_.size() - from - 1;
    const Token& outermost = tokens_.tokens[open_[from].token];
    open_.resize(from);
    if (faults_.full()) {
      return;
    }
    Diagnostic& fault =
        faults_.error("XG0111", tokens_.span(outermost), {"`{}` is never closed", text_of(outermost.kind)}, "",
                      {"write `{}` where it ends", closing_of(outermost.kind)});
    if (seen.kind != TokenKind::kEnd) {
      fault.secondary.push_back({tokens_.span(seen), "it should have been closed before this"});
    }
    if (more > 0) {
      fault.notes.push_back("the same holds for " + std::to_string(more) + " more inside it");
    }
  }

  Tokens& tokens_;
  Faults& faults_;
  std::vector<Open> open_;
  int line_ = 1;
};

void drop_newlines(Tokens& list) {
  std::vector<Token>& tokens = list.tokens;
  std::vector<bool> mute;  // for each open bracket, whether newlines are dropped
  size_t kept = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token token = tokens[i];
    if (token.kind == TokenKind::kNewline) {
      const TokenKind before = kept == 0 ? TokenKind::kNewline : tokens[kept - 1].kind;
      size_t next = i;
      while (tokens[next].kind == TokenKind::kNewline) {
        ++next;  // the loop ends at kEnd at the latest
      }
      i = next - 1;
      const bool inside = !mute.empty() && mute.back();
      const bool continues = continues_behind(before) && !starts_declaration(list, next);
      if (inside || before == TokenKind::kNewline || continues || tokens[next].kind == TokenKind::kArrow) {
        continue;
      }
    } else if (opens(token.kind) && !token.unpaired) {
      mute.push_back(token.kind != TokenKind::kLeftBrace);
    } else if (!token.unpaired && !mute.empty() &&
               (token.kind == TokenKind::kRightParen || token.kind == TokenKind::kRightBracket ||
                token.kind == TokenKind::kRightBrace)) {
      mute.pop_back();
    }
    tokens[kept++] = token;
  }
  tokens.resize(kept);
}

// Replaces the colon of `model m:`, as Python writes it, by `{` if a `}` closes the body.
void colons_for_braces(Tokens& list, Faults& faults) {
  std::vector<Token>& tokens = list.tokens;
  size_t colon = 0;  // index of the last such colon; 0: no colon
  bool in_header = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    Token& token = tokens[i];
    if (starts_declaration(list, i)) {
      colon = 0;
      in_header = has_body(kind_of(list.spelling(token))) || has_settings(kind_of(list.spelling(token)));
    } else if (in_header && token.kind == TokenKind::kColon && tokens[i + 1].kind == TokenKind::kNewline) {
      colon = i;
    } else if (token.kind == TokenKind::kRightBrace && token.starts_line && colon > 0 && !faults.full()) {
      const Span at = list.span(tokens[colon]);
      const bool touches = tokens[colon - 1].end == at.begin;
      faults.error("XG0110", at, "expected `{`, found `:`", "",
                   replacement("a body is written in braces", at, touches ? " {" : "{", true));
      tokens[colon].kind = TokenKind::kLeftBrace;
      colon = 0;
    } else if (token.kind == TokenKind::kLeftBrace || (token.kind == TokenKind::kNewline && colon == 0)) {
      in_header = false;
    }
  }
}

}  // namespace

bool starts_declaration(const Tokens& tokens, size_t at) {
  const Token& token = tokens.tokens[at];
  if (!token.starts_line || token.kind != TokenKind::kName || kind_of(tokens.spelling(token)) == DeclKind::kError) {
    return false;
  }
  const TokenKind next = tokens.tokens[at + 1].kind;  // exists: the last token is kEnd
  return next == TokenKind::kName || next == TokenKind::kString || next == TokenKind::kLeftBrace;
}

void lay_out(Tokens& tokens, Faults& faults) {
  colons_for_braces(tokens, faults);
  Pairing(tokens, faults).run();
  drop_newlines(tokens);
}

}  // namespace xrun::lang
