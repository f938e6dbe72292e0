// Operands: calls, indices and fields; literals, names, tuples and lists.
// Tests: tests/lang/syntax/parser_test.cpp
#include "lang/syntax/parser_rules.h"

namespace xrun::lang {

ExprId Parser::postfix() {
  const Span start = here();
  ExprId lhs = primary();
  while (!lost_) {
    Expr expr;
    expr.lhs = lhs;
    if (at(TokenKind::kLeftParen)) {
      expr.kind = ExprKind::kCall;
      expr.args = args();
    } else if (at(TokenKind::kLeftBracket)) {
      const Nest nest(*this);
      if (!nest.ok) {
        return error_node(here());
      }
      const Token open = current();
      advance();
      bool trailing_comma = false;
      expr.kind = ExprKind::kIndex;
      expr.items = expressions(open, TokenKind::kRightBracket, false, trailing_comma);
    } else if (at(TokenKind::kDot)) {
      advance();
      expr.kind = ExprKind::kField;
      expr.name = expect_name("a name after the dot");
    } else {
      return lhs;
    }
    expr.span = from(start);
    lhs = add(expr);
  }
  return lhs;
}

ExprId Parser::primary() {
  if (lost_) {
    return error_node(here());
  }
  switch (kind()) {
    case TokenKind::kNumber:
      return leaf(ExprKind::kNumber);
    case TokenKind::kString:
      return leaf(ExprKind::kString);
    case TokenKind::kTrue:
    case TokenKind::kFalse:
      return leaf(ExprKind::kBool);
    case TokenKind::kAuto:
      return leaf(ExprKind::kAuto);
    case TokenKind::kNone:
      return leaf(ExprKind::kNone);
    case TokenKind::kName:
      return leaf(ExprKind::kName);
    case TokenKind::kLeftParen:
      return parenthesized();
    case TokenKind::kLeftBracket:
      return list();
    case TokenKind::kIf:
      // In the grammar, `if` may only start an expression. As an operand it needs parentheses.
      fault("XG0110", here(), "an `if` inside an expression is written in parentheses", "needs `(` before it",
            {"write (if c { a } else { b })"});
      return error_node(here());
    case TokenKind::kRepeat:
    case TokenKind::kResidual:
    case TokenKind::kFork:
      fault("XG0110", here(), {"`{}` is a stage and needs a value before it", text_of(kind())}, "not a value",
            {"write what flows in: x -> {} ...", text_of(kind())});
      return error_node(here());
    default: {
      Fix fix{"write one: a number, a string, a name, a call, a list"};
      if (const Span path = unquoted_path(); path.begin < path.end) {
        fix = replacement("a path is written in double quotes", path,
                          {"\"{}\"", tokens_.text.substr(path.begin, path.end - path.begin)}, true);
      }
      expected("a value", std::move(fix));
      return error_node(here());
    }
  }
}

ExprId Parser::parenthesized() {
  const Nest nest(*this);
  if (!nest.ok) {
    return error_node(here());
  }
  const Token open = current();
  const Span start = here();
  advance();
  bool trailing_comma = false;
  const Run<ExprId> items = expressions(open, TokenKind::kRightParen, false, trailing_comma);
  if (items.count == 1 && !trailing_comma) {
    const ExprId inner = ast_[items].front();
    ast_.exprs[inner.index].span = from(start);
    return inner;
  }
  return add({.kind = ExprKind::kTuple, .span = from(start), .items = items});
}

ExprId Parser::list() {
  const Nest nest(*this);
  if (!nest.ok) {
    return error_node(here());
  }
  const Token open = current();
  advance();
  bool trailing_comma = false;
  const Run<ExprId> items = expressions(open, TokenKind::kRightBracket, true, trailing_comma);
  return add({.kind = ExprKind::kList, .span = from(tokens_.span(open)), .items = items});
}

// Continues after `x = f(` at the end of a line. The open bracket was reported, and is also the cause of the missing
// argument.
void Parser::leave_open(const Token& open) {
  lost_ = lost_ || (open.unpaired && (at(TokenKind::kNewline) || at(TokenKind::kEnd)));
}

Run<ExprId> Parser::expressions(const Token& open, TokenKind closing, bool may_be_empty, bool& trailing_comma) {
  Gather<ExprId> items(stacks_);
  leave_open(open);
  if (!(may_be_empty && at(closing))) {
    items.push(expression());
  }
  while (take(TokenKind::kComma)) {
    leave_open(open);
    if (at(closing)) {
      trailing_comma = true;
      break;
    }
    items.push(expression());
  }
  expect_close(open, closing, "`,`");
  return items.into(ast_);
}

Run<Arg> Parser::args() {
  const Nest nest(*this);
  if (!nest.ok) {
    return {};
  }
  const Token open = current();
  advance();
  leave_open(open);
  Gather<Arg> list(stacks_);
  while (!lost_ && !at(TokenKind::kRightParen)) {
    Arg arg;
    const Span start = here();
    const bool is_word = at(TokenKind::kName) || is_reserved(kind());
    const bool named = is_word && ahead().kind == TokenKind::kAssign;
    if (is_word && ahead().kind == TokenKind::kColon) {  // f(x, scale: 16)
      arg.name = expect_name("a name of an argument");
      const Token& value = ahead();
      fault("XG0110", here(), "`=` follows the name of an argument", "a colon",
            replacement("write `=`", {tokens_.file, last_end_, value.begin}, "=", true));
      lost_ = false;  // the meaning is clear
      advance();
    } else if (named) {
      arg.name = expect_name("a name of an argument");
      take(TokenKind::kAssign);
    }
    arg.value = expression();
    arg.span = from(start);
    list.push(arg);
    if (!take(TokenKind::kComma)) {
      break;
    }
    leave_open(open);
  }
  expect_close(open, TokenKind::kRightParen, "`,`");
  return list.into(ast_);
}

ExprId Parser::leaf(ExprKind kind) {
  Expr expr{.kind = kind, .flag = at(TokenKind::kTrue), .span = here(), .literal = current().literal};
  if (kind == ExprKind::kName) {
    expr.name = {tokens_.spelling(current()), expr.span};
  }
  advance();
  ast_.exprs.push_back(expr);
  heights_.push_back(1);
  return ExprId(ast_.exprs.size() - 1);
}

}  // namespace xrun::lang
