// Lowers `data`: sources with their readers, and the bindings that make inputs from their fields.
// Tests: tests/lang/check_golden_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "graph/settings/pair_fields.h"
#include "lang/lower/fields.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The field that a name from another tool usually means.
std::string usual_field(std::string_view word, const std::vector<std::string>& fields) {
  constexpr std::pair<std::string_view, std::string_view> kUsual[] = {
      {"class", "label"}, {"target", "label"}, {"y", "label"},      {"labels", "label"}, {"category", "label"},
      {"image", "file"},  {"img", "file"},     {"picture", "file"}, {"path", "file"},    {"image", "pixels"},
      {"x", "pixels"},    {"data", "pixels"},  {"filename", "name"}};
  for (const auto& [foreign, ours] : kUsual) {
    if (word == foreign && std::ranges::find(fields, ours) != fields.end()) {
      return std::string(ours);
    }
  }
  return {};
}

// The names of the readers or stages that this edition has: "`idx`, `csv`".
template <class Def>
std::string ready(const std::vector<const Def*>& all) {
  return listed(all, [](const Def* def) {
    return def->availability == Availability::kReady ? fmt::format("`{}`", def->name) : "";
  });
}

// Returns the expression with which a pipeline begins; the expression itself if it is not a pipeline.
const Expr& first_of_pipe(const Ast& ast, ExprId id) {
  return ast[id].kind == ExprKind::kPipe ? ast[ast[id].lhs] : ast[id];
}

// Returns the fix for a binding whose first part `first` names a field that is not among the fields of a source.
Fix another_field(const std::vector<Field>& fields, const std::string& name, const Expr& first) {
  if (first.kind != ExprKind::kName) {
    return Fix{"begin with one of its fields: FIELD -> ..."};
  }
  const std::vector<std::string> known = names_of(fields, &Field::name);
  if (known.size() == 1 && known[0] == kRowField) {
    return Fix{"take columns of the row: columns(a..b), or column(i)"};
  }
  const auto usual = usual_field(name, known);
  return usual.empty() ? did_you_mean(name, known, first.span, {"begin with one of its fields"})
                       : replacement({"`{}` is `{}` here", name, usual}, first.span, usual, true);
}

}  // namespace

void ModuleBuilder::lower_data(const DeclRef& decl) {
  Settings settings = settings_of(decl, DeclKind::kData);
  Scope scope = constants(decl);
  module_.data.name = decl ? std::string(decl.decl->name.text) : "";
  module_.data.span = settings.root.span;
  module_.has_data = true;
  data_is_partial_ = data_is_partial_ || settings.has_error;
  for (const SettingNode& node : settings.sources) {
    Scope own = scope_of(node, scope);
    if (!lower_source(node, own)) {
      broken_sources_.insert(node.key);
    }
  }
  if (settings.sources.empty() && !settings.has_error) {
    ev_.refuse("XG0501", settings.root.key_span, "`data` has no source", "",
               {"add the source to train on: source train = folder(\"pictures\")"});
  }
  const bool learns = choice_.train || has_flags(DeclKind::kTrain);
  const auto& named = settings.sources;
  if (learns && !named.empty() && !settings.has_error &&
      std::none_of(named.begin(), named.end(), [](const SettingNode& node) { return node.key == "train"; })) {
    const bool is_meant = named.size() == 1 || nearest(named[0].key, {"train"}) == "train";
    ev_.refuse("XG0501", named[0].key_span, "`data` has no source `train`",
               "the source to train on must be called `train`",
               is_meant ? replacement("rename it to `train`", named[0].key_span, "train")
                        : Fix{"rename one of the sources to `train`, or add one: source train = ..."});
  }
  lower_settings(settings.root, DeclKind::kData, {}, scope);
  for (const Source& source : sources_) {
    module_.data.sources.push_back(source.spec);
  }
}

// Reports a source whose value is not a call of a known reader.
void ModuleBuilder::refuse_reader(const SettingNode& node) {
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  const std::string name = word(node);
  const ReaderDef* known = registry_.find_reader(name);
  const Span at = expr.kind == ExprKind::kCall ? ast[expr.lhs].span : expr.span;
  ev_.refuse("XG0201", at,
             name.empty() || known != nullptr ? "a source is a call of a reader"
                                              : fmt::format("there is no reader `{}`", name),
             known != nullptr ? "not called" : "unknown reader",
             known != nullptr
                 ? Fix{fmt::format("give it its arguments: {}", known->example)}
                 : our_name(NameKind::kReader, name, names_of(registry_.readers, &ReaderDef::name), at,
                            {"write one of {}: source train = folder(\"pictures\")", ready(registry_.readers)}));
}

// Lowers a source and returns whether its fields are known.
bool ModuleBuilder::lower_source(const SettingNode& node, Scope& scope) {
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  if (expr.kind == ExprKind::kError) {
    return false;
  }
  const std::string name = word(node);
  const ReaderDef* reader = expr.kind == ExprKind::kCall ? registry_.find_reader(name) : nullptr;
  if (reader == nullptr) {
    refuse_reader(node);
    return false;
  }
  const Signature& signature = ev_.signatures().of(reader->name, reader->signature);
  const auto bound = arguments(ast, node.value, reader->name, reader->signature, scope);
  const auto attrs = bound ? ev_.attributes(signature, *bound) : std::nullopt;
  if (!attrs) {
    return false;
  }
  if (reader->availability == Availability::kNotYet) {
    ev_.not_yet(ast[expr.lhs].span, {"the reader `{}`", reader->name},
                {"bring the data into a form that this edition reads: {}", ready(registry_.readers)});
  }
  auto fields = reader->fields(*attrs);
  if (!fields.ok()) {
    ev_.refuse(fields.error().code.c_str(), expr.span, fields.error().message, "", {fields.error().help});
    return false;
  }
  sources_.push_back({.spec = {.name = node.key,
                               .reader = {std::string(reader->name), *attrs, expr.span},
                               .directory = directory_of(node),
                               .span = node.span},
                      .fields = std::move(*fields),
                      .bound = {}});
  return true;
}

// Lowers a stage of a binding, `name(args)`, and sets `def` to the stage's record.
std::optional<CallSpec> ModuleBuilder::data_stage(const Ast& ast, const Name& name, std::span<const Arg> args,
                                                  Span span, Scope& scope, const AugmentDef** def) {
  *def = registry_.find_augment(name.text);
  if (*def == nullptr) {
    return ev_.refuse("XG0201", name.span, {"there is no data stage `{}`", name.text}, "unknown stage",
                      our_name(NameKind::kStage, name.text, names_of(registry_.augments, &AugmentDef::name), name.span,
                               {"leave it out, or write one of {}", ready(registry_.augments)}));
  }
  const Signature& signature = ev_.signatures().of((*def)->name, (*def)->signature, (*def)->variadic);
  Scope env;
  const auto bound = ev_.bind(signature, {.ast = &ast, .args = args, .span = span, .name_span = name.span}, scope, env);
  const auto attrs = bound ? ev_.attributes(signature, *bound) : std::nullopt;
  if (!attrs) {
    return std::nullopt;
  }
  if ((*def)->availability == Availability::kNotYet) {
    ev_.not_yet(name.span, {"the data stage `{}`", (*def)->name},
                {"leave it out, or take one of {}", ready(registry_.augments)});
  }
  return CallSpec{std::string(name.text), *attrs, span};
}

void ModuleBuilder::lower_binding(const SettingNode& node, Scope& scope, const SettingDef&) {
  if (!node.has_value()) {
    unknown_setting(node, DeclKind::kData, {});
    return;
  }
  DataBinding binding{.target = node.key, .field = std::string(kRowField), .stages = {}, .span = node.span};
  std::vector<const AugmentDef*> defs;
  bool good = read_binding(node, scope, binding, defs);
  targets_[node.key] = node.key_span;
  for (Source& source : sources_) {
    // If one field of the binding is unknown, code that uses the binding reports nothing.
    good = good && bind_field(source, binding, defs, first_of_pipe(*node.ast, node.value));
  }
  if (good) {
    module_.data.bindings.push_back(std::move(binding));
  }
}

// Reads the field and the stages of a binding. `defs` gets the definition of each stage.
bool ModuleBuilder::read_binding(const SettingNode& node, Scope& scope, DataBinding& binding,
                                 std::vector<const AugmentDef*>& defs) {
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  const Expr& first = first_of_pipe(ast, node.value);
  const auto add_stage = [&](const Name& name, std::span<const Arg> args, Span span) {
    const AugmentDef* def = nullptr;
    auto stage = data_stage(ast, name, args, span, scope, &def);
    if (stage) {
      binding.stages.push_back(std::move(*stage));
      defs.push_back(def);
    }
    return stage.has_value();
  };
  bool good = true;
  if (first.kind == ExprKind::kName) {
    binding.field = std::string(first.name.text);
  } else if (first.kind == ExprKind::kCall && ast[first.lhs].kind == ExprKind::kName) {
    good = add_stage(ast[first.lhs].name, ast[first.args], first.span);
  } else if (first.kind != ExprKind::kError) {
    ev_.refuse("XG0422", first.span, "a binding starts with a field of the source, or with a stage", "not a field",
               {"begin with one: x = pixels -> scale(1 / 255), x = columns(0..64)"});
    good = false;
  } else {
    good = false;
  }
  if (expr.kind != ExprKind::kPipe) {
    return good;
  }
  for (const Stage& stage : ast[expr.stages]) {
    if (stage.label) {
      ev_.refuse("XG0422", stage.label.span, "a stage of `data` cannot have a name", "no tensor takes this name",
                 {"leave `as` and the name out"});
      good = false;
    }
    if (stage.kind != StageKind::kCall || ast[stage.path].size() != 1) {
      if (stage.kind != StageKind::kError) {
        ev_.refuse("XG0422", stage.span, "data stages follow one another: no `repeat`, `residual`, `fork` or `if`",
                   "not a data stage", {"write its stages one after the other"});
      }
      good = false;
      continue;
    }
    good = add_stage(ast[stage.path][0], ast[stage.args], stage.span) && good;
  }
  return good;
}

// Adds the field that a binding makes from a source to the source. Returns false after a fault: the source has no such
// field, or a stage cannot take it.
bool ModuleBuilder::bind_field(Source& source, const DataBinding& binding, const std::vector<const AugmentDef*>& defs,
                               const Expr& first) {
  const int position = bound_field(source.fields, binding);
  if (position < 0 && has_pairs(source.fields) && source.spec.name != "train") {
    return true;  // pairs have no labels; check_pairs reports an input that a metric needs
  }
  if (position < 0) {
    ev_.report(
        fault("XG0422", first.span,
              {"`{}` of source `{}` gives no field `{}`", source.spec.reader.name, source.spec.name, binding.field},
              {"its fields are {}", field_list(source.fields)}, another_field(source.fields, binding.field, first))
            .also(source.spec.reader.span, "this source"));
    return false;
  }
  Field now = source.fields[static_cast<size_t>(position)];
  for (size_t i = 0; i < defs.size(); ++i) {
    const CallSpec& stage = binding.stages[i];
    auto type = defs[i]->infer(now, stage.args);
    if (!type.ok()) {
      ev_.refuse(type.error().code.c_str(), stage.span, type.error().message, {"gets {}", field_text(now)},
                 {type.error().help});
      return false;
    }
    now.type = *type;
    now.encoded = false;
    now.rescaled = now.rescaled || defs[i]->rescales;
  }
  now.name = binding.target;
  source.bound[binding.target] = std::move(now);
  return true;
}

}  // namespace xrun::lang
