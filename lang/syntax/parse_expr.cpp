// Expressions, from the loosest binding to the tightest: pipe, if, or, and, not, comparison, range, + -, * / // %, -,
// ^. Each level is a function that calls the next one for its operands. The last level is in parse_primary.cpp.
// Tests: tests/lang/syntax/parser_test.cpp
#include <algorithm>
#include <array>
#include <optional>

#include "lang/syntax/parser_rules.h"

namespace xrun::lang {
namespace {

constexpr size_t kTokenKinds = static_cast<size_t>(TokenKind::kGreaterEqual) + 1;

// For each kind of token, the binary operator that it stands for; kNeg for a token that is not a binary operator.
std::array<Op, kTokenKinds> list_operators() {
  std::array<Op, kTokenKinds> operators{};
  for (size_t kind = 0; kind < kTokenKinds; ++kind) {
    for (auto op = static_cast<uint8_t>(Op::kAdd); op <= static_cast<uint8_t>(Op::kOr); ++op) {
      const bool same = text_of(static_cast<Op>(op)) == text_of(static_cast<TokenKind>(kind));
      operators[kind] = same ? static_cast<Op>(op) : operators[kind];
    }
  }
  return operators;
}

// The operator of a token if it is between `first` and `last`. The operators of one precedence are consecutive in Op.
template <Op first, Op last>
std::optional<Op> operator_of(TokenKind kind) {
  static const std::array<Op, kTokenKinds> operators = list_operators();
  const Op op = operators[static_cast<size_t>(kind)];
  return op >= first && op <= last ? std::optional(op) : std::nullopt;
}

constexpr auto comparison_of = operator_of<Op::kEq, Op::kGe>;

}  // namespace

ExprId Parser::expression() {
  const Span start = here();
  const ExprId source = conditional();
  if (lost_ || !at(TokenKind::kArrow)) {
    return !lost_ && at(TokenKind::kIf) ? choice_behind(source) : source;
  }
  advance();
  const Run<Stage> run = stages();
  const ExprId pipe = add({.kind = ExprKind::kPipe, .span = from(start), .lhs = source, .stages = run});
  return !lost_ && at(TokenKind::kIf) ? choice_behind(pipe) : pipe;
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
  if (!lost_ && at_word("then")) {
    return choice_with_then(start, expr.condition);
  }
  expr.lhs = braced_expression();
  else_on_its_own_line();
  if (!lost_ && !at(TokenKind::kElse)) {
    fault("XG0110", here(), {"an `if` that gives a value needs an `else`, found {}", describe(tokens_, current())}, "",
          {"add the other value: if c { a } else { b }"});
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

// Reads operand { OP operand }, which is left-associative.
ExprId Parser::from_the_left(Rule operand, std::optional<Op> (*op_of)(TokenKind)) {
  ExprId lhs = (this->*operand)();
  for (std::optional<Op> op = op_of(kind()); !lost_ && op; op = op_of(kind())) {
    const Span sign = here();
    advance();
    lhs = binary(ExprKind::kBinary, *op, lhs, sign, (this->*operand)());
  }
  return lhs;
}

// Reads { SIGN } operand. Each sign is one level of nesting.
ExprId Parser::prefixed(TokenKind sign, Op op, Rule operand) {
  if (lost_ || !at(sign)) {
    return (this->*operand)();
  }
  const Nest nest(*this);
  if (!nest.ok) {
    return error_node(here());
  }
  const Span start = here();
  advance();
  const ExprId lhs = prefixed(sign, op, operand);
  return add({.kind = ExprKind::kUnary, .op = op, .span = from(start), .lhs = lhs, .name = {{}, start}});
}

ExprId Parser::disjunction() { return from_the_left(&Parser::conjunction, operator_of<Op::kOr, Op::kOr>); }
ExprId Parser::conjunction() { return from_the_left(&Parser::negation, operator_of<Op::kAnd, Op::kAnd>); }
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
                                 replacement("compare twice", before, {"and {} ", middle}))) {
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

ExprId Parser::sum() { return from_the_left(&Parser::product, operator_of<Op::kAdd, Op::kSub>); }
ExprId Parser::product() { return from_the_left(&Parser::unary, operator_of<Op::kMul, Op::kMod>); }
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

ExprId Parser::error_node(Span span) { return add({.span = span}); }

ExprId Parser::binary(ExprKind kind, Op op, ExprId lhs, Span op_span, ExprId rhs) {
  const Span span = join(ast_[lhs].span, ast_[rhs].span);
  return add({.kind = kind, .op = op, .span = span, .lhs = lhs, .rhs = rhs, .name = {{}, op_span}});
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
    fault("XG0106", expr.span, {"the expression is more than {} operators deep", kMaxHeight}, "one too many",
          {"give a part of it a name of its own, and use the name here"});
    return error_node(expr.span);
  }
  ast_.exprs.push_back(expr);
  heights_.push_back(height);
  return ExprId(ast_.exprs.size() - 1);
}

}  // namespace xrun::lang
