// Reads the values of settings, with a function for each kind of value, and reports values of any other kind.
// setting_quantities.cpp reads numbers with units.
// Tests: tests/lang/lower/settings_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// A number to show in the fix for a setting: from its example, else its default, else its least value.
std::string example_number(const SettingDef& def) {
  const size_t sign = def.example.find(" = ");
  const bool has_default = !def.fallback.empty() && def.fallback.find_first_not_of("0123456789.") == std::string::npos;
  return std::string(sign != std::string_view::npos ? def.example.substr(sign + 3)
                     : has_default                  ? def.fallback
                     : def.high < 1                 ? "0.5"
                                                    : "1");
}

}  // namespace

std::optional<Datum> ModuleBuilder::value_of(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (!node.has_value()) {
    ev_.refuse("XG0205", node.key_span, {"`{}` is a value, not a group", node.key}, "", {"write {} = ...", node.key});
    return std::nullopt;
  }
  const Expr& expr = (*node.ast)[node.value];
  const bool unknown = expr.kind == ExprKind::kName && scope.find(expr.name.text) == nullptr && scope.file != nullptr &&
                       !scope.file->find(expr.name.text) && !scope.file->is_missing(expr.name.text);
  if (unknown && expr.name.text != "N") {
    ev_.refuse("XG0201", expr.span, {"there is no `{}` here", expr.name.text}, "unknown name",
               {"`{}` takes {}", node.key, def.type});
    return std::nullopt;
  }
  Datum value = ev_.eval(*node.ast, node.value, scope);
  return value.is_error() ? std::nullopt : std::optional(std::move(value));
}

// The fix for a value in quotes, as in `batch = "40"`: numbers, words and truth values have no quotes.
Fix ModuleBuilder::without_quotes(const SettingNode& node, const SettingDef& def, Help otherwise) {
  const Expr& expr = (*node.ast)[node.value];
  if (expr.kind != ExprKind::kString) {
    return std::move(otherwise.fix);
  }
  const std::string& text = node.ast->text(node.value);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && std::isfinite(number) && text[0] != '.';
  const bool has_unit = is_number && end < text.data() + text.size() && (*end == '%' || *end == ' ');
  const bool is_word = text == "true" || text == "false" || (text == def.fallback && !text.empty());
  const bool is_plain = std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("._%+- ").find(c) != std::string_view::npos;
  });
  return is_plain && (is_word || has_unit || (is_number && end == text.data() + text.size()))
             ? replacement("leave the quotes out", expr.span, text, true)
             : std::move(otherwise.fix);
}

std::optional<int64_t> ModuleBuilder::whole(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto value = value_of(node, scope, def);
  if (!value) {
    return std::nullopt;
  }
  const auto low = static_cast<int64_t>(def.low);
  const int64_t high = def.high < 0x1p63 ? static_cast<int64_t>(def.high) : INT64_MAX;
  const auto number = whole_number(*value);
  if (!number && !value->whole()) {
    if (value->number() && value->dimension != Dimension::kPlain) {
      refuse_unit(node, *value);
    } else {
      ev_.refuse("XG0205", value->span, {"`{}` expects a whole number, but gets {}", node.key, kind_text(*value)}, "",
                 without_quotes(node, def, {"write a whole number: {} = {}", node.key, example_number(def)}));
    }
    return std::nullopt;
  }
  if (!number || *number < low || *number > high) {
    return ev_.refuse("XG0214", value->span, {"`{}` cannot be {}", node.key, to_text(*value)}, "",
                      {high == INT64_MAX && number ? fmt::format("write a number of {} or more", low)
                                                   : fmt::format("write a number of {} to {}", low, high)});
  }
  return number;
}

std::optional<double> ModuleBuilder::real(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto value = value_of(node, scope, def);
  if (!value) {
    return std::nullopt;
  }
  if (!value->plain_number()) {
    if (value->number()) {
      refuse_unit(node, *value);
    } else {
      ev_.refuse("XG0205", value->span, {"`{}` expects a number, but gets {}", node.key, kind_text(*value)}, "",
                 without_quotes(node, def, {"write a number: {} = {}", node.key, example_number(def)}));
    }
    return std::nullopt;
  }
  const double number = value->as_double();
  if (!(number >= def.low && number <= def.high)) {
    return ev_.refuse("XG0214", value->span, {"`{}` cannot be {}", node.key, to_text(*value)}, "",
                      {std::isinf(def.high) ? fmt::format("write a number of {} or more", def.low)
                                            : fmt::format("write a number of {} to {}", def.low, def.high)});
  }
  return number;
}

void ModuleBuilder::refuse_unit(const SettingNode& node, const Datum& value) {
  const Expr& expr = (*node.ast)[node.value];
  // In `epochs = 300 steps` the unit belongs to the other of the two settings for the length of a run.
  const bool is_number = expr.kind == ExprKind::kNumber;
  const std::string_view unit = is_number ? info_of(node.ast->number(node.value).unit).text : std::string_view();
  if ((node.key == "epochs" && unit == "steps") || (node.key == "steps" && unit == "epochs")) {
    Fix fix = replacement({"write {}", unit}, node.key_span, {"{:<{}}", unit, node.key.size()}, true);
    fix.title = fmt::format("write the length of the run as {}", unit);
    fix.edits.push_back({expr.span, std::string(node.ast->number(node.value).text)});
    ev_.refuse("XG0107", value.span, {"`{}` takes a plain number, not {}", node.key, to_text(value)}, "",
               std::move(fix));
    return;
  }
  ev_.refuse("XG0107", value.span, {"`{}` takes a plain number, not {}", node.key, to_text(value)}, "",
             is_number ? replacement("leave the unit out", expr.span, std::string(node.ast->number(node.value).text),
                                     node.key == unit || (node.key == "batch" && unit == "samples"))
                       : Fix{"leave the unit out"});
}

// Reports a path that names no part of the model.
void ModuleBuilder::refuse_path(Span at, const std::string& path) {
  constexpr size_t kFewNodes = 1000;  // among more names, some name is similar by chance
  constexpr int kFewErrors = 20;
  std::set<std::string> parts;
  const auto& nodes = ev_.graph().nodes;
  if (nodes.size() <= kFewNodes && ev_.diagnostics().error_count() < kFewErrors) {
    for (const Node& node : nodes) {
      parts.insert(node.path);
      // The blocks that contain the node are also parts of the model: "layer1" of "layer1.conv".
      for (size_t dot = node.path.find('.'); dot != std::string::npos; dot = node.path.find('.', dot + 1)) {
        parts.insert(node.path.substr(0, dot));
      }
    }
  }
  const std::string near = nearest(path, {parts.begin(), parts.end()});
  ev_.refuse("XG0217", at, {"nothing is called `{}`", path}, "no part of the model has this name",
             {near.empty() ? "leave it out, or name a part: `xrun show FILE --table layers` lists them"
                           : fmt::format("did you mean `{}`?", near)});
}

std::optional<bool> ModuleBuilder::flag(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto value = value_of(node, scope, def);
  if (value && value->kind != DatumKind::kBool) {
    return ev_.refuse("XG0205", value->span, {"`{}` is true or false, not {}", node.key, kind_text(*value)}, "",
                      without_quotes(node, def, {"write {} = true, or {} = false", node.key, node.key}));
  }
  return value ? std::optional(value->flag) : std::nullopt;
}

std::optional<std::string> ModuleBuilder::text(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto value = value_of(node, scope, def);
  if (value && value->kind != DatumKind::kString) {
    return ev_.refuse("XG0205", value->span, {"`{}` is a string, not {}", node.key, kind_text(*value)}, "",
                      replacement("put it in double quotes", value->span, {"\"{}\"", ev_.sources().text(value->span)}));
  }
  return value ? std::optional(value->text) : std::nullopt;
}

std::optional<std::vector<BoundArg>> ModuleBuilder::arguments(const SettingNode& node, const SettingChoice& choice,
                                                              Scope& scope) {
  return arguments(*node.ast, node.value, choice.word, choice.signature, scope);
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

std::optional<std::vector<BoundArg>> ModuleBuilder::arguments(const SettingNode& node, const SettingChoice& choice,
                                                              std::span<const Arg> args, std::string_view read_apart,
                                                              Scope& scope) {
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  const Span name_span = expr.kind == ExprKind::kCall ? ast[expr.lhs].span : expr.span;
  Scope env;
  return ev_.bind(ev_.signatures().of(choice.word, choice.signature),
                  {.ast = &ast, .args = args, .span = expr.span, .name_span = name_span, .read_apart = read_apart},
                  scope, env);
}

std::vector<std::string> ModuleBuilder::paths(const SettingNode& node) {
  if (!node.has_value()) {
    ev_.refuse("XG0205", node.key_span, {"`{}` is a list of paths, not a group", node.key}, "",
               {"write {} = [backbone.stem, \"blocks.7\"]", node.key});
    return {};
  }
  return paths(*node.ast, node.value, node.key);
}

// Reads one path of tensors or a list of paths, which may be names, chains of fields, or strings.
std::vector<std::string> ModuleBuilder::paths(const Ast& ast, ExprId value, std::string_view key) {
  const Expr& expr = ast[value];
  std::vector<ExprId> items{value};
  if (expr.kind == ExprKind::kList || expr.kind == ExprKind::kTuple) {
    items.assign(ast[expr.items].begin(), ast[expr.items].end());
  }
  constexpr size_t kMostPaths = 1024;
  if (items.size() > kMostPaths) {
    ev_.refuse("XG0216", expr.span, {"`{}` takes at most {} paths", key, kMostPaths}, "",
               {"name what the parts have in common: `blocks` stands for all of its tensors"});
    return {};
  }
  std::vector<std::string> found;
  for (const ExprId item : items) {
    const std::string path = path_text(ast, item);
    if (path.empty() && ast[item].kind != ExprKind::kError) {
      ev_.refuse("XG0205", ast[item].span, {"`{}` takes paths of tensors", key}, "not a path",
                 {"write one, such as backbone.stem or \"blocks.7\""});
      continue;
    }
    if (!names_a_part(path)) {
      refuse_path(ast[item].span, path);
    }
    found.push_back(path);
  }
  return found;
}

}  // namespace xrun::lang
