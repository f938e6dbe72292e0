// Expressions, loosest first: pipe, if, or, and, not, comparison, range, + -, * / // %, -, ^; what binds tighter is in
// parse_primary.cpp.
#include <algorithm>
#include <optional>

#include "lang/syntax/parser_rules.h"

namespace xrun::lang {
namespace {

// The operator of each level of binding that a token stands for.
std::optional<Op> disjunction_of(TokenKind kind) {
  return kind == TokenKind::kOr ? std::optional(Op::kOr) : std::nullopt;
}

std::optional<Op> conjunction_of(TokenKind kind) {
  return kind == TokenKind::kAnd ? std::optional(Op::kAnd) : std::nullopt;
}

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

std::optional<Op> sum_of(TokenKind kind) {
  return kind == TokenKind::kPlus    ? std::optional(Op::kAdd)
         : kind == TokenKind::kMinus ? std::optional(Op::kSub)
                                     : std::nullopt;
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
    return error_node(here());
  }
  const Span start = here();
  advance();
  Expr expr;
  expr.kind = ExprKind::kIf;
  expr.condition = disjunction();
  expr.lhs = braced_expression();
  else_on_its_own_line();
  if (!lost_ && !at(TokenKind::kElse)) {
    fault("XG0110", here(), "an `if` that gives a value needs an `else`, found " + describe(tokens_, current()), "",
          {"say what it gives otherwise: if c { a } else { b }"});
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
    return error_node(here());
  }
  skip_newlines();
  const ExprId inner = expression();
  skip_newlines();
  expect_close(open, TokenKind::kRightBrace);
  return inner;
}

// operand { OP operand }, taken together from the left.
ExprId Parser::from_the_left(Rule operand, std::optional<Op> (*op_of)(TokenKind)) {
  ExprId lhs = (this->*operand)();
  for (std::optional<Op> op = op_of(kind()); !lost_ && op; op = op_of(kind())) {
    const Span sign = here();
    advance();
    lhs = binary(ExprKind::kBinary, *op, lhs, sign, (this->*operand)());
  }
  return lhs;
}

// { SIGN } operand: a level of nesting for every sign.
ExprId Parser::prefixed(TokenKind sign, Op op, Rule operand) {
  if (lost_ || !at(sign)) {
    return (this->*operand)();
  }
  const Nest nest(*this);
  if (!nest.ok) {
    return error_node(here());
  }
  Expr expr;
  expr.kind = ExprKind::kUnary;
  expr.op = op;
  expr.name.span = here();
  advance();
  expr.lhs = prefixed(sign, op, operand);
  expr.span = from(expr.name.span);
  return add(expr);
}

ExprId Parser::disjunction() { return from_the_left(&Parser::conjunction, disjunction_of); }
ExprId Parser::conjunction() { return from_the_left(&Parser::negation, conjunction_of); }
ExprId Parser::negation() { return prefixed(TokenKind::kNot, Op::kNot, &Parser::comparison); }

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
    const std::string middle(tokens_.text.substr(ast_[rhs].span.begin, ast_[rhs].span.end - ast_[rhs].span.begin));
    const Span before{tokens_.file, here().begin, here().begin};
    if (Diagnostic* made = fault("XG0115", here(), "comparisons do not chain", "a second comparison",
                                 replacement("compare twice", before, "and " + middle + " "))) {
      made->secondary.push_back({sign, "the first"});
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
    fault("XG0115", here(), "ranges do not chain", "a range has two ends", {"leave one out: a .. b"});
  }
  return binary(ExprKind::kRange, Op::kAdd, lhs, sign, rhs);
}

ExprId Parser::sum() { return from_the_left(&Parser::product, sum_of); }
ExprId Parser::product() { return from_the_left(&Parser::unary, product_of); }
ExprId Parser::unary() { return prefixed(TokenKind::kMinus, Op::kNeg, &Parser::power); }

ExprId Parser::power() {
  const ExprId lhs = postfix();
  if (lost_ || !at(TokenKind::kCaret)) {
    return lhs;
  }
  const Nest nest(*this);
  if (!nest.ok) {
    return error_node(here());
  }
  const Span sign = here();
  advance();
  return binary(ExprKind::kBinary, Op::kPow, lhs, sign, unary());
}

ExprId Parser::error_node(Span span) {
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
          "one too many", {"give a part of it a name of its own, and use the name here"});
    return error_node(expr.span);
  }
  ast_.exprs.push_back(expr);
  heights_.push_back(height);
  return ExprId(ast_.exprs.size() - 1);
}

}  // namespace xrun::lang
