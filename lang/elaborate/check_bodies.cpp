// Bodies of `pointwise` functions and optimizers. They are not evaluated, so that their names are all that is checked.
#include <fmt/format.h>
#include <set>

#include "lang/elaborate/constant.h"
#include "lang/elaborate/uncalled.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

class BodyChecker {
 public:
  BodyChecker(Evaluator& evaluator, const SourceFile& file) : evaluator_(evaluator), file_(file), ast_(file.ast) {}

  void declaration(const Decl& decl) {
    known_.clear();
    for (const Param& param : ast_[decl.params]) {
      expression(param.value);
      known_.emplace(param.name.text);
    }
    expression(decl.value);
    if (decl.kind == DeclKind::kOptimizer) {
      known_.insert({"weight", "grad", "step", "lr"});
    }
    for (const Stmt& stmt : ast_[decl.body]) {
      const bool is_known = stmt.kind == StmtKind::kBind || stmt.kind == StmtKind::kState ||
                            stmt.kind == StmtKind::kAssert || stmt.kind == StmtKind::kError;
      if (!is_known) {
        evaluator_.refuse("XG0224", stmt.span, "an optimizer has states and assignments", "not a statement of one",
                          {"assign the new weight: weight = weight - lr * grad"});
        continue;
      }
      expression(stmt.value);
      for (const Name& name : ast_[stmt.names]) {
        known_.emplace(name.text);
      }
    }
  }

 private:
  void expression(ExprId id) {
    if (!id.valid()) {
      return;
    }
    const Expr& expr = ast_[id];
    if (expr.kind == ExprKind::kName) {
      value(expr.name);
      return;
    }
    if (expr.kind == ExprKind::kCall && ast_[expr.lhs].kind == ExprKind::kName) {
      function(ast_[expr.lhs].name);
    } else if (expr.kind != ExprKind::kField) {  // a field is one of an import
      expression(expr.lhs);
    }
    expression(expr.rhs);
    expression(expr.condition);
    for (const ExprId item : ast_[expr.items]) {
      expression(item);
    }
    arguments(expr.args);
    for (const Stage& stage : ast_[expr.stages]) {
      if (stage.kind == StageKind::kCall && stage.path.count == 1) {
        function(ast_[stage.path][0]);
      }
      arguments(stage.args);
    }
  }

  void arguments(Run<Arg> args) {
    for (const Arg& arg : ast_[args]) {
      expression(arg.value);
    }
  }

  void value(const Name& name) {
    const DeclRef found = file_.find(name.text);
    const bool is_constant = found && (found.decl->kind == DeclKind::kLet || found.decl->kind == DeclKind::kOption);
    if (!known_.contains(name.text) && !is_constant && !file_.is_missing(name.text)) {
      refuse(name, "value", {known_.begin(), known_.end()});
    }
  }

  void function(const Name& name) {
    if (!is_constant_function(name.text) && evaluator_.find_op(name.text) == nullptr && !file_.find(name.text) &&
        !file_.is_missing(name.text)) {
      refuse(name, "function", names_of(evaluator_.options().ops->all(), &OpDef::name));
    }
  }

  void refuse(const Name& name, std::string_view kind, const std::vector<std::string>& candidates) {
    evaluator_.refuse("XG0201", name.span, {"there is no {} `{}` here", kind, name.text}, "unknown name",
                      did_you_mean(name.text, candidates, name.span, {"write one that is known here"}));
  }

  Evaluator& evaluator_;
  const SourceFile& file_;
  const Ast& ast_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace

void check_bodies(Evaluator& evaluator, const SourceFile& file) {
  BodyChecker checker(evaluator, file);
  for (const Decl& decl : file.ast.decls) {
    if (decl.kind == DeclKind::kPointwise || decl.kind == DeclKind::kOptimizer) {
      checker.declaration(decl);
    }
  }
}

}  // namespace xrun::lang
