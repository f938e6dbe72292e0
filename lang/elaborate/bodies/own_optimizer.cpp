// Optimizers written in the language. Their statements become one update rule:
//   1. declare_states makes an input for the weight, the gradient, each state and each number of the step.
//   2. The statements are evaluated in order. Each appends operations of one element to the expression.
//   3. The last values of the weight and the states become the results. check_without_norms checks that they stay
//      finite if all norms are 0.
//   4. make_update_rule separates the numbers that are computed once per step or once per tensor
//   (graph/settings/update_rule.h).
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "graph/settings/optimizer_facts.h"
#include "graph/settings/update_rule.h"
#include "lang/elaborate/evaluator.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// A name that an optimizer assigns at most once: the weight or a state.
struct Assigned {
  std::string_view name;
  Span declared;  // declaration of the state
  Span assigned;
  ScalarId value;
};

Datum scalar(ScalarId id, Span at) {
  Datum made{.kind = DatumKind::kScalar, .scalar = id};
  made.span = at;
  return made;
}

}  // namespace

// Evaluates the statements of an optimizer in order. `assigned_` has the weight first, and then the states.
class OptimizerBody {
 public:
  OptimizerBody(Evaluator& evaluator, const DeclRef& ref, Scope& env)
      : ev_(evaluator), ref_(ref), ast_(ref.file->ast), env_(env) {}

  std::optional<OwnOptimizer> run(ScalarExpr& expr, NormCalls& norms) {
    bool good = check_parameters();
    declare_states(expr, norms);
    for (const Stmt& stmt : ast_[ref_.decl->body]) {
      good = statement(stmt) && good;
    }
    if (!good || ref_.decl->has_fault) {
      return std::nullopt;
    }
    if (!check_assigned()) {
      return std::nullopt;
    }
    ev_.warn_unused(env_);
    OwnOptimizer made;
    std::vector<ScalarId> results;
    for (const Assigned& one : assigned_) {
      results.push_back(one.value);
    }
    for (size_t i = 1; i < assigned_.size(); ++i) {
      made.states.emplace_back(assigned_[i].name);
    }
    expr.set_results(results);
    check_without_norms(expr, norms);
    results.insert(results.end(), norms.summed.begin(), norms.summed.end());
    expr.set_results(std::move(results));
    leave_out_unread_states(expr, made.states, first_);
    auto rule = make_update_rule(expr, first_, static_cast<int>(norms.summed.size()));
    if (!rule.ok()) {
      return ev_.refuse(rule.error().code.c_str(), ref_.decl->name.span, rule.error().message, "", {rule.error().help});
    }
    made.rule = *std::move(rule);
    return made;
  }

 private:
  bool check_parameters() {
    for (const Param& param : ast_[ref_.decl->params]) {
      const std::string_view name = param.name.text;
      if (name == "weight" || name == "grad" || name == "step") {
        return ev_.refuse("XG0202", param.name.span, {"`{}` is already bound in every optimizer", name}, "bound again",
                          {"give the parameter another name"}),
               false;
      }
    }
    return true;
  }

  void declare_states(ScalarExpr& expr, NormCalls& norms) {
    assigned_.push_back({.name = "weight", .declared = {}, .assigned = {}, .value = expr.input(0)});
    for (const Stmt& stmt : ast_[ref_.decl->body]) {
      if (stmt.kind == StmtKind::kState) {
        const Name& name = ast_[stmt.names][0];
        assigned_.push_back({.name = name.text,
                             .declared = name.span,
                             .assigned = {},
                             .value = expr.input(1 + static_cast<int>(assigned_.size()))});
      }
    }
    const int first = 1 + static_cast<int>(assigned_.size());
    norms.elements = first;
    norms.first_input = first + kStepInputs;
    const auto bind = [&](std::string_view name, ScalarId value) {
      env_.locals[name] = {.value = scalar(value, ref_.decl->name.span), .span = {}, .used = true};
    };
    bind("weight", expr.input(0));
    bind("grad", expr.input(1));
    bind("lr", expr.input(first + static_cast<int>(StepInput::kRate)));
    bind("step", expr.input(first + static_cast<int>(StepInput::kStep)));
    // Groups of tensors, and tensors of one dimension, may have their own decay, so it is an input.
    if (env_.locals.contains("weight_decay")) {
      bind("weight_decay", expr.input(first + static_cast<int>(StepInput::kDecay)));
    }
  }

  bool statement(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kError:
        return false;
      case StmtKind::kState:
        return state(stmt);
      case StmtKind::kBind:
        if (!stmt.is_tuple) {
          return assign(stmt);
        }
        break;
      case StmtKind::kAssert:
        ev_.run_assert(ast_, stmt, env_);
        return true;
      default:
        break;
    }
    return ev_.refuse("XG0224", stmt.span, "an optimizer has states and assignments", "not a statement of one",
                      {"assign the new weight: weight = weight - lr * grad"}),
           false;
  }

  bool state(const Stmt& stmt) {
    const Name& name = ast_[stmt.names][0];
    if (env_.locals.contains(name.text)) {
      return ev_.refuse("XG0202", name.span, {"`{}` is bound twice", name.text}, "bound again",
                        {"give the state a name of its own"}),
             false;
    }
    const auto place = std::ranges::find(assigned_, name.text, &Assigned::name);
    env_.locals[name.text] = {.value = scalar(place->value, name.span), .span = name.span, .used = true};
    if (name.text == kMeanState) {
      return ev_.refuse("XG0202", name.span, {"`{}` is the running mean of a weight, which `train` keeps", name.text},
                        "bound again", {"give the state another name"}),
             false;
    }
    if (place - assigned_.begin() > kMostUpdateStates) {
      return ev_.refuse("XG0216", name.span, {"an optimizer has at most {} states", kMostUpdateStates},
                        "one more than possible", {"write the update with fewer"}),
             false;
    }
    const Datum first = ev_.eval(ast_, stmt.value, env_);
    if (first.is_error()) {
      return false;
    }
    if (stmt.type.span.valid()) {
      return ev_.refuse("XG0228", stmt.type.span, "a state of an optimizer has the shape of the weight", "a type",
                        {"leave it out: state {} = {}", name.text, to_text(first)}),
             false;
    }
    constexpr double kMost = std::numeric_limits<float>::max();
    if (!first.plain_number() || !(std::abs(first.as_double()) <= kMost)) {
      return ev_.refuse("XG0228", first.span,
                        {"a state starts with a number, not with {}",
                         first.plain_number() ? to_text(first) : std::string(kind_text(first))},
                        first.plain_number() ? "outside of f32" : "",
                        {"write one, the same for every weight: state {} = 0", name.text}),
             false;
    }
    first_.push_back(first.as_double());
    return true;
  }

  bool assign(const Stmt& stmt) {
    const Name& name = ast_[stmt.names][0];
    const Datum value = ev_.eval(ast_, stmt.value, env_);
    if (value.is_error()) {
      // A name whose value could not be computed is declared nevertheless, so that its uses are not reported again.
      env_.locals.try_emplace(name.text, Local{.value = Datum(), .span = name.span, .used = true});
      return false;
    }
    const auto known = std::ranges::find(assigned_, name.text, &Assigned::name);
    if (known == assigned_.end()) {
      return ev_.bind_local(name, value, env_, true);
    }
    if (known->assigned.valid()) {
      Diagnostic d = fault("XG0202", name.span, {"`{}` is assigned twice", name.text}, "again",
                           {"give the intermediate value a name of its own: an update assigns each state once"});
      ev_.report(std::move(d.also(known->assigned, "assigned here first")));
      return false;
    }
    const auto id = ev_.scalar_of(value, stmt.span);
    if (!id) {
      return false;
    }
    known->assigned = name.span;
    known->value = *id;
    env_.locals[name.text].value = scalar(*id, name.span);
    return true;
  }

  bool check_assigned() {
    std::vector<std::string> others;  // names that are bound and never read; one may be a misspelt state
    for (const auto& [name, local] : env_.locals) {
      if (local.warns && !local.used) {
        others.emplace_back(name);
      }
    }
    for (const Assigned& one : assigned_) {
      if (one.assigned.valid()) {
        continue;
      }
      const std::string meant = nearest(one.name, others);
      const bool is_weight = one.name == "weight";
      Help help = !meant.empty()
                      ? Help(replacement("give it the name of the state", env_.locals[meant].span, {"{}", one.name}))
                  : is_weight ? Help("end it with the step: weight = weight - lr * grad")
                              : Help("assign it, {} = ..., or leave it out", one.name);
      ev_.refuse("XG0224", is_weight ? ref_.decl->name.span : one.declared,
                 {"optimizer `{}` never assigns `{}`", ref_.decl->name.text, one.name},
                 meant.empty() ? std::string() : fmt::format("is `{}` meant?", meant), std::move(help));
      return false;
    }
    return true;
  }

  // Checks that the update is finite if the norms are 0, as they are for class rows, for tensors of one dimension and
  // for weights that start at 0. An update that divides by a norm would make these NaN.
  void check_without_norms(const ScalarExpr& expr, const NormCalls& norms) {
    if (norms.summed.empty()) {
      return;
    }
    const auto is_finite = [&](double norm, double at) {
      std::vector<double> inputs(static_cast<size_t>(norms.first_input), at);
      inputs[static_cast<size_t>(norms.elements) + static_cast<size_t>(StepInput::kStep)] = 2;
      inputs.resize(inputs.size() + norms.summed.size(), norm);
      const std::vector<double> results = evaluate(expr, inputs);
      return std::ranges::all_of(results, [](double value) { return std::isfinite(value); });
    };
    constexpr double kPoints[] = {0.3, 0.02, 0.7};
    const bool with = std::ranges::any_of(kPoints, [&](double at) { return is_finite(1, at); });
    const bool without = std::ranges::any_of(kPoints, [&](double at) { return is_finite(0, at); });
    if (with && !without) {
      ev_.refuse("XG0229", norms.spans.back(),
                 {"the update of `{}` has no finite value if norms are 0", ref_.decl->name.text},
                 "it is 0 for class rows, tensors of one dimension, and weights that start at 0",
                 {"give a value for this case: if n > 0 { 1 / n } else { 1 }"});
    }
  }

  Evaluator& ev_;
  const DeclRef& ref_;
  const Ast& ast_;
  Scope& env_;
  std::vector<Assigned> assigned_;
  std::vector<double> first_;  // initial values of the states
};

std::optional<OwnOptimizer> Evaluator::eval_optimizer(const DeclRef& ref, Scope& env) {
  ScalarExpr expr;
  NormCalls norms;
  called_.insert(ref.decl);
  const BuildsScalars building(scalars_, &expr);
  NormCalls* const outer = std::exchange(norms_, &norms);
  auto made = OptimizerBody(*this, ref, env).run(expr, norms);
  norms_ = outer;
  return made;
}

// Evaluates norm(x). The result is an input of the expression; its value is the square root of the sum of the squares
// of x over a tensor.
Datum Evaluator::norm_call(const Call& call, Scope& scope) {
  const auto args = plain_args("norm", call, scope);
  if (!args) {
    return {};
  }
  if (args->size() != 1) {
    return refuse("XG0204", call.span, {"`norm` takes one number of each element, but gets {}", args->size()}, "",
                  {"write norm(weight), norm(grad), or the norm of a value computed from them"});
  }
  const Datum& value = args->front();
  const auto reads_elements = [&](ScalarId id) {
    ScalarExpr part = *scalars_;
    part.set_results({id});
    const std::vector<int> read = part.inputs_read();
    return !read.empty() && read.front() < norms_->elements;
  };
  if (value.kind != DatumKind::kScalar || !reads_elements(value.scalar)) {
    return refuse("XG0229", value.span.valid() ? value.span : call.span,
                  {"a norm sums over the elements of a tensor, but this value is the same for all of them"}, "",
                  {"write norm(weight), norm(grad), or the norm of a value computed from them"});
  }
  const auto known = std::ranges::find(norms_->summed, value.scalar);
  const auto place = static_cast<int>(known - norms_->summed.begin());
  if (known == norms_->summed.end()) {
    if (place == kMostUpdateNorms) {
      return refuse("XG0216", call.span, {"an optimizer has at most {} norms", kMostUpdateNorms},
                    "one more than possible", {"write the update with fewer"});
    }
    norms_->summed.push_back(value.scalar);
    norms_->spans.push_back(call.span);
  }
  return make_scalar(scalars_->input(norms_->first_input + place));
}

// Evaluates the statements of an optimizer that no `train` uses.
void Evaluator::try_optimizer(const DeclRef& ref) {
  Scope env{.file = ref.file};
  const Signature& signature = signatures_.of(ref);
  for (const Param& param : signature.params) {
    std::optional<Datum> value = make_real(0.5);
    if (param.value.valid()) {
      value = argument(signature, param, ref.file->ast, param.value, env);
    }
    bind_param(param, value ? *value : Datum(), env);
  }
  eval_optimizer(ref, env);
}

}  // namespace xrun::lang
