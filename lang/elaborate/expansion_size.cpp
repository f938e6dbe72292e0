// Adds up the least work of expanding a declaration by recursion over its syntax tree:
//   - an expression costs one step and the work of its parts; an operator costs kOperator
//   - of the two branches of an `if` the smaller one counts; of `and` and `or`, only the left operand counts
//   - a `repeat` counts its stages as often as its count requires
//   - a call of a block or a function counts the work of the callee, which ExpansionSizes::of computes only once
// A recursive declaration counts as 0 inside itself; the evaluator reports it.
// Tests: tests/lang/elaborate/check_limits_test.cpp
#include "lang/elaborate/expansion_size.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "lang/elaborate/constant.h"

namespace xrun::lang {
namespace {

// Declarations that nest deeper than this count nothing. The evaluator rejects calls that nest so deep.
constexpr int kDeepest = 200;
constexpr ExpansionSize kOperator{.steps = 16, .nodes = 2};  // an operator and its tensor

ExpansionSize& operator+=(ExpansionSize& a, const ExpansionSize& b) {
  a.steps += b.steps;
  a.nodes += b.nodes;
  return a;
}

ExpansionSize smaller(const ExpansionSize& a, const ExpansionSize& b) {
  return {std::min(a.steps, b.steps), std::min(a.nodes, b.nodes)};
}

}  // namespace

// Adds up the work in the body of one declaration.
class SizeCounter {
 public:
  SizeCounter(ExpansionSizes& sizes, const SourceFile& file) : sizes_(sizes), file_(file), ast_(file.ast) {}

  ExpansionSize body(const Decl& decl) {
    ExpansionSize sum = expr(decl.value);
    for (const Stmt& stmt : ast_[decl.body]) {
      sum += expr(stmt.value);
      if (stmt.kind == StmtKind::kReturn) {
        break;
      }
    }
    return sum;
  }

 private:
  ExpansionSize expr(ExprId id) {
    if (!id.valid()) {
      return {};
    }
    const Expr& at = ast_[id];
    ExpansionSize sum{.steps = 1};
    switch (at.kind) {
      case ExprKind::kIf:
        sum += expr(at.condition);
        sum += smaller(expr(at.lhs), expr(at.rhs));
        return sum;
      case ExprKind::kCall:
        sum += call(at);
        return sum;
      default:
        break;
    }
    sum += expr(at.lhs);
    if (at.kind != ExprKind::kBinary || (at.op != Op::kAnd && at.op != Op::kOr)) {
      sum += expr(at.rhs);
    }
    for (const ExprId item : ast_[at.items]) {
      sum += expr(item);
    }
    sum += stages(ast_[at.stages]);
    return sum;
  }

  ExpansionSize arguments(std::span<const Arg> args) {
    ExpansionSize sum;
    for (const Arg& arg : args) {
      sum += expr(arg.value);
    }
    return sum;
  }

  // The work of a call f(x) or module.f(x).
  ExpansionSize call(const Expr& at) {
    const Expr& callee = ast_[at.lhs];
    std::vector<Name> path;
    if (callee.kind == ExprKind::kName) {
      path = {callee.name};
    } else if (callee.kind == ExprKind::kField && ast_[callee.lhs].kind == ExprKind::kName) {
      path = {ast_[callee.lhs].name, callee.name};
    }
    ExpansionSize sum = arguments(ast_[at.args]);
    sum += named(path, false);
    return sum;
  }

  // The work of the operator, block or function with this name. `flows`: it is called with a tensor, so that the name
  // does not mean a function of numbers.
  ExpansionSize named(std::span<const Name> path, bool flows) {
    const SourceFile* file = &file_;
    if (path.size() == 2) {
      const auto module = file_.modules.find(path[0].text);
      file = module == file_.modules.end() ? nullptr : module->second;
    }
    const DeclRef found =
        file != nullptr && !path.empty() && path.size() <= 2 ? file->find(path.back().text) : DeclRef{};
    if (found) {
      const DeclKind kind = found.decl->kind;
      return kind == DeclKind::kBlock || kind == DeclKind::kFn ? sizes_.of(found) : ExpansionSize{};
    }
    const bool is_op = path.size() == 1 && sizes_.ops_ != nullptr && sizes_.ops_->find(path[0].text) != nullptr &&
                       (flows || !is_constant_function(path[0].text));
    return is_op ? kOperator : ExpansionSize{};
  }

  ExpansionSize stages(std::span<const Stage> all) {
    ExpansionSize sum;
    for (const Stage& stage : all) {
      sum += this->stage(stage);
    }
    return sum;
  }

  ExpansionSize stage(const Stage& at) {
    const auto pipes = ast_[at.pipes];
    ExpansionSize sum = expr(at.value);
    switch (at.kind) {
      case StageKind::kError:
        return {};
      case StageKind::kCall:
        sum += arguments(ast_[at.args]);
        sum += named(ast_[at.path], true);
        return sum;
      case StageKind::kIf:
        sum +=
            smaller(stages(ast_[pipes[0].stages]), pipes.size() > 1 ? stages(ast_[pipes[1].stages]) : ExpansionSize{});
        return sum;
      case StageKind::kRepeat: {
        const double copies = copies_of(at.value);
        const ExpansionSize one = copies > 0 ? stages(ast_[pipes[0].stages]) : ExpansionSize{};
        sum += {.steps = copies * one.steps, .nodes = copies * one.nodes};
        return sum;
      }
      case StageKind::kResidual:
      case StageKind::kFork:
        for (const Pipe& pipe : pipes) {
          sum += stages(ast_[pipe.stages]);
        }
        return sum;
    }
    return sum;
  }

  double copies_of(ExprId count) const {
    if (!count.valid() || ast_[count].kind != ExprKind::kNumber) {
      return 0;
    }
    const double copies = ast_.number(count).in_base();
    return copies >= 0 ? copies : 0;
  }

  ExpansionSizes& sizes_;
  const SourceFile& file_;
  const Ast& ast_;
};

ExpansionSize ExpansionSizes::of(const DeclRef& ref) {
  const auto [at, is_new] = known_.try_emplace(ref.decl);
  if (!is_new || depth_ >= kDeepest) {
    return at->second;
  }
  ++depth_;
  const ExpansionSize size = SizeCounter(*this, *ref.file).body(*ref.decl);
  --depth_;
  known_[ref.decl] = size;
  return size;
}

}  // namespace xrun::lang
