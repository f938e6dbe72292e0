// Lowers `lr`: a number, a curve, or a list of curves that follow each other and fill the run.
// Tests: tests/lang/check_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "lang/lower/curves.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

constexpr CurveKind kCurves[] = {
    {"warmup", "(rate: rates, span: span)", "in a straight line from a to b",
     "[warmup(0 .. 0.1, 2 epochs), cosine(0.1 .. 0)]"},
    {"constant", "(rate: float, span: span = none)", "one rate", "constant(0.1)"},
    {"cosine", "(rate: rates, span: span = none)", "from a to b along half a cosine, slow at both ends",
     "cosine(0.1 .. 0)"},
    {"poly", "(rate: rates, span: span = none, power: float = 1)", "b + (a - b) · (1 - t)^power for t from 0 to 1",
     "poly(0.1 .. 0, power=2)"},
    {"steps", "(rate: float, at: spans, by: float = 0.1)",
     "the rate, multiplied by `by` at each time of `at`, counted from the start of the run",
     "steps(0.1, at=[5 epochs, 8 epochs])"},
    {"fccs", "(rate: float, end: float = 0)",
     "with `batch = grow(...)`: from 0 to `rate` before the batch grows, constant while it grows, then along half a "
     "cosine to `end`",
     "fccs(0.1)"},
};

bool is_fccs(const Ast& ast, ExprId id) {
  const Expr& expr = ast[id];
  return expr.kind == ExprKind::kCall && ast[expr.lhs].kind == ExprKind::kName && ast[expr.lhs].name.text == "fccs";
}

// Reads a rate that is a number and not a curve. Returns nullopt after reporting another value.
std::optional<CurveSpec> constant_rate(Evaluator& evaluator, const Ast& ast, ExprId id, Scope& scope) {
  const Expr& expr = ast[id];
  const Datum value = evaluator.eval(ast, id, scope);
  if (value.is_error()) {
    return std::nullopt;
  }
  if (!value.plain_number() || !(value.as_double() >= 0)) {
    const bool is_quoted = expr.kind == ExprKind::kString && !value.text.empty() &&
                           value.text.find_first_not_of("0123456789.e-") == std::string::npos;
    const Span quoted_number = is_quoted ? expr.span : Span();
    return evaluator.refuse("XG0205", value.span, {"a rate is a number of 0 or more, not {}", to_text(value)}, "",
                            quoted_number.valid()
                                ? Help(replacement("leave the quotes out", quoted_number, value.text, true))
                                : Help("write such a number, or a curve: warmup, constant, cosine, poly, steps"));
  }
  CurveSpec spec{.source = expr.span};
  spec.kind = "constant";
  spec.from = spec.to = value.as_double();
  return spec;
}

}  // namespace

std::span<const CurveKind> curve_kinds() { return kCurves; }

const CurveKind& curve_kind(std::string_view name) { return *std::ranges::find(kCurves, name, &CurveKind::name); }

void ModuleBuilder::lower_rate(const SettingNode& node, Scope& scope, const SettingDef&) {
  if (!node.has_value()) {
    ev_.refuse("XG0205", node.key_span, "`lr` is a number, a curve or a list of curves", "a group",
               {"write lr = 0.1, lr = cosine(0.1 .. 0) or lr = [warmup(0 .. 0.1, 2 epochs), cosine(0.1 .. 0)]"});
    return;
  }
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  if (is_fccs(ast, node.value)) {
    lower_fccs(ast, node.value, scope);
    return;
  }
  std::vector<ExprId> pieces{node.value};
  if (expr.kind == ExprKind::kList) {
    pieces.assign(ast[expr.items].begin(), ast[expr.items].end());
  }
  for (const ExprId piece : pieces) {
    if (auto made = curve(ast, piece, scope)) {
      module_.train.lr.push_back(std::move(*made));
    }
  }
  if (pieces.empty()) {
    ev_.refuse("XG0506", expr.span, "`lr` is an empty list", "no curve",
               replacement("write at least one", expr.span, "[cosine(0.1 .. 0)]"));
  } else if (module_.train.lr.size() == pieces.size()) {
    check_spans(node);
  }
}

// Reports a call with an unknown name, and the name of a curve without its arguments.
bool ModuleBuilder::refuse_unknown_curve(const Expr& called, bool is_call, Scope& scope) {
  if (called.kind != ExprKind::kName) {
    return false;
  }
  const std::string_view name = called.name.text;
  const std::vector<std::string> kinds = names_of(kCurves, &CurveKind::name);
  const auto own = std::ranges::find(kCurves, name, &CurveKind::name);
  const bool is_own = own != std::end(kCurves);
  const bool is_defined = scope.file->find(name) || scope.file->is_missing(name) || scope.find(name) != nullptr ||
                          is_constant_function(name);
  if (is_defined || !(is_call || is_own || !foreign_name(NameKind::kCurve, name).empty())) {
    return false;
  }
  const std::string list = listed(kinds, [](const std::string& kind) { return fmt::format("`{}`", kind); });
  Fix fix = is_own ? replacement("give it its rates in brackets", called.span, std::string(own->example))
                   : our_name(NameKind::kCurve, name, kinds, called.span,
                              {"take one of {}, as in {}", list, kCurves[2].example});
  ev_.refuse(is_own ? "XG0204" : "XG0201", called.span,
             is_own ? fmt::format("the curve `{}` needs its rates", name) : fmt::format("there is no curve `{}`", name),
             is_own ? "no rates" : "unknown curve", std::move(fix));
  return true;
}

std::optional<CurveSpec> ModuleBuilder::curve(const Ast& ast, ExprId id, Scope& scope) {
  const Expr& expr = ast[id];
  if (is_fccs(ast, id)) {
    return ev_.refuse("XG0506", expr.span, "`fccs` is the rate of a whole run, not a part of a list", "in a list",
                      {"write it alone: lr = fccs(0.1)"});
  }
  const bool is_call = expr.kind == ExprKind::kCall && ast[expr.lhs].kind == ExprKind::kName;
  const std::string_view name = is_call ? ast[expr.lhs].name.text : std::string_view();
  const auto known =
      std::find_if(std::begin(kCurves), std::end(kCurves), [&](const CurveKind& kind) { return kind.name == name; });
  if (known == std::end(kCurves)) {
    const bool is_refused = refuse_unknown_curve(is_call ? ast[expr.lhs] : expr, is_call, scope);
    return is_refused ? std::nullopt : constant_rate(ev_, ast, id, scope);
  }
  const auto bound = arguments(ast, id, known->name, known->signature, scope);
  if (!bound) {
    return std::nullopt;
  }
  CurveSpec spec{.source = expr.span};
  spec.kind = std::string(name);
  for (const BoundArg& arg : *bound) {
    if (!read_curve_argument(arg, name, spec)) {
      return std::nullopt;
    }
  }
  if (!(spec.from >= 0) || !(spec.to >= 0) || !(spec.power >= 0) || !(spec.by >= 0) ||
      !std::isfinite(spec.from + spec.to + spec.by)) {
    return ev_.refuse("XG0214", expr.span, "rates, powers and factors must be 0 or more", "",
                      {"write numbers without `-`, and not too large"});
  }
  return spec;
}

// Stores an argument of the curve `name` in `spec`. Returns false after reporting a fault.
bool ModuleBuilder::read_curve_argument(const BoundArg& arg, std::string_view name, CurveSpec& spec) {
  const std::string_view param = arg.param->name.text;
  const Datum& value = arg.value();
  const std::string what = fmt::format("`{}` of `{}`", param, name);
  if (param == "rate" && arg.param->type.name.text == "rates") {
    if (value.kind != DatumKind::kRange) {
      ev_.refuse(
          "XG0205", arg.span, {"{} goes from rate to rate: a .. b", what}, {"this is {}", kind_text(value)},
          {"write both rates with two dots between: {}({} .. 0)", name, value.plain_number() ? to_text(value) : "0.1"});
      return false;
    }
    spec.from = (*value.items)[0].as_double();
    spec.to = (*value.items)[1].as_double();
  } else if (param == "rate") {
    spec.from = spec.to = value.as_double();
  } else if (param == "span" && value.kind != DatumKind::kNone) {
    spec.span = train_span(value, what, value.span.valid() ? value.span : arg.span);
    return spec.span.has_value();
  } else if (param == "power") {
    spec.power = value.as_double();
  } else if (param == "by") {
    spec.by = value.as_double();
  } else if (param == "at") {
    return read_times(arg, what, spec);
  }
  return true;
}

// Stores the times of a `steps` curve in `spec`. Returns false after reporting a fault.
bool ModuleBuilder::read_times(const BoundArg& arg, const std::string& what, CurveSpec& spec) {
  const Datum& value = arg.value();
  if (value.items->empty()) {
    ev_.refuse("XG0506", arg.span, "`at` of `steps` is an empty list", "no time",
               {"say when the rate changes, at=[5 epochs], or write constant(RATE)"});
    return false;
  }
  for (const Datum& item : *value.items) {
    const auto at = train_span(item, what, item.span);
    if (!at) {
      return false;
    }
    if (!spec.at.empty() && spec.at.back().unit == at->unit && !(at->amount > spec.at.back().amount)) {
      ev_.refuse("XG0506", item.span, {"the times of `steps` must increase, and {} does not", to_text(*at)},
                 "not after the time before it", {"write them in ascending order, each once"});
      return false;
    }
    if (!is_reached(*at, item.span)) {
      return false;
    }
    spec.at.push_back(*at);
  }
  return true;
}

// Whether a run reaches the time `at`, as far as this is known before the data is opened: units can differ (check_curve
// in runtime/train/clock/rate.h checks the rest). If not, it is reported. REQUIRES: the curves before this one are
// lowered.
bool ModuleBuilder::is_reached(const TrainSpan& at, Span place) {
  const TrainSpan& run = module_.train.duration;
  if (at.unit == run.unit && run.amount > 0 && at.amount >= run.amount) {
    ev_.refuse("XG0506", place, {"{} is not before the end of a run of {}", to_text(at), to_text(run)}, "never reached",
               {"leave it out, or make the run longer"});
    return false;
  }
  TrainSpan begin{.amount = 0, .unit = at.unit};  // a lower bound: curves in other units would add to it
  for (const CurveSpec& before : module_.train.lr) {
    begin.amount += before.span && before.span->unit == at.unit ? before.span->amount : 0;
  }
  // The text of a checkpoint may be from a version that counted `at` from the start of the curve.
  if (begin.amount == 0 || at.amount > begin.amount || ev_.options().is_stored) {
    return true;
  }
  const std::string counted = to_text({.amount = begin.amount + at.amount, .unit = at.unit});
  ev_.refuse(
      "XG0506", place,
      {"{} is not after the start of `steps`, which is {} after the start of the run", to_text(at), to_text(begin)},
      "never reached",
      replacement({"`at` is counted from the start of the run, not from the start of the curve: write {}", counted},
                  place, counted));
  return false;
}

// Checks that the lengths of the curves add up to the length of the run, if all are in one unit.
void ModuleBuilder::check_spans(const SettingNode& node) {
  const auto& pieces = module_.train.lr;
  const TrainSpan& run = module_.train.duration;
  double sum = 0;
  bool comparable = run.amount > 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].span) {
      if (i + 1 < pieces.size()) {
        ev_.refuse("XG0506", pieces[i].source, "only the last curve of a list may fill the rest of the run",
                   "it has no span", {"say how long it lasts: cosine(0.1 .. 0, 5 epochs)"});
        return;
      }
      if (i > 0 && comparable && std::fabs(sum - run.amount) <= 1e-9 * run.amount) {
        ev_.refuse("XG0506", pieces[i].source, {"the curves before it cover all of the run of {}", to_text(run)},
                   "nothing is left for it", {"make their spans shorter, or leave it out"});
        return;
      }
      comparable = comparable && sum > run.amount;  // too long even without the last curve
      break;
    }
    comparable = comparable && pieces[i].span->unit == run.unit;
    sum += pieces[i].span->amount;
  }
  if (!comparable || std::fabs(sum - run.amount) <= 1e-9 * run.amount) {
    return;
  }
  const double gap = run.amount - sum;
  TrainSpan covered = run;
  covered.amount = sum;
  TrainSpan rest = run;
  rest.amount = std::fabs(gap);
  ev_.refuse("XG0506", (*node.ast)[node.value].span,
             {"the curves cover {} of a run of {}", to_text(covered), to_text(run)},
             {"{} {}", to_text(rest), gap > 0 ? "are missing" : "too many"},
             {gap <= 0 ? "make the spans shorter, or the run longer"
              : pieces.back().kind == "warmup"
                  ? "add a curve for the rest: lr = [warmup(0 .. 0.1, 2 epochs), cosine(0.1 .. 0)]"
                  : "leave the span of the last curve out: it then fills the rest of the run"});
}

}  // namespace xrun::lang
