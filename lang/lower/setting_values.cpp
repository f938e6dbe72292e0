// Reads the values of settings, with a function for each kind of value, and reports values of any other kind.
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

std::string_view example_of(Dimension dimension) {
  return dimension == Dimension::kSize   ? "16GiB"
         : dimension == Dimension::kRate ? "25Gbit/s"
         : dimension == Dimension::kTime ? "20us"
                                         : "a number with its unit";
}

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

std::optional<TrainSpan> ModuleBuilder::train_span(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto value = value_of(node, scope, def);
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
    const std::string_view one = value.as_double() == 1 ? "" : "s";
    std::vector<UnitChoice> units{{fmt::format(" epoch{}", one), ""}};
    if (whole_number(value)) {
      units.insert(units.begin(), {fmt::format(" step{}", one), ""});
    }
    refuse_bare(at, fmt::format("{} expects a span of training, but {} has no unit", what, to_text(value)), units,
                "put its unit where the number is written, as in 500 steps");
    return std::nullopt;
  } else {
    return ev_.refuse("XG0107", at, {"{} expects a span of training, but gets {}", what, kind_text(value)}, "",
                      {"write a number of steps, epochs or samples: 500 steps"});
  }
  if (!(span.amount > 0)) {
    return ev_.refuse("XG0214", at, {"{} cannot be {}", what, to_text(value)}, "", {"write more than 0"});
  }
  if (const double near = std::round(span.amount); std::fabs(span.amount - near) <= 1e-9 * span.amount) {
    span.amount = near;  // 7% * 100 steps is not exactly 7
  }
  if (span.unit != TrainSpan::kEpochs && !to_int64(span.amount)) {
    return ev_.refuse("XG0214", at, {"{} cannot be {}", what, to_text(value)}, "not a whole number",
                      {"write a whole number of them, or a part of an epoch: 0.5 epochs"});
  }
  return span;
}

std::optional<double> ModuleBuilder::quantity(const SettingNode& node, Scope& scope, const SettingDef& def,
                                              Dimension dimension) {
  const auto value = value_of(node, scope, def);
  const auto number = value ? quantity(*value, node.key, value->span, dimension) : std::nullopt;
  if (number && *number < def.low) {
    return ev_.refuse("XG0214", value->span, {"`{}` cannot be {}", node.key, to_text(*value)}, "",
                      {"write {}, such as {}", name_of(dimension), example_of(dimension)});
  }
  return number;
}

std::optional<Bytes> ModuleBuilder::size(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto value = value_of(node, scope, def);
  const auto bytes = value ? quantity(*value, node.key, value->span, Dimension::kSize) : std::nullopt;
  if (bytes && !(*bytes >= def.low && *bytes <= def.high)) {
    return ev_.refuse("XG0214", value->span, {"`{}` cannot be {}", node.key, to_text(*value)}, "",
                      {*bytes > def.high ? "write at most 1_000_000TiB" : "write 1B or more"});
  }
  return bytes ? std::optional(static_cast<Bytes>(*bytes)) : std::nullopt;
}

std::optional<double> ModuleBuilder::quantity(const Datum& value, std::string_view what, Span at, Dimension dimension) {
  if (value.number() && value.dimension == dimension) {
    if (value.as_double() < 0) {
      return ev_.refuse("XG0214", at, {"`{}` cannot be {}", what, to_text(value)}, "", {"leave the `-` out"});
    }
    return value.as_double();
  }
  if (!value.plain_number()) {
    return ev_.refuse(value.number() ? "XG0107" : "XG0205", at,
                      {"`{}` expects {}, but gets {}", what, name_of(dimension), kind_text(value)}, "",
                      {"write {}, such as {}", name_of(dimension), example_of(dimension)});
  }
  std::vector<UnitChoice> units;
  if (dimension == Dimension::kRate) {
    units = {{"Gbit/s", fmt::format("   # {:.2g} GB/s", value.as_double() / 8)},
             {"GB/s", fmt::format("     # {:g} Gbit/s", value.as_double() * 8)}};
  } else if (dimension == Dimension::kSize) {
    units = {{"GiB", ""}, {"MiB", ""}};
  } else if (dimension == Dimension::kTime) {
    units = {{"us", ""}, {"ms", ""}, {"s", ""}};
  }
  refuse_bare(at, fmt::format("`{}` expects {}, but {} has no unit", what, name_of(dimension), to_text(value)), units,
              fmt::format("put its unit where the number is written, as in {}", example_of(dimension)));
  return std::nullopt;
}

// Reports a number without a unit. For a literal there is one fix for each possible unit.
void ModuleBuilder::refuse_bare(Span at, std::string message, const std::vector<UnitChoice>& units,
                                std::string otherwise) {
  const std::string_view number = ev_.sources().text(at);
  const bool literal = number.find_first_not_of("0123456789._") == std::string_view::npos;
  std::vector<Fix> fixes;
  if (literal && !number.empty()) {
    const int line = ev_.sources().position(at.file, at.begin).line;
    const std::string_view text = ev_.sources().line(at.file, line);
    const auto begin = static_cast<uint32_t>(text.data() - ev_.sources().text(at.file).data());
    const uint32_t end = begin + static_cast<uint32_t>(text.size());
    for (const UnitChoice& unit : units) {
      // Two edits at one place would have no order, so a number at the end of its line gets one edit with both texts.
      const bool at_end = at.end == end;
      fixes.push_back(
          replacement("say which one you mean", {at.file, at.end, at.end}, unit.text + (at_end ? unit.comment : "")));
      if (!unit.comment.empty() && !at_end) {
        fixes.back().edits.push_back({{at.file, end, end}, unit.comment});
      }
    }
  }
  if (fixes.empty()) {
    fixes.push_back({std::move(otherwise)});
  }
  Diagnostic d = fault("XG0107", at, std::move(message), "a plain number", fixes[0]);
  d.fixes = std::move(fixes);
  ev_.report(std::move(d));
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
