// `state` statements of blocks and models: tensors that training updates without a gradient. A state is assigned once,
// from its own value and from means over the batch. All readers in a step see the value from before the step.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

constexpr std::string_view kExample = "s = 0.9 * s + 0.1 * batch_mean(x)";

}  // namespace

// Evaluates an assignment of a state, such as NAME = 0.9 * NAME + 0.1 * batch_mean(x).
void Evaluator::assign_state(const Ast& ast, const Stmt& stmt, Local& local, Scope& scope) {
  const Name& name = ast[stmt.names][0];
  if (local.assigned.valid()) {
    Diagnostic d = fault("XG0202", name.span, {"`{}` is assigned twice", name.text}, "again",
                         {"give the intermediate value a name of its own: a step assigns each state once"});
    report(std::move(d.also(local.assigned, "assigned here first")));
    return;
  }
  local.assigned = name.span;
  const Datum state = local.value;
  if (state.is_error()) {
    return;
  }
  ScalarExpr expr;
  MeanCalls means{.scope = &scope, .tensors = {}};
  Scope env{.parent = &scope, .file = scope.file};
  Datum old{.kind = DatumKind::kScalar, .scalar = expr.input(0)};
  old.span = name.span;
  env.locals[name.text] = {.value = std::move(old), .span = {}, .used = true};
  std::optional<ScalarId> result;
  {
    const BuildsScalars building(scalars_, &expr);
    MeanCalls* const outer = std::exchange(means_, &means);
    result = scalar_of(eval(ast, stmt.value, env), stmt.span);
    means_ = outer;
  }
  const OpDef* const update = options_.ops->find("state.update");
  if (!result) {
    return;
  }
  if (means.tensors.empty() || update == nullptr) {
    refuse("XG0230", ast[stmt.value].span, {"the assignment of `{}` reads no mean of the batch", name.text}, "",
           {"write one: {}", kExample});
    return;
  }
  for (const Datum& x : means.tensors) {
    std::vector<int64_t> dims(type_of(x).dims.begin() + 1, type_of(x).dims.end());
    dims = dims.empty() ? std::vector<int64_t>{1} : dims;
    if (dims != type_of(state).dims) {
      Diagnostic d = fault("XG0301", x.span,
                           {"`{}` is {}, but the mean here has the shape of one sample of {}", name.text,
                            to_text(type_of(state)), to_text(type_of(x))},
                           "another shape", {"take means over the other dimensions first, or declare another state"});
      report(std::move(d.also(state.span, "declared here")));
      return;
    }
  }
  expr.set_results({*result});
  const NamedValue given{"state", state.tensor};
  apply(*update, means.tensors, Attrs{{"y", to_text(expr)}}, {}, stmt.span, "update", std::span(&given, 1));
}

// Evaluates batch_mean(x). The result is an input of the assignment's expression; its value is the mean of x over the
// samples of a batch.
Datum Evaluator::mean_call(const Call& call, Scope& scope) {
  MeanCalls& means = *std::exchange(means_, nullptr);
  std::optional<std::vector<Datum>> args;
  {
    const BuildsScalars nothing(scalars_, nullptr);
    args = plain_args("batch_mean", call, call.flowing ? scope : *means.scope);
  }
  means_ = &means;
  if (!args) {
    return {};
  }
  if (args->size() != 1 || args->front().kind != DatumKind::kTensor || !type_of(args->front()).has_batch()) {
    return refuse("XG0230", call.span, "`batch_mean` takes one tensor of the batch", "", {"write one: {}", kExample});
  }
  const Datum& x = args->front();
  if (refuse_sharded(x, call.span)) {
    return {};
  }
  const auto known = std::ranges::find(means.tensors, x.tensor, &Datum::tensor);
  const auto place = static_cast<int>(known - means.tensors.begin());
  if (known == means.tensors.end()) {
    if (place + 1 >= kMostScalarInputs) {
      return refuse("XG0216", call.span, {"a state is assigned from at most {} means", kMostScalarInputs - 1},
                    "one more than possible", {"cut the block into several with a state each"});
    }
    means.tensors.push_back(x);
  }
  return make_scalar(scalars_->input(place + 1));
}

void Evaluator::check_states(const Scope& scope) {
  for (const auto& [name, local] : scope.locals) {
    if (local.is_state && !local.assigned.valid() && !local.value.is_error()) {
      refuse("XG0230", local.span, {"the state `{}` is never assigned", name}, "it would keep its initial value",
             {"assign it once: {}", kExample});
    }
  }
}

}  // namespace xrun::lang
