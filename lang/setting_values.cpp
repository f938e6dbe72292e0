// Values of settings, of one kind each, with the messages for values of another kind.
#include <cmath>
#include <fmt/format.h>

#include "lang/module_builder.h"
#include "lang/nearest.h"

namespace xrun::lang {

std::optional<Datum> ModuleBuilder::value_of(const SettingNode& node, Scope& scope) {
  if (!node.has_value()) {
    ev_.refuse("XG0205", node.key_span, fmt::format("`{}` is a value, not a group", node.key), "write `= ...`");
    return std::nullopt;
  }
  const Expr& expr = (*node.ast)[node.value];
  const bool unknown = expr.kind == ExprKind::kName && scope.find(expr.name.text) == nullptr && !scope.resolve &&
                       scope.file != nullptr && !scope.file->find(expr.name.text);
  if (unknown && expr.name.text != "N") {
    const auto infos = all_settings();
    const auto info =
        std::find_if(infos.begin(), infos.end(), [&](const SettingInfo& known) { return known.key == node.key; });
    if (info != infos.end()) {
      ev_.refuse("XG0201", expr.span, fmt::format("there is no `{}` here", expr.name.text),
                 fmt::format("`{}` takes: {}", node.key, info->type));
      return std::nullopt;
    }
  }
  Datum value = ev_.eval(*node.ast, node.value, scope);
  return value.hole() ? std::nullopt : std::optional(std::move(value));
}

std::optional<int64_t> ModuleBuilder::whole(const SettingNode& node, Scope& scope, int64_t low, int64_t high) {
  const auto value = value_of(node, scope);
  if (!value) {
    return std::nullopt;
  }
  const auto number = to_int64(*value);
  if (!number && !value->whole()) {
    if (value->number() && value->dimension != Dimension::kPlain) {
      refuse_unit(node, *value);
    } else {
      ev_.refuse("XG0205", value->span,
                 fmt::format("`{}` expects a whole number, but gets {}", node.key, kind_text(*value)));
    }
    return std::nullopt;
  }
  if (!number || *number < low || *number > high) {
    ev_.refuse("XG0214", value->span, fmt::format("`{}` cannot be {}", node.key, to_text(*value)),
               high == INT64_MAX && number ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high));
    return std::nullopt;
  }
  return number;
}

std::optional<double> ModuleBuilder::real(const SettingNode& node, Scope& scope, double low, double high) {
  const auto value = value_of(node, scope);
  if (!value) {
    return std::nullopt;
  }
  if (!value->plain_number()) {
    if (value->number()) {
      refuse_unit(node, *value);
    } else {
      ev_.refuse("XG0205", value->span, fmt::format("`{}` expects a number, but gets {}", node.key, kind_text(*value)));
    }
    return std::nullopt;
  }
  const double number = value->as_double();
  if (!(number >= low && number <= high)) {
    ev_.refuse("XG0214", value->span, fmt::format("`{}` cannot be {}", node.key, to_text(*value)),
               std::isinf(high) ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high));
    return std::nullopt;
  }
  return number;
}

void ModuleBuilder::refuse_unit(const SettingNode& node, const Datum& value) {
  Diagnostic d =
      Evaluator::fault("XG0107", value.span, fmt::format("`{}` takes a plain number, not {}", node.key, to_text(value)),
                       "leave the unit out");
  const Expr& expr = (*node.ast)[node.value];
  if (expr.kind == ExprKind::kNumber) {
    d.fixes.push_back(
        {.title = "write the number alone", .edits = {{expr.span, std::string(node.ast->number(node.value).text)}}});
  }
  ev_.report(std::move(d));
}

std::optional<bool> ModuleBuilder::flag(const SettingNode& node, Scope& scope) {
  const auto value = value_of(node, scope);
  if (value && value->kind != DatumKind::kBool) {
    ev_.refuse("XG0205", value->span, fmt::format("`{}` is true or false, not {}", node.key, kind_text(*value)));
    return std::nullopt;
  }
  return value ? std::optional(value->flag) : std::nullopt;
}

std::optional<std::string> ModuleBuilder::text(const SettingNode& node, Scope& scope) {
  const auto value = value_of(node, scope);
  if (value && value->kind != DatumKind::kString) {
    ev_.refuse("XG0205", value->span, fmt::format("`{}` is a string, not {}", node.key, kind_text(*value)));
    return std::nullopt;
  }
  return value ? std::optional(value->text) : std::nullopt;
}

std::optional<TrainSpan> ModuleBuilder::train_span(const SettingNode& node, Scope& scope) {
  const auto value = value_of(node, scope);
  return value ? train_span(*value, fmt::format("`{}`", node.key), value->span) : std::nullopt;
}

std::optional<TrainSpan> ModuleBuilder::train_span(const Datum& value, std::string_view what, Span at) {
  TrainSpan span{.amount = value.as_double()};
  if (value.number() && value.dimension == Dimension::kSteps) {
    span.unit = TrainSpan::kSteps;
  } else if (value.number() && value.dimension == Dimension::kEpochs) {
    span.unit = TrainSpan::kEpochs;
  } else if (value.number() && value.dimension == Dimension::kSamples) {
    span.unit = TrainSpan::kSamples;
  } else if (value.plain_number()) {
    Diagnostic d = Evaluator::fault(
        "XG0107", at, fmt::format("{} expects a span of training, but {} has no unit", what, to_text(value)),
        "a plain number");
    d.fixes.push_back({.title = "say which one you mean",
                       .lines = {fmt::format("{} steps", to_text(value)), fmt::format("{} epochs", to_text(value))}});
    ev_.report(std::move(d));
    return std::nullopt;
  } else {
    ev_.refuse("XG0107", at, fmt::format("{} expects a span of training, but gets {}", what, kind_text(value)),
               "steps, epochs or samples");
    return std::nullopt;
  }
  if (!(span.amount > 0)) {
    ev_.refuse("XG0214", at, fmt::format("{} cannot be {}", what, to_text(value)), "more than 0");
    return std::nullopt;
  }
  return span;
}

std::optional<double> ModuleBuilder::quantity(const SettingNode& node, Scope& scope, Dimension dimension) {
  const auto value = value_of(node, scope);
  return value ? quantity(*value, node.key, value->span, dimension) : std::nullopt;
}

std::optional<Bytes> ModuleBuilder::size(const SettingNode& node, Scope& scope, Bytes low) {
  constexpr double kMost = 1e6 * 0x1p40;
  const auto value = value_of(node, scope);
  const auto bytes = value ? quantity(*value, node.key, value->span, Dimension::kSize) : std::nullopt;
  if (bytes && !(*bytes >= static_cast<double>(low) && *bytes <= kMost)) {
    ev_.refuse("XG0214", value->span, fmt::format("`{}` cannot be {}", node.key, to_text(*value)),
               *bytes > kMost ? "at most 1_000_000TiB"
               : *bytes == 0  ? "more than 0"
                              : "at least 1B");
    return std::nullopt;
  }
  return bytes ? std::optional(static_cast<Bytes>(*bytes)) : std::nullopt;
}

std::optional<double> ModuleBuilder::quantity(const Datum& value, std::string_view what, Span at, Dimension dimension) {
  if (value.number() && value.dimension == dimension) {
    if (value.as_double() < 0) {
      ev_.refuse("XG0214", at, fmt::format("`{}` cannot be {}", what, to_text(value)), "not below 0");
      return std::nullopt;
    }
    return value.as_double();
  }
  if (!value.plain_number()) {
    ev_.refuse(value.number() ? "XG0107" : "XG0205", at,
               fmt::format("`{}` expects {}, but gets {}", what, name_of(dimension), kind_text(value)));
    return std::nullopt;
  }
  Diagnostic d = Evaluator::fault(
      "XG0107", at, fmt::format("`{}` expects {}, but {} has no unit", what, name_of(dimension), to_text(value)),
      "a plain number");
  const std::string number(ev_.sources().text(at));
  const Position place = ev_.sources().position(at.file, at.begin);
  const std::string_view line = ev_.sources().line(at.file, place.line);
  const auto start =
      static_cast<size_t>(at.begin - static_cast<uint32_t>(line.data() - ev_.sources().text(at.file).data()));
  const auto with = [&](std::string_view unit, const std::string& comment) {
    std::string text(line.substr(line.find_first_not_of(' ')));
    text.insert(start + number.size() - line.find_first_not_of(' '), unit);
    return text + comment;
  };
  Fix fix{.title = "say which one you mean"};
  if (dimension == Dimension::kRate) {
    fix.lines = {with("Gbit/s", fmt::format("   # {:.2g} GB/s", value.as_double() / 8)),
                 with("GB/s", fmt::format("     # {:g} Gbit/s", value.as_double() * 8))};
  } else if (dimension == Dimension::kSize) {
    fix.lines = {with("GiB", ""), with("MiB", "")};
  } else if (dimension == Dimension::kTime) {
    fix.lines = {with("us", ""), with("ms", ""), with("s", "")};
  }
  if (!fix.lines.empty()) {
    d.fixes.push_back(std::move(fix));
  }
  ev_.report(std::move(d));
  return std::nullopt;
}

std::string ModuleBuilder::symbol(const SettingNode& node) const {
  if (!node.has_value()) {
    return {};
  }
  const Expr& expr = (*node.ast)[node.value];
  if (expr.kind == ExprKind::kName) {
    return std::string(expr.name.text);
  }
  if (expr.kind == ExprKind::kCall && (*node.ast)[expr.lhs].kind == ExprKind::kName) {
    return std::string((*node.ast)[expr.lhs].name.text);
  }
  return expr.kind == ExprKind::kNone ? "none" : expr.kind == ExprKind::kAuto ? "auto" : "";
}

bool ModuleBuilder::is_auto(const SettingNode& node) const {
  return node.has_value() && (*node.ast)[node.value].kind == ExprKind::kAuto;
}

std::optional<std::vector<BoundArg>> ModuleBuilder::arguments(const SettingNode& node, std::string_view name,
                                                              std::string_view signature, Scope& scope) {
  return arguments(*node.ast, node.value, name, signature, scope);
}

std::optional<std::vector<BoundArg>> ModuleBuilder::arguments(const Ast& ast, ExprId id, std::string_view name,
                                                              std::string_view signature, Scope& scope) {
  const Expr& expr = ast[id];
  Call call{.ast = &ast, .span = expr.span, .name_span = expr.span};
  if (expr.kind == ExprKind::kCall) {
    call.args = ast[expr.args];
    call.name_span = ast[expr.lhs].span;
  }
  Scope env;
  return ev_.bind(ev_.signatures().of(name, signature), call, scope, env);
}

bool ModuleBuilder::one_of(const SettingNode& node, std::initializer_list<std::string_view> allowed) {
  const std::string given = symbol(node);
  if (std::find(allowed.begin(), allowed.end(), given) != allowed.end()) {
    return true;
  }
  std::string list;
  std::vector<std::string> names;
  for (const std::string_view name : allowed) {
    list += (list.empty() ? "" : ", ") + std::string(name);
    names.emplace_back(name);
  }
  const Span at = node.has_value() ? (*node.ast)[node.value].span : node.key_span;
  Diagnostic d = Evaluator::fault("XG0205", at, fmt::format("`{}` is one of {}", node.key, list), "not one of them");
  if (const std::string near = nearest(given, names); !near.empty() && !given.empty()) {
    d.fixes.push_back({.title = "did you mean `" + near + "`?", .edits = {{at, near}}});
  }
  ev_.report(std::move(d));
  return false;
}

// A list of tensor paths, or one: names, chains of names or strings.
std::vector<std::string> ModuleBuilder::paths(const SettingNode& node) {
  if (!node.has_value()) {
    ev_.refuse("XG0205", node.key_span, fmt::format("`{}` is a list of paths, not a group", node.key));
    return {};
  }
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  std::vector<ExprId> items{node.value};
  if (expr.kind == ExprKind::kList || expr.kind == ExprKind::kTuple) {
    items.assign(ast[expr.items].begin(), ast[expr.items].end());
  }
  constexpr size_t kMostPaths = 1024;
  if (items.size() > kMostPaths) {
    ev_.refuse("XG0216", expr.span, fmt::format("`{}` takes at most {} paths", node.key, kMostPaths));
    return {};
  }
  std::vector<std::string> found;
  for (const ExprId item : items) {
    const std::string path = path_text(ast, item);
    if (path.empty() && ast[item].kind != ExprKind::kHole) {
      ev_.refuse("XG0205", ast[item].span, fmt::format("`{}` takes paths of tensors", node.key),
                 "such as backbone.stem or \"blocks.7\"");
      continue;
    }
    if (!names_a_part(path)) {
      ev_.refuse("XG0217", ast[item].span, fmt::format("nothing is called `{}`", path),
                 "no part of the model has this name");
    }
    found.push_back(path);
  }
  return found;
}

}  // namespace xrun::lang
