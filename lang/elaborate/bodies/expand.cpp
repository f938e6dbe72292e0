// Expands blocks, which are macros, into the graph, and evaluates the statements of bodies.
// Tests: tests/lang/check_test.cpp, tests/lang/check_golden_test.cpp
#include <fmt/format.h>
#include <utility>

#include "lang/elaborate/evaluator.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The deepest nesting of blocks, functions and models, each of which takes stack. Real models nest about ten.
constexpr size_t kMostBlocks = 128;

// Returns the text of a block's expansion in the chains of messages: its label and name, or its name and constants.
std::string expansion_text(const Decl& decl, const std::vector<BoundArg>& bound, const Call& call) {
  if (call.label) {
    return fmt::format("{} ({})", call.label.text, decl.name.text);
  }
  std::string args = listed(bound, [](const BoundArg& arg) {
    const bool constant = !takes_tensor(*arg.param) && arg.value().kind != DatumKind::kTensor;
    return constant ? fmt::format("{}={}", arg.param->name.text, to_text(arg.value())) : "";
  });
  constexpr size_t kLongest = 80;  // longer texts are cut, since the chain of calls of each node stores them
  if (args.size() > kLongest) {
    args = fmt::format("{}...", args.substr(0, kLongest));
  }
  return args.empty() ? std::string(decl.name.text) : fmt::format("{}({})", decl.name.text, args);
}

}  // namespace

bool Evaluator::enter_scope(std::string_view name, const Name& label, Span at) {
  const auto path = work_.names.leaf(name, label.text);
  if (!path) {
    same_label(at, label.text);
    return false;
  }
  work_.names.enter(*path);
  return true;
}

bool Evaluator::bind_local(const Name& name, Datum value, Scope& scope, bool warns) {
  if (name.text == "_" || name.text == "N") {
    return true;  // the parser has reported the binding of `N`
  }
  if (const auto known = scope.locals.find(name.text); known != scope.locals.end()) {
    Diagnostic d =
        fault("XG0202", name.span, {"`{}` is bound twice", name.text}, "bound again",
              replacement("a name keeps its value: give the new one a name of its own", name.span, {"{}2", name.text}));
    if (known->second.span.valid()) {
      d.secondary.push_back({known->second.span, "bound here first"});
    }
    report(std::move(d));
    return false;
  }
  value.span = name.span;
  note(name.span, value);
  scope.locals[name.text] = {
      .value = std::move(value), .span = name.span, .warns = warns, .skipped = recorded_.skipped};
  return true;
}

void Evaluator::bind_names(const Ast& ast, const Stmt& stmt, Datum value, Scope& scope) {
  const auto names = ast[stmt.names];
  if (!stmt.is_tuple) {
    bind_local(names[0], std::move(value), scope, true);
    return;
  }
  if (!value.is_error() && (value.kind != DatumKind::kTuple || value.items->size() != names.size())) {
    refuse("XG0304", value.span, {"{} names are bound to {}", names.size(), kind_text(value)}, "",
           {value.kind == DatumKind::kTuple
                ? fmt::format("write {} names, with `_` for each value that is not needed", value.items->size())
                : "write one name, or `fork` what flows in: x -> fork { a, b }"});
    value = {};
  }
  for (size_t i = 0; i < names.size(); ++i) {
    bind_local(names[i], value.is_error() ? Datum() : (*value.items)[i], scope, true);
  }
}

void Evaluator::run_assert(const Ast& ast, const Stmt& stmt, Scope& scope) {
  const auto holds = condition(ast, stmt.value, scope);
  if (holds && !*holds) {
    const std::string text = stmt.message.valid() && ast[stmt.message].kind == ExprKind::kString
                                 ? ast.text(stmt.message)
                                 : fmt::format("`{}` does not hold", sources_.text(ast[stmt.value].span));
    refuse("XG0218", ast[stmt.value].span, text, "false here",
           {"change the arguments or the model until it holds, or the assertion"});
  }
}

// Evaluates the statements of a block, model or test in order.
void Evaluator::walk_body(const Ast& ast, const Decl& decl, Scope& scope, const BodyKind& kind) {
  for (const Stmt& stmt : ast[decl.body]) {
    if (exhausted_) {
      return;
    }
    recorded_.skipped = {};
    const Step step = kind.run(stmt);
    if (step == Step::kEnd) {
      return;
    }
    const bool is_refused = step == Step::kRefused ||
                            (step == Step::kShared && stmt.kind != StmtKind::kError && !run_shared(ast, stmt, scope));
    if (is_refused) {
      refuse("XG0224", stmt.span, kind.refusal, kind.label, {kind.help});
    }
  }
}

// Runs a statement that all kinds of bodies may have. Returns false for any other statement.
bool Evaluator::run_shared(const Ast& ast, const Stmt& stmt, Scope& scope) {
  switch (stmt.kind) {
    case StmtKind::kBind: {
      const auto known = stmt.is_tuple ? scope.locals.end() : scope.locals.find(ast[stmt.names][0].text);
      if (known != scope.locals.end() && known->second.is_state) {
        assign_state(ast, stmt, known->second, scope);
      } else {
        bind_names(ast, stmt, eval(ast, stmt.value, scope), scope);
      }
      return true;
    }
    case StmtKind::kAssert:
      run_assert(ast, stmt, scope);
      return true;
    case StmtKind::kParam:
    case StmtKind::kState:
      own_tensor(ast, stmt, scope);
      return true;
    default:
      return false;
  }
}

Datum Evaluator::call_block(const DeclRef& block, const std::vector<BoundArg>& bound, Scope& env, const Call& call) {
  const Decl& decl = *block.decl;
  if (std::find(active_.begin(), active_.end(), &decl) != active_.end()) {
    return recurs(call.span, fmt::format("`{}` contains itself", decl.name.text));
  }
  if (active_.size() >= kMostBlocks) {
    return too_deep(call.span);
  }
  if (!spend(call.span) || !enter_scope(decl.name.text, call.label, call.span)) {
    return {};
  }
  work_.expansion.push_back({{expansion_text(decl, bound, call), call.span}, {}});
  active_.push_back(&decl);
  called_.insert(&decl);
  const Ast& ast = block.file->ast;
  const bool outer = std::exchange(in_test_, false);
  Datum result;
  bool returned = false;
  bool has_error = false;  // a statement could not be read; it may be the `return`
  const auto run = [&](const Stmt& stmt) {
    if (returned) {
      refuse("XG0224", stmt.span, "nothing follows `return`", "never reached",
             {"put it before `return`, or leave it out"});
      return Step::kEnd;
    }
    has_error = has_error || stmt.kind == StmtKind::kError;
    returned = stmt.kind == StmtKind::kReturn;
    if (returned) {
      result = eval(ast, stmt.value, env);
    }
    return returned ? Step::kDone : Step::kShared;
  };
  walk_body(ast, decl, env,
            {.run = run,
             .refusal = "a block has no inputs, outputs or heads",
             .label = "",
             .help = "move it to a model; a block has parameters and a `return`"});
  if (!returned && !has_error && !exhausted_ && !decl.has_fault) {
    refuse("XG0224", decl.name.span, {"block `{}` returns nothing", decl.name.text}, "",
           {"end it with its result: return x"});
  }
  if (!result.is_error()) {
    check_states(env);
    warn_unused(env);
    check_results(block, result, env, call.span);
  }
  in_test_ = outer;
  active_.pop_back();
  work_.expansion.pop_back();
  work_.names.leave();
  recorded_.skipped = {};
  return result;
}

void Evaluator::check_results(const DeclRef& block, const Datum& value, Scope& env, Span at) {
  const Ast& ast = block.file->ast;
  const auto results = ast[block.decl->results];
  if (results.empty()) {
    return;
  }
  std::vector<Datum> values{value};
  if (value.kind == DatumKind::kTuple) {
    values = *value.items;
  }
  if (values.size() != results.size()) {
    refuse("XG0306", block.decl->name.span,
           {"`{}` declares {} results, but returns {}", block.decl->name.text, results.size(), values.size()}, "",
           {"write as many types after `->` as values after `return`"});
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    match(ast, results[i], values[i], env, values[i].span.valid() ? values[i].span : at, {}, block.decl->name.text);
  }
}

void Evaluator::warn_unused(const Scope& scope) {
  for (const auto& [name, local] : scope.locals) {
    if (local.warns && !local.used && !local.value.is_error() && !name.starts_with('_')) {
      diagnostics_.add(warning("XG0215", local.span, {"`{}` is never used", name}, "",
                               replacement("leave the line out, or call it `_`", local.span, "_")));
    }
  }
}

}  // namespace xrun::lang
