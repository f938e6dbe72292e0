// Parameters and types.
#include "lang/syntax/parser_rules.h"
#include "lang/text/foreign_names.h"

namespace xrun::lang {

// Reads "(" [ param { "," param } [ "," ] ] ")".
Run<Param> Parser::params() {
  const Nest nest(*this);
  const Token open = current();
  if (!nest.ok || !expect(TokenKind::kLeftParen, "`(` and parameters")) {
    return {};
  }
  Gather<Param> list(stacks_);
  while (!lost_ && !at(TokenKind::kRightParen)) {
    const Param next = param();
    if (next.name) {
      list.push(next);
    }
    if (!take(TokenKind::kComma)) {
      break;
    }
  }
  expect_close(open, TokenKind::kRightParen, "`,`");
  return list.into(ast_);
}

Param Parser::param() {
  Param param;
  const Span start = here();
  param.name = expect_new_name("a name of a parameter");
  if (take(TokenKind::kColon)) {
    param.type = type();
  } else if (at(TokenKind::kLeftBracket) || at(TokenKind::kName)) {
    expected("`:` before the type", insertion(":"));
  }
  if (take(TokenKind::kAssign)) {
    param.value = value_or_error();
  }
  param.span = from(start);
  return param;
}

// Reads [ NAME [ "(" expr ")" ] ] dims | NAME [ "(" expr ")" ].
Type Parser::type() {
  Type type;
  if (lost_) {
    return type;
  }
  const Nest nest(*this);
  const Span start = here();
  if (!at(TokenKind::kLeftBracket)) {
    type.name = expect_name("a type");
    if (!lost_ && at(TokenKind::kDot) && ahead().kind == TokenKind::kName) {  // torch.float32
      advance();
      type.name = take_name();
      const std::string_view ours = foreign_name(NameKind::kElement, type.name.text);
      type.name.text = ours.empty() ? type.name.text : ours;
      fault("XG0303", from(start), "element types have no module", "",
            replacement({"write `{}`", type.name.text}, from(start), std::string(type.name.text), true));
      lost_ = false;  // the meaning is clear
    }
    if (has_round_dims(type.name)) {
      fault("XG0303", here(), "dimensions are written in square brackets", "", round_dims());
      return type;
    }
    const Token open = current();
    if (take(TokenKind::kLeftParen)) {
      type.argument = value_or_error();
      expect_close(open, TokenKind::kRightParen);
    }
  }
  const Token open = current();
  if (take(TokenKind::kLeftBracket)) {
    type.has_dims = true;
    Gather<ExprId> dims(stacks_);
    if (!at(TokenKind::kRightBracket)) {
      do {
        dims.push(at(TokenKind::kEllipsis) ? leaf(ExprKind::kEllipsis) : sum());
      } while (take(TokenKind::kComma));
    }
    expect_close(open, TokenKind::kRightBracket, "`,`");
    if (lost_) {
      dims.push(error_node(from(start)));
    }
    type.dims = dims.into(ast_);
  }
  type.span = from(start);
  return type;
}

}  // namespace xrun::lang
