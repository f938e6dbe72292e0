// Runs `test` blocks: checks expectations on expanded models and blocks.
// Tests: tests/lang/check_test.cpp, tests/lang/check_golden_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "graph/cost.h"
#include "lang/elaborate/evaluator.h"
#include "lang/elaborate/test_result.h"

namespace xrun::lang {
namespace {

// The nodes and parameters of `graph` from which `value` is computed. Values keep their ids.
Graph leading_to(const Graph& graph, ValueId value) {
  IdVector<ValueId, bool> wanted(graph.values.size());
  wanted[value] = true;
  Graph part;
  part.values = graph.values;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return wanted[id]; })) {
      for (const ValueId input : node.inputs) {
        wanted[input] = true;
      }
      part.nodes.push_back(node);
    }
  }
  std::reverse(part.nodes.begin(), part.nodes.end());
  for (const Parameter& param : graph.params) {
    if (wanted[param.value]) {
      part.params.push_back(param);
    }
  }
  return part;
}

}  // namespace

// Evaluates an expectation of the test `test`, and reports it if it does not hold.
void Evaluator::run_expect(const Ast& ast, const Stmt& stmt, Scope& scope, const std::string& test) {
  const Expr& expr = ast[stmt.value];
  const auto holds = condition(ast, stmt.value, scope);
  if (holds && !*holds) {
    std::string label = "does not hold";
    Fix fix{"fix the model, or what is expected"};
    if (expr.kind == ExprKind::kBinary) {
      const Datum left = eval(ast, expr.lhs, scope);
      const Datum right = eval(ast, expr.rhs, scope);
      const auto shown = [](const Datum& value) {
        const auto whole = to_int64(value);
        return whole ? format_with_underscores(*whole) : to_text(value);
      };
      label = fmt::format("{} {} {}", shown(left), text_of(expr.op), shown(right));
      if (expr.op == Op::kEq && left.kind != DatumKind::kTensor) {
        fix = replacement("fix the model, or expect what it has", ast[expr.rhs].span, shown(left));
      }
    }
    refuse("XG0219", expr.span, {"test \"{}\" fails", test}, std::move(label), std::move(fix));
  }
}

TestResult Evaluator::run_test(const SourceFile& file, const Decl& test) {
  const Ast& ast = file.ast;
  TestResult result{.name = test.text.valid() && ast[test.text].kind == ExprKind::kString ? ast.text(test.text) : ""};
  in_test_ = true;
  tested_.clear();
  Workspace outer = std::exchange(work_, work_.aside());
  const int before = diagnostics_.error_count();
  Scope scope{.file = &file};
  const auto run = [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::kExpect) {
      ++result.expectations;
      run_expect(ast, stmt, scope, result.name);
      return Step::kDone;
    }
    return stmt.kind == StmtKind::kParam || stmt.kind == StmtKind::kState ? Step::kRefused : Step::kShared;
  };
  walk_body(ast, test, scope,
            {.run = run,
             .refusal = "a test has `expect`, `assert` and bindings",
             .label = "not a statement of a test",
             .help = "bind what is tested, x = ..., and expect something of it: expect shape(x) == [N, 10]"});
  result.passed = diagnostics_.error_count() == before;
  work_ = std::move(outer);
  in_test_ = false;
  return result;
}

// Evaluates params(x), shape(x), flops(x) or bytes(x). `x` is a model, which is built in a graph of its own, or a
// tensor expression.
Datum Evaluator::call_measure(const std::string& name, const Call& call, Scope& scope) {
  if (call.args.size() != 1 || call.args[0].name || call.flowing) {
    return refuse("XG0204", call.span, {"`{}` takes one model or tensor", name}, "",
                  {"write {}(MODEL), or {}(x) of a binding x", name, name});
  }
  const Ast& ast = *call.ast;
  const Expr& expr = ast[call.args[0].value];
  const int before = diagnostics_.error_count();
  const DeclRef model = expr.kind == ExprKind::kName && scope.find(expr.name.text) == nullptr
                            ? scope.file->find(DeclKind::kModel, expr.name.text)
                            : DeclRef{};
  // An expression may use bindings of the test, so it is built in the test's graph, with tensor names of its own. A
  // model gets a graph of its own.
  Workspace outer = model ? std::exchange(work_, work_.aside()) : Workspace();
  TensorNames outer_names = std::exchange(work_.names, {});
  Datum value;
  if (model) {
    Scope inside{.file = model.file};
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
      result = make_whole((model ? work_.graph : leading_to(work_.graph, value.tensor)).parameter_count());
    } else if (name == "shape") {
      std::vector<Datum> dims;
      for (const int64_t dim : type_of(value).dims) {
        dims.push_back(dim < 0 ? make_plain(DatumKind::kBatch) : make_whole(dim));
      }
      result = make_items(DatumKind::kList, std::move(dims));
    } else {
      const OpCost cost = total_cost(model ? work_.graph : leading_to(work_.graph, value.tensor), Phase::kForward);
      result = name == "flops" ? make_whole(static_cast<Int128>(cost.flops)) : make_whole(cost.bytes);
    }
  } else if (diagnostics_.error_count() == before) {
    refuse("XG0303", expr.span, {"`{}` measures a model or a tensor", name}, {"this is {}", kind_text(value)},
           {"name a model, {}(MODEL), or give it a tensor: {}(f32[N, 64] -> linear(10))", name, name});
  }
  if (model) {
    work_ = std::move(outer);
  } else {
    work_.names = std::move(outer_names);
  }
  return result;
}

}  // namespace xrun::lang
