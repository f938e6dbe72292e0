// Expressions, loosest first: pipe, if, or, and, not, comparison, range, + -, * / // %, -, ^, calls and fields.
#include <algorithm>
#include <optional>

#include "lang/parser_rules.h"

namespace xrun::lang {
namespace {

std::optional<Op> comparison_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::kEqual:
      return Op::kEq;
    case TokenKind::kNotEqual:
      return Op::kNe;
    case TokenKind::kLess:
      return Op::kLt;
    case TokenKind::kLessEqual:
      return Op::kLe;
    case TokenKind::kGreater:
      return Op::kGt;
    case TokenKind::kGreaterEqual:
      return Op::kGe;
    default:
      return std::nullopt;
  }
}

std::optional<Op> product_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::kStar:
      return Op::kMul;
    case TokenKind::kSlash:
      return Op::kDiv;
    case TokenKind::kSlashSlash:
      return Op::kFloorDiv;
    case TokenKind::kPercent:
      return Op::kMod;
    default:
      return std::nullopt;
  }
}

}  // namespace

ExprId Parser::expression() {
  const Span start = here();
  const ExprId source = conditional();
  if (lost_ || !at(TokenKind::kArrow)) {
    return source;
  }
  advance();
  Expr expr;
  expr.kind = ExprKind::kPipe;
  expr.lhs = source;
  expr.stages = stages();
  expr.span = from(start);
  return add(expr);
}

ExprId Parser::conditional() {
  if (!at(TokenKind::kIf)) {
    return disjunction();
  }
  const Nest nest(*this);
  if (!nest.ok) {
    return hole(here());
  }
  const Span start = here();
  advance();
  Expr expr;
  expr.kind = ExprKind::kIf;
  expr.condition = disjunction();
  expr.lhs = braced_expression();
  else_on_its_own_line();
  if (!lost_ && !at(TokenKind::kElse)) {
    fault("XG0110", here(), "an `if` that gives a value needs an `else`, found " + describe(tokens_, current()));
  }
  take(TokenKind::kElse);
  expr.rhs = at(TokenKind::kLeftBrace) ? braced_expression() : conditional();
  expr.span = from(start);
  return add(expr);
}

ExprId Parser::braced_expression() {
  const Nest nest(*this);
  const Token open = current();
  if (!nest.ok || !expect(TokenKind::kLeftBrace)) {
    return hole(here());
  }
  skip_newlines();
  const ExprId inner = expression();
  skip_newlines();
  expect_close(open, TokenKind::kRightBrace);
  return inner;
}

ExprId Parser::disjunction() {
  ExprId lhs = conjunction();
  while (!lost_ && at(TokenKind::kOr)) {
    const Span sign = here();
    advance();
    lhs = binary(ExprKind::kBinary, Op::kOr, lhs, sign, conjunction());
  }
  return lhs;
}

ExprId Parser::conjunction() {
  ExprId lhs = negation();
  while (!lost_ && at(TokenKind::kAnd)) {
    const Span sign = here();
    advance();
    lhs = binary(ExprKind::kBinary, Op::kAnd, lhs, sign, negation());
  }
  return lhs;
}

ExprId Parser::negation() {
  if (lost_ || !at(TokenKind::kNot)) {
    return comparison();
  }
  const Nest nest(*this);
  if (!nest.ok) {
    return hole(here());
  }
  Expr expr;
  expr.kind = ExprKind::kUnary;
  expr.op = Op::kNot;
  expr.name.span = here();
  advance();
  expr.lhs = negation();
  expr.span = from(expr.name.span);
  return add(expr);
}

ExprId Parser::comparison() {
  const ExprId lhs = range();
  const std::optional<Op> op = comparison_of(kind());
  if (lost_ || !op) {
    return lhs;
  }
  const Span sign = here();
  advance();
  const ExprId rhs = range();
  if (!lost_ && comparison_of(kind())) {
    if (Diagnostic* made = fault("XG0115", here(), "comparisons do not chain", "a second comparison")) {
      made->secondary.push_back({sign, "the first"});
      made->notes.push_back("write `a < b and b < c`");
    }
  }
  return binary(ExprKind::kBinary, *op, lhs, sign, rhs);
}

ExprId Parser::range() {
  const ExprId lhs = sum();
  if (lost_ || !at(TokenKind::kRange)) {
    return lhs;
  }
  const Span sign = here();
  advance();
  const ExprId rhs = sum();
  if (!lost_ && at(TokenKind::kRange)) {
    fault("XG0115", here(), "ranges do not chain", "a range has two ends");
  }
  return binary(ExprKind::kRange, Op::kAdd, lhs, sign, rhs);
}

ExprId Parser::sum() {
  ExprId lhs = product();
  while (!lost_ && (at(TokenKind::kPlus) || at(TokenKind::kMinus))) {
    const Op op = at(TokenKind::kPlus) ? Op::kAdd : Op::kSub;
    const Span sign = here();
    advance();
    lhs = binary(ExprKind::kBinary, op, lhs, sign, product());
  }
  return lhs;
}

ExprId Parser::product() {
  ExprId lhs = unary();
  for (std::optional<Op> op = product_of(kind()); !lost_ && op; op = product_of(kind())) {
    const Span sign = here();
    advance();
    lhs = binary(ExprKind::kBinary, *op, lhs, sign, unary());
  }
  return lhs;
}

ExprId Parser::unary() {
  if (lost_ || !at(TokenKind::kMinus)) {
    return power();
  }
  const Nest nest(*this);
  if (!nest.ok) {
    return hole(here());
  }
  Expr expr;
  expr.kind = ExprKind::kUnary;
  expr.op = Op::kNeg;
  expr.name.span = here();
  advance();
  expr.lhs = unary();
  expr.span = from(expr.name.span);
  return add(expr);
}

ExprId Parser::power() {
  const ExprId lhs = postfix();
  if (lost_ || !at(TokenKind::kCaret)) {
    return lhs;
  }
  const Nest nest(*this);
  if (!nest.ok) {
    return hole(here());
  }
  const Span sign = here();
  advance();
  return binary(ExprKind::kBinary, Op::kPow, lhs, sign, unary());
}

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
        return hole(here());
      }
      const Token open = current();
      advance();
      bool trailing_comma = false;
      expr.kind = ExprKind::kIndex;
      expr.items = expressions(open, TokenKind::kRightBracket, false, trailing_comma);
    } else if (at(TokenKind::kDot)) {
      advance();
      expr.kind = ExprKind::kField;
      expr.name = expect_name("a name behind the dot");
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
    return hole(here());
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
      // A condition inside an operator's operand; it would swallow the rest of the line without parentheses.
      fault("XG0110", here(), "an `if` inside an expression stands in parentheses", "needs `(` before it");
      return hole(here());
    case TokenKind::kRepeat:
    case TokenKind::kResidual:
    case TokenKind::kFork:
      fault("XG0110", here(),
            "`" + std::string(text_of(kind())) + "` is a stage; a value comes before it: `x -> " +
                std::string(text_of(kind())) + " ...`");
      return hole(here());
    default:
      expected("a value");
      return hole(here());
  }
}

ExprId Parser::parenthesized() {
  const Nest nest(*this);
  if (!nest.ok) {
    return hole(here());
  }
  const Token open = current();
  const Span start = here();
  advance();
  bool trailing_comma = false;
  const Run<ExprId> items = expressions(open, TokenKind::kRightParen, false, trailing_comma);
  if (items.count == 1 && !trailing_comma) {
    const ExprId inner = ast_.items[items.first];
    ast_.exprs[inner.index].span = from(start);
    return inner;
  }
  Expr expr;
  expr.kind = ExprKind::kTuple;
  expr.items = items;
  expr.span = from(start);
  return add(expr);
}

ExprId Parser::list() {
  const Nest nest(*this);
  if (!nest.ok) {
    return hole(here());
  }
  const Token open = current();
  advance();
  bool trailing_comma = false;
  Expr expr;
  expr.kind = ExprKind::kList;
  expr.items = expressions(open, TokenKind::kRightBracket, true, trailing_comma);
  expr.span = from(tokens_.span(open));
  return add(expr);
}

Run<ExprId> Parser::expressions(const Token& open, TokenKind closing, bool may_be_empty, bool& trailing_comma) {
  Gather<ExprId> items(item_stack_);
  if (!(may_be_empty && at(closing))) {
    items.push(expression());
  }
  while (take(TokenKind::kComma)) {
    if (at(closing)) {
      trailing_comma = true;
      break;
    }
    items.push(expression());
  }
  expect_close(open, closing, "`,`");
  return items.into(ast_.items);
}

Run<Arg> Parser::args() {
  const Nest nest(*this);
  if (!nest.ok) {
    return {};
  }
  const Token open = current();
  advance();
  Gather<Arg> list(arg_stack_);
  while (!lost_ && !at(TokenKind::kRightParen)) {
    Arg arg;
    const Span start = here();
    const bool named = (at(TokenKind::kName) || is_reserved(kind())) && ahead().kind == TokenKind::kAssign;
    if (named) {
      arg.name = expect_name("a name of an argument");
      take(TokenKind::kAssign);
    }
    arg.value = expression();
    arg.span = from(start);
    list.push(arg);
    if (!take(TokenKind::kComma)) {
      break;
    }
  }
  expect_close(open, TokenKind::kRightParen, "`,`");
  return list.into(ast_.args);
}

ExprId Parser::leaf(ExprKind kind) {
  Expr expr;
  expr.kind = kind;
  expr.span = here();
  expr.literal = current().literal;
  expr.flag = at(TokenKind::kTrue);
  if (kind == ExprKind::kName) {
    expr.name = {tokens_.spelling(current()), expr.span};
  }
  advance();
  return add(expr);
}

ExprId Parser::hole(Span span) {
  Expr expr;
  expr.span = span;
  return add(expr);
}

ExprId Parser::binary(ExprKind kind, Op op, ExprId lhs, Span op_span, ExprId rhs) {
  Expr expr;
  expr.kind = kind;
  expr.op = op;
  expr.lhs = lhs;
  expr.rhs = rhs;
  expr.name.span = op_span;
  expr.span = join(ast_[lhs].span, ast_[rhs].span);
  return add(expr);
}

ExprId Parser::add(const Expr& expr) {
  int height = std::max({height_of(expr.lhs), height_of(expr.rhs), height_of(expr.condition)});
  for (const ExprId item : ast_[expr.items]) {
    height = std::max(height, height_of(item));
  }
  for (const Arg& arg : ast_[expr.args]) {
    height = std::max(height, height_of(arg.value));
  }
  if (!expr.stages.empty()) {
    height = std::max(height, stage_height_);
  }
  if (++height > kMaxHeight) {
    fault("XG0106", expr.span, "the expression is more than " + std::to_string(kMaxHeight) + " operators deep",
          "give a part of it a name");
    return hole(expr.span);
  }
  ast_.exprs.push_back(expr);
  heights_.push_back(height);
  return ExprId(ast_.exprs.size() - 1);
}

}  // namespace xrun::lang
