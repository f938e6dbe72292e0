// Evaluates pipelines: calls, `repeat`, `residual`, `fork` and `if` after an arrow.
// Tests: tests/lang/check_test.cpp, tests/lang/check_golden_test.cpp
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

constexpr int64_t kMostCopies = 4'000'000;

}  // namespace

Datum Evaluator::eval_stages(Datum value, const Ast& ast, std::span<const Stage> stages, Scope& scope) {
  for (const Stage& stage : stages) {
    if (value.is_error() || exhausted_) {
      return {};
    }
    value = eval_stage(std::move(value), ast, stage, scope);
    value.span = stage.span;
    note(stage.span, value);
  }
  return value;
}

Datum Evaluator::eval_stage(Datum value, const Ast& ast, const Stage& stage, Scope& scope) {
  if (!spend(stage.span)) {
    return {};
  }
  if (stage.kind == StageKind::kCall) {
    recorded_.skipped = {};
    return eval_stage_call(std::move(value), ast, stage, scope, stage.label);
  }
  if (stage.kind == StageKind::kError) {
    return {};
  }
  if (stage.kind == StageKind::kRepeat) {
    return eval_repeat(std::move(value), ast, stage, scope);
  }
  // `residual`, `fork` and `if` open a scope of tensor names only if they have a label.
  if (stage.label && !enter_scope({}, stage.label, stage.span)) {
    return {};
  }
  Datum result = stage.kind == StageKind::kResidual ? eval_residual(value, ast, stage, scope)
                 : stage.kind == StageKind::kFork   ? eval_fork(value, ast, stage, scope)
                                                    : eval_if_stage(value, ast, stage, scope);
  if (stage.label) {
    work_.names.leave();
  }
  return result;
}

Datum Evaluator::eval_stage_call(Datum value, const Ast& ast, const Stage& stage, Scope& scope, const Name& label) {
  const auto path = ast[stage.path];
  const Span name_span = join(path.front().span, path.back().span);
  Span span = stage.span;
  if (stage.label && !stage.has_args) {
    span = name_span;
  } else if (stage.label) {
    // The span of the call ends before ` as label`.
    const std::string_view text = sources_.text(stage.span);
    const size_t close = text.rfind(')');
    span.end = close == std::string_view::npos ? span.end : span.begin + static_cast<uint32_t>(close) + 1;
  }
  const Call call{.ast = &ast,
                  .args = ast[stage.args],
                  .flowing = std::move(value),
                  .label = label,
                  .span = span,
                  .name_span = name_span};
  return eval_call(find_callee(path, call, scope), call, scope);
}

bool Evaluator::has_room_for(int64_t copies, int64_t size, int64_t steps) const {
  return work_.size() + copies * size <= options_.max_nodes && steps_ + copies * steps <= options_.max_steps;
}

Datum Evaluator::eval_repeat(Datum value, const Ast& ast, const Stage& stage, Scope& scope) {
  const Datum count = eval(ast, stage.value, scope);
  if (count.is_error()) {
    return {};
  }
  const auto copies = whole_number(count);
  if (!copies || *copies < 0 || *copies > kMostCopies) {
    return refuse(
        "XG0304", count.span,
        {"a repeat count is a whole number of 0 to {}, not {}", format_with_underscores(kMostCopies), to_text(count)},
        "", {"write a number in these bounds"});
  }
  if (!enter_scope("repeat", stage.label, stage.span)) {
    return {};
  }
  const std::string base = work_.names.path();
  const int64_t size = work_.size();
  const int64_t steps = steps_;
  for (int64_t i = 0; i < *copies && !value.is_error(); ++i) {
    // Without an index all copies are equal, so the size of the first copy predicts the size of all.
    if (i == 1 && !stage.index && !has_room_for(*copies - 1, work_.size() - size, steps_ - steps)) {
      const auto more = static_cast<double>(*copies - 1);
      refuse_size(static_cast<double>(work_.size()) + more * static_cast<double>(work_.size() - size),
                  static_cast<double>(steps_) + more * static_cast<double>(steps_ - steps), "repeat", stage.span);
      value = {};
      break;
    }
    work_.names.enter(base + "." + std::to_string(i));
    Scope inside{.parent = &scope, .file = scope.file};
    if (stage.index) {
      inside.locals[stage.index.text] = {.value = make_whole(i), .span = stage.index.span, .used = true};
      note(stage.index.span, inside.locals[stage.index.text].value);
    }
    value = eval_stages(std::move(value), ast, ast[ast[stage.pipes][0].stages], inside);
    work_.names.leave();
  }
  work_.names.leave();
  return value;
}

Datum Evaluator::eval_residual(const Datum& value, const Ast& ast, const Stage& stage, Scope& scope) {
  if (value.kind == DatumKind::kScalar) {
    return scalar_binary(Op::kAdd, value, eval_stages(value, ast, ast[ast[stage.pipes][0].stages], scope), stage.span);
  }
  if (value.kind != DatumKind::kTensor) {
    return refuse("XG0303", stage.span, {"`residual` adds to a tensor, not to {}", kind_text(value)}, "",
                  {"let one tensor flow in: x -> residual { ... }"});
  }
  const Datum inner = eval_stages(value, ast, ast[ast[stage.pipes][0].stages], scope);
  if (inner.is_error()) {
    return {};
  }
  const OpDef* add = options_.ops->find("add");
  if (inner.kind != DatumKind::kTensor || add == nullptr) {
    return refuse("XG0303", stage.span, {"`residual` adds a tensor, not {}", kind_text(inner)}, "",
                  {"let one tensor come out of its braces"});
  }
  if (refuse_sharded(inner, stage.span)) {
    return {};
  }
  if (type_of(value).dims != type_of(inner).dims) {
    return refuse(
        "XG0301", stage.span, "a residual has to keep the shape of what flows in",
        {"{} becomes {}", to_text(type_of(value)), to_text(type_of(inner))},
        {"end the braces with a layer that gives {} again, or write the sum yourself: x + y", to_text(type_of(value))});
  }
  return apply(*add, {value, inner}, {}, {}, stage.span);
}

Datum Evaluator::eval_fork(const Datum& value, const Ast& ast, const Stage& stage, Scope& scope) {
  std::vector<Datum> items;
  for (const Pipe& pipe : ast[stage.pipes]) {
    items.push_back(eval_stages(value, ast, ast[pipe.stages], scope));
    if (items.back().is_error()) {
      return {};
    }
  }
  return make_list(DatumKind::kTuple, std::move(items), stage.span);
}

Datum Evaluator::eval_if_stage(Datum value, const Ast& ast, const Stage& stage, Scope& scope) {
  const auto pipes = ast[stage.pipes];
  const Datum decides = eval(ast, stage.value, scope);
  if (decides.kind == DatumKind::kScalar) {
    const Datum yes = eval_stages(value, ast, ast[pipes[0].stages], scope);
    const Datum no = pipes.size() < 2 ? value : eval_stages(value, ast, ast[pipes[1].stages], scope);
    return scalar_choice(decides, yes, no, stage.span);
  }
  const auto taken = truth_of(decides);
  if (!taken) {
    return {};
  }
  if (!*taken && pipes.size() < 2) {
    recorded_.skipped = {.condition = ast[stage.value].span, .pipe = pipes[0].span, .input = {}};
    return value;
  }
  return eval_stages(std::move(value), ast, ast[pipes[*taken ? 0 : 1].stages], scope);
}

}  // namespace xrun::lang
