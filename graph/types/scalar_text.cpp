// The text of scalar expressions. Printer goes through the operations in topological order. It puts a part in brackets
// if it binds less tightly than its place requires, and names a part t0, t1, ... if it is used twice or nested too
// deeply for the parser. Parser is a recursive descent over the levels of Binding.
// Tests: tests/graph/types/scalar_expr_test.cpp
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "graph/types/scalar_expr.h"

namespace xrun {
namespace {

// How tightly an operator binds its operands, from loosest to tightest.
enum Binding : int { kLoose, kComparison, kSum, kProduct, kSign, kPower, kTight };

Binding binding_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::kLess:
    case ScalarOp::kLessEqual:
    case ScalarOp::kEqual:
      return kComparison;
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
      return kSum;
    case ScalarOp::kMul:
    case ScalarOp::kDiv:
      return kProduct;
    case ScalarOp::kNeg:
      return kSign;
    case ScalarOp::kPow:
      return kPower;
    default:
      return kTight;
  }
}

// The deepest nesting of brackets and signs that the parser accepts. The printer gives deeper parts a name.
constexpr int kDeepest = 64;

class Printer {
 public:
  explicit Printer(const ScalarExpr& expr)
      : expr_(expr), reached_(expr.reached()), texts_(expr.nodes().size()), uses_(expr.nodes().size(), 0) {}

  std::string run() {
    for (size_t i = 0; i < expr_.nodes().size(); ++i) {
      for (const ScalarId arg : expr_.nodes()[i].args) {
        if (reached_[i] && arg.valid()) {
          ++uses_[static_cast<size_t>(arg.index)];
        }
      }
    }
    for (const ScalarId id : expr_.results()) {
      ++uses_[static_cast<size_t>(id.index)];
    }
    for (size_t i = 0; i < expr_.nodes().size(); ++i) {
      if (reached_[i]) {
        print(i);
      }
    }
    std::string results;
    for (const ScalarId id : expr_.results()) {
      results += (results.empty() ? "" : ", ") + texts_[static_cast<size_t>(id.index)].text;
    }
    return named_ + results;
  }

 private:
  struct Text {
    std::string text;
    Binding binding = kTight;
    int depth = 0;
  };

  std::string operand(ScalarId id, Binding at_least) const {
    const Text& text = texts_[static_cast<size_t>(id.index)];
    return text.binding >= at_least ? text.text : "(" + text.text + ")";
  }

  void print(size_t i) {
    const ScalarNode& node = expr_.nodes()[i];
    Text made{.text = {}, .binding = binding_of(node.op)};
    if (node.op == ScalarOp::kInput) {
      made.text = "x" + std::to_string(node.input);
    } else if (node.op == ScalarOp::kConstant) {
      char digits[32];
      made.text.assign(digits, std::to_chars(std::begin(digits), std::end(digits), node.value).ptr);
      made.binding = std::signbit(node.value) ? kSign : kTight;
    } else {
      made.text = operation(node, made.binding);
      for (const ScalarId arg : node.args) {
        made.depth = std::max(made.depth, arg.valid() ? texts_[static_cast<size_t>(arg.index)].depth + 1 : 0);
      }
      if (uses_[i] > 1 || made.depth > kDeepest / 2) {
        const std::string name = "t" + std::to_string(names_++);
        named_ += name + " = " + made.text + "; ";
        made = {.text = name};
      }
    }
    texts_[i] = std::move(made);
  }

  std::string operation(const ScalarNode& node, Binding binding) const {
    const std::string name(name_of(node.op));
    if (node.op == ScalarOp::kNeg) {
      return name + operand(node.args[0], kPower);
    }
    if (binding != kTight) {
      // Powers associate to the right, all others to the left.
      const auto tighter = static_cast<Binding>(binding + 1);
      const bool right = node.op == ScalarOp::kPow;
      return operand(node.args[0], right || binding == kComparison ? tighter : binding) + " " + name + " " +
             operand(node.args[1], tighter);
    }
    std::string text = name + "(";
    for (const ScalarId arg : node.args) {
      text += arg.valid() ? (text.back() == '(' ? "" : ", ") + operand(arg, kLoose) : "";
    }
    return text + ")";
  }

  const ScalarExpr& expr_;
  std::vector<bool> reached_;
  std::vector<Text> texts_;
  std::vector<int> uses_;
  std::string named_;
  int names_ = 0;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Recursive descent, with one function for each level of Binding. After a fault all functions return at once.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<ScalarExpr> run() {
    std::vector<ScalarId> results;
    while (true) {
      const size_t begin = at_;
      const std::string_view name = word();
      if (!name.empty() && name[0] == 't' && !is_text("==") && take("=")) {
        const ScalarId value = expression();
        if (!named_.emplace(name, value).second) {
          fail("a name that is new");
        }
        expect(";");
      } else {
        at_ = begin;
        results.push_back(expression());
        if (!take(",")) {
          break;
        }
      }
      if (failed_) {
        break;
      }
    }
    if (at_ != text_.size()) {
      fail("the end");
    }
    if (failed_) {
      return Error{ErrorKind::kContent, "XG0303",
                   "the function `" + std::string(text_.substr(0, 80)) + "` cannot be read: at byte " +
                       std::to_string(failed_at_) + " " + expected_ + " is expected",
                   "make the file again: xrun writes its functions"};
    }
    expr_.set_results(std::move(results));
    expr_.prune();
    return std::move(expr_);
  }

 private:
  void fail(std::string_view expected) {
    if (!failed_) {
      failed_ = true;
      failed_at_ = at_;
      expected_ = expected;
    }
    at_ = text_.size();
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }
  bool is_text(std::string_view token) {
    skip();
    return text_.substr(at_).starts_with(token);
  }
  bool take(std::string_view token) {
    const bool is_there = is_text(token);
    at_ += is_there ? token.size() : 0;
    return is_there;
  }
  void expect(std::string_view token) {
    if (!take(token)) {
      fail("`" + std::string(token) + "`");
    }
  }
  std::string_view word() {
    skip();
    size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || (end > at_ && is_digit(text_[end])))) {
      ++end;
    }
    return text_.substr(std::exchange(at_, end), end - at_);
  }

  ScalarId make(ScalarOp op, ScalarId a, ScalarId b = {}, ScalarId c = {}) {
    if (failed_) {
      return nothing();
    }
    if (expr_.nodes().size() > 2 * kMostDerivedScalarOps) {
      fail("a function of fewer operations");
      return nothing();
    }
    return expr_.make(op, a, b, c);
  }
  ScalarId nothing() { return expr_.constant(0); }

  ScalarId expression() {
    if (++depth_ > kDeepest) {
      fail("less nesting");
    }
    ScalarId value = failed_ ? nothing() : sum();
    const ScalarOp op = is_text("<=")   ? ScalarOp::kLessEqual
                        : is_text("<")  ? ScalarOp::kLess
                        : is_text("==") ? ScalarOp::kEqual
                                        : ScalarOp::kInput;
    if (op != ScalarOp::kInput) {
      take(name_of(op));
      value = make(op, value, sum());
    }
    --depth_;
    return value;
  }
  ScalarId sum() {
    ScalarId value = product();
    while (is_text("+") || is_text("-")) {
      const ScalarOp op = take("+") ? ScalarOp::kAdd : (take("-"), ScalarOp::kSub);
      value = make(op, value, product());
    }
    return value;
  }
  ScalarId product() {
    ScalarId value = sign();
    while (is_text("*") || is_text("/")) {
      const ScalarOp op = take("*") ? ScalarOp::kMul : (take("/"), ScalarOp::kDiv);
      value = make(op, value, sign());
    }
    return value;
  }
  ScalarId sign() { return take("-") ? make(ScalarOp::kNeg, power()) : power(); }
  ScalarId power() {
    const ScalarId base = primary();
    return take("^") ? make(ScalarOp::kPow, base, primary()) : base;
  }

  ScalarId primary() {
    if (take("(")) {
      const ScalarId value = expression();
      expect(")");
      return value;
    }
    skip();
    if (at_ < text_.size() && is_digit(text_[at_])) {
      double value = 0;
      const auto [end, fault] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (fault != std::errc()) {
        fail("a number");
        return nothing();
      }
      at_ = static_cast<size_t>(end - text_.data());
      return expr_.constant(value);
    }
    const std::string_view name = word();
    if (const auto known = named_.find(name); known != named_.end()) {
      return known->second;
    }
    if (name.starts_with('x')) {
      int index = 0;
      const auto [end, fault] = std::from_chars(name.data() + 1, name.data() + name.size(), index);
      if (fault == std::errc() && end == name.data() + name.size() && index <= 2 * kMostScalarInputs) {
        return expr_.input(index);
      }
    }
    static constexpr ScalarOp kRoundings[] = {ScalarOp::kBf16, ScalarOp::kF16};
    const auto* const rounding =
        std::ranges::find(kRoundings, name, [](ScalarOp op) { return name_of(op); });  // internal functions
    const ScalarOp* function = rounding != std::end(kRoundings) ? rounding : scalar_function(name);
    if (function == nullptr) {
      fail("a value");
      return nothing();
    }
    expect("(");
    std::array<ScalarId, 3> args;
    for (int i = 0; i < arity_of(*function); ++i) {
      if (i > 0) {
        expect(",");
      }
      args[static_cast<size_t>(i)] = expression();
    }
    expect(")");
    return make(*function, args[0], args[1], args[2]);
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
  size_t failed_at_ = 0;
  std::string expected_;
  ScalarExpr expr_;
  std::map<std::string_view, ScalarId> named_;
};

}  // namespace

std::string to_text(const ScalarExpr& expr) { return Printer(expr).run(); }

Result<ScalarExpr> parse_scalar_expr(std::string_view text) { return Parser(text).run(); }

}  // namespace xrun
