// `test` blocks: expectations over what a model or a block expands to.
#include <fmt/format.h>

#include "graph/cost.h"
#include "lang/evaluator.h"

namespace xrun::lang {

TestResult Evaluator::run_test(const SourceFile& file, const Decl& test) {
  const Ast& ast = file.ast;
  TestResult result{.name = test.text.valid() && ast[test.text].kind == ExprKind::kString ? ast.text(test.text) : ""};
  in_test_ = true;
  Workspace outer = std::exchange(work_, work_.aside());
  const int before = diagnostics_.error_count();
  Scope scope;
  scope.file = &file;
  for (const Stmt& stmt : ast[test.body]) {
    last_skipped_ = {};
    if (stmt.kind == StmtKind::kBind) {
      bind_names(ast, stmt, eval(ast, stmt.value, scope), scope);
    } else if (stmt.kind == StmtKind::kAssert) {
      run_assert(ast, stmt, scope);
    } else if (stmt.kind == StmtKind::kExpect) {
      ++result.expectations;
      const Expr& expr = ast[stmt.value];
      const auto holds = condition(ast, stmt.value, scope);
      if (holds && !*holds) {
        Diagnostic d = fault("XG0219", expr.span, fmt::format("test \"{}\" fails", result.name), "does not hold");
        if (expr.kind == ExprKind::kBinary) {
          const Datum left = eval(ast, expr.lhs, scope);
          const Datum right = eval(ast, expr.rhs, scope);
          const auto shown = [](const Datum& value) {
            const auto whole = to_int64(value);
            return whole ? format_with_underscores(*whole) : to_text(value);
          };
          d.primary.text = fmt::format("{} {} {}", shown(left), text_of(expr.op), shown(right));
        }
        report(std::move(d));
      }
    } else if (stmt.kind != StmtKind::kHole) {
      refuse("XG0224", stmt.span, "a test has `expect`, `assert` and bindings", "not a statement of a test");
    }
  }
  result.passed = diagnostics_.error_count() == before;
  work_ = std::move(outer);
  in_test_ = false;
  return result;
}

// params(x), shape(x), flops(x), bytes(x): x is a model, or a tensor expression that is expanded into a graph of its
// own.
Datum Evaluator::call_measure(const std::string& name, const Call& call, Scope& scope) {
  if (call.args.size() != 1 || call.args[0].name || call.flowing) {
    return refuse("XG0204", call.span, fmt::format("`{}` takes one model or tensor", name));
  }
  const Ast& ast = *call.ast;
  const Expr& expr = ast[call.args[0].value];
  // What is measured is what this expression expands to, so it starts from nothing.
  Workspace outer = std::exchange(work_, work_.aside());
  const int before = diagnostics_.error_count();
  Datum value;
  const DeclRef model = expr.kind == ExprKind::kName && scope.find(expr.name.text) == nullptr
                            ? scope.file->find(DeclKind::kModel, expr.name.text)
                            : DeclRef{};
  if (model) {
    Scope inside;
    inside.file = model.file;
    build_model(model, inside);
    if (!work_.graph.outputs.empty()) {
      value = make_tensor(work_.graph.outputs[0].value);
    } else if (!work_.graph.values.empty()) {
      value = make_tensor(ValueId(work_.graph.values.size() - 1));
    }
  } else {
    value = eval(ast, call.args[0].value, scope);
  }
  Datum result;
  if (diagnostics_.error_count() == before && value.kind == DatumKind::kTensor) {
    if (name == "params") {
      result = make_whole(work_.graph.parameter_count());
    } else if (name == "shape") {
      std::vector<Datum> dims;
      for (const int64_t dim : type_of(value).dims) {
        dims.push_back(dim < 0 ? make_plain(DatumKind::kBatch) : make_whole(dim));
      }
      result = make_items(DatumKind::kList, std::move(dims));
    } else {
      const OpCost cost = total_cost(work_.graph, Phase::kForward);
      result = name == "flops" ? make_whole(static_cast<Int128>(cost.flops)) : make_whole(cost.bytes);
    }
  } else if (diagnostics_.error_count() == before) {
    refuse("XG0303", expr.span, fmt::format("`{}` measures a model or a tensor", name), "this is " + kind_text(value));
  }
  work_ = std::move(outer);
  return result;
}

}  // namespace xrun::lang
