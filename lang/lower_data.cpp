// `data`: sources with their readers, and what each input of the model is made of.
#include <fmt/format.h>

#include "lang/module_builder.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

constexpr std::string_view kRowField = "row";  // a binding that starts with a stage is of this field

std::vector<std::string> names_of(const DataRegistry& registry, bool readers) {
  std::vector<std::string> names;
  for (const ReaderDef* def : registry.readers) {
    if (readers) {
      names.emplace_back(def->name);
    }
  }
  for (const AugmentDef* def : registry.augments) {
    if (!readers) {
      names.emplace_back(def->name);
    }
  }
  return names;
}

// "`idx`, `csv`": what runs in this edition.
template <class Def>
std::string ready(const std::vector<const Def*>& all) {
  std::string text;
  for (const Def* def : all) {
    if (def->availability == Availability::kReady) {
      text += fmt::format("{}`{}`", text.empty() ? "" : ", ", def->name);
    }
  }
  return text;
}

std::string field_list(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    text += (text.empty() ? "`" : ", `") + field.name + "`";
  }
  return text;
}

std::string field_text(const Field& field) {
  if (field.encoded) {
    return "an encoded file";
  }
  std::string text = to_text(field.type);
  // An unknown size is found by opening the data.
  for (size_t at = text.find(" 0"); at != std::string::npos; at = text.find(" 0", at + 2)) {
    if (at + 2 < text.size() && (text[at + 2] == ',' || text[at + 2] == ']')) {
      text.replace(at, 2, " ?");
    }
  }
  return text;
}

// How what the data gives differs from what an input takes.
std::string misfit(const TensorType& input, const Field& field) {
  if (field.type.rank() != input.rank()) {
    return fmt::format("{} dimension{}, not {}", field.type.rank(), field.type.rank() == 1 ? "" : "s", input.rank());
  }
  for (size_t i = 0; i < input.dims.size(); ++i) {
    if (field.type.dims[i] != input.dims[i] && field.type.dims[i] != 0) {
      return fmt::format("{} in dimension {}, not {}", field.type.dims[i], i, input.dims[i]);
    }
  }
  return "elements of another kind";
}

const Field* find_field(const std::vector<Field>& fields, std::string_view name) {
  for (const Field& field : fields) {
    if (field.name == name) {
      return &field;
    }
  }
  return nullptr;
}

}  // namespace

void ModuleBuilder::lower_data(const DeclRef& decl) {
  Settings settings = settings_of(decl, DeclKind::kData);
  Scope scope = constants(decl);
  module_.data.name = decl ? std::string(decl.decl->name.text) : "";
  module_.data.span = settings.root.span;
  module_.has_data = true;
  for (const SettingNode& node : settings.sources) {
    lower_source(node, scope);
  }
  data_is_partial_ = settings.has_hole;
  if (settings.sources.empty() && !data_is_partial_) {
    ev_.refuse("XG0501", settings.root.key_span, "`data` has no source", "",
               {"say what is learned from: source train = folder(\"pictures\")"});
  }
  const bool learns = choice_.train || has_flags(DeclKind::kTrain);
  const auto& named = settings.sources;
  if (learns && !named.empty() && !settings.has_hole &&
      std::none_of(named.begin(), named.end(), [](const SettingNode& node) { return node.key == "train"; })) {
    const bool is_meant = named.size() == 1 || nearest(named[0].key, {"train"}) == "train";
    ev_.refuse("XG0501", named[0].key_span, "`data` has no source `train`",
               "the source that is learned from is called `train`",
               is_meant ? replacement("call it so", named[0].key_span, "train")
                        : Fix{"call one of the sources so, or add one: source train = ..."});
  }
  for (const SettingNode& node : settings.root.children) {
    if (node.key == "max_bad") {
      module_.data.max_bad = real(node, scope, 0, 1).value_or(module_.data.max_bad);
    } else {
      lower_binding(node, scope);
    }
  }
  for (const Source& source : sources_) {
    module_.data.sources.push_back(source.spec);
  }
}

void ModuleBuilder::lower_source(const SettingNode& node, Scope& scope) {
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  if (expr.kind == ExprKind::kHole) {
    return;
  }
  const std::string name = symbol(node);
  const ReaderDef* reader = expr.kind == ExprKind::kCall ? registry_.find_reader(name) : nullptr;
  if (reader == nullptr) {
    const Span at = expr.kind == ExprKind::kCall ? ast[expr.lhs].span : expr.span;
    const bool is_known = registry_.find_reader(name) != nullptr;
    const std::string text =
        is_known ? "" : fmt::format("write one of {}: source train = folder(\"pictures\")", ready(registry_.readers));
    ev_.refuse(
        "XG0201", at,
        name.empty() || is_known ? "a source is a call of a reader" : fmt::format("there is no reader `{}`", name),
        is_known ? "not called" : "unknown reader",
        is_known ? Fix{fmt::format("give it its arguments: {}", registry_.find_reader(name)->example)}
                 : did_you_mean(name, names_of(registry_, true), at, {text}));
    return;
  }
  const Signature& signature = ev_.signatures().of(reader->name, reader->signature);
  const auto bound = arguments(node, reader->name, reader->signature, scope);
  const auto attrs = bound ? ev_.attributes(signature, *bound) : std::nullopt;
  if (!attrs) {
    return;
  }
  if (reader->availability == Availability::kNotYet) {
    ev_.not_yet(ast[expr.lhs].span, fmt::format("the reader `{}`", reader->name),
                {fmt::format("bring the data into a form that this edition reads: {}", ready(registry_.readers))});
  }
  auto fields = reader->fields(*attrs);
  if (!fields.ok()) {
    ev_.refuse(fields.error().code.c_str(), expr.span, fields.error().message, "", {fields.error().help});
    return;
  }
  const auto& file = expr.span.file;
  std::string directory = main_.directory;
  if (choice_.data && choice_.data.file->file == file) {
    directory = choice_.data.file->directory;
  }
  sources_.push_back({.spec = {.name = node.key,
                               .reader = {std::string(reader->name), *attrs, expr.span},
                               .directory = directory,
                               .span = node.span},
                      .fields = std::move(*fields),
                      .bound = {}});
}

// `name(args)` as a stage of a binding, with its arguments.
std::optional<CallSpec> ModuleBuilder::data_stage(const Ast& ast, const Name& name, std::span<const Arg> args,
                                                  Span span, Scope& scope, const AugmentDef** def) {
  *def = registry_.find_augment(name.text);
  if (*def == nullptr) {
    ev_.refuse("XG0201", name.span, fmt::format("there is no data stage `{}`", name.text), "unknown stage",
               did_you_mean(name.text, names_of(registry_, false), name.span,
                            {fmt::format("leave it out, or write one of {}", ready(registry_.augments))}));
    return std::nullopt;
  }
  const Signature& signature = ev_.signatures().of((*def)->name, (*def)->signature);
  Scope env;
  const auto bound = ev_.bind(signature, {.ast = &ast, .args = args, .span = span, .name_span = name.span}, scope, env);
  const auto attrs = bound ? ev_.attributes(signature, *bound) : std::nullopt;
  if (!attrs) {
    return std::nullopt;
  }
  if ((*def)->availability == Availability::kNotYet) {
    ev_.not_yet(name.span, fmt::format("the data stage `{}`", (*def)->name),
                {fmt::format("leave it out, or take one of {}", ready(registry_.augments))});
  }
  return CallSpec{std::string(name.text), *attrs, span};
}

void ModuleBuilder::lower_binding(const SettingNode& node, Scope& scope) {
  if (!node.has_value()) {
    unknown_setting(node, DeclKind::kData, "data", {"max_bad"});
    return;
  }
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  const Expr& first = expr.kind == ExprKind::kPipe ? ast[expr.lhs] : expr;
  DataBinding binding{.target = node.key, .field = std::string(kRowField), .stages = {}, .span = node.span};
  std::vector<std::pair<CallSpec, const AugmentDef*>> stages;
  const auto add_stage = [&](const Name& name, std::span<const Arg> args, Span span) {
    const AugmentDef* def = nullptr;
    auto stage = data_stage(ast, name, args, span, scope, &def);
    if (stage) {
      stages.emplace_back(std::move(*stage), def);
    }
    return stage.has_value();
  };
  bool good = true;
  Span field_span = first.span;
  if (first.kind == ExprKind::kName) {
    binding.field = std::string(first.name.text);
  } else if (first.kind == ExprKind::kCall && ast[first.lhs].kind == ExprKind::kName) {
    field_span = first.span;
    good = add_stage(ast[first.lhs].name, ast[first.args], first.span);
  } else if (first.kind != ExprKind::kHole) {
    ev_.refuse("XG0422", first.span, "a binding starts with a field of the source, or with a stage", "not a field",
               {"begin with one: x = pixels -> scale(1 / 255), x = columns(0..64)"});
    good = false;
  } else {
    good = false;
  }
  if (expr.kind == ExprKind::kPipe) {
    for (const Stage& stage : ast[expr.stages]) {
      if (stage.kind != StageKind::kCall || ast[stage.path].size() != 1) {
        if (stage.kind != StageKind::kHole) {
          ev_.refuse("XG0422", stage.span, "data stages follow one another: no `repeat`, `residual`, `fork` or `if`",
                     "not a data stage", {"write its stages one behind the other"});
        }
        good = false;
        continue;
      }
      good = add_stage(ast[stage.path][0], ast[stage.args], stage.span) && good;
    }
  }
  targets_[node.key] = node.key_span;
  for (Source& source : sources_) {
    const Field* field = find_field(source.fields, binding.field);
    if (field == nullptr) {
      if (good) {
        std::vector<std::string> known;
        for (const Field& given : source.fields) {
          known.push_back(given.name);
        }
        const bool is_row = known.size() == 1 && known[0] == kRowField;
        Diagnostic d =
            fault("XG0422", field_span,
                  fmt::format("`{}` of source `{}` gives no field `{}`", source.spec.reader.name, source.spec.name,
                              binding.field),
                  "its fields are " + field_list(source.fields),
                  is_row && first.kind == ExprKind::kName ? Fix{"take columns of the row: columns(a..b), or column(i)"}
                  : first.kind == ExprKind::kName
                      ? did_you_mean(binding.field, known, field_span, {"begin with one of its fields"})
                      : Fix{"begin with one of its fields: FIELD -> ..."});
        d.secondary.push_back({source.spec.reader.span, "this source"});
        ev_.report(std::move(d));
      }
      good = false;
      continue;
    }
    Field now = *field;
    for (const auto& [stage, def] : stages) {
      auto type = def->infer(now, stage.args);
      if (!type.ok()) {
        ev_.refuse(type.error().code.c_str(), stage.span, type.error().message, "gets " + field_text(now),
                   {type.error().help});
        good = false;
        break;
      }
      now.type = *type;
      now.encoded = false;
    }
    now.name = binding.target;
    source.bound[binding.target] = std::move(now);
  }
  for (auto& [stage, def] : stages) {
    binding.stages.push_back(std::move(stage));
  }
  if (good) {
    module_.data.bindings.push_back(std::move(binding));
  }
}

// Whether what the data gives can stand for an input: floats and u8 of any width for floats, sizes that are not known
// before the file is opened for any size.
bool ModuleBuilder::fits(const TensorType& input, const Field& field) const {
  if (field.encoded || field.type.rank() != input.rank()) {
    return false;
  }
  for (size_t i = 0; i < input.dims.size(); ++i) {
    if (field.type.dims[i] != input.dims[i] && field.type.dims[i] != 0) {
      return false;
    }
  }
  const auto is_float = [](DType dtype) { return dtype <= DType::kF8E5M2; };
  if (input.classes > 0) {
    return field.type.classes == input.classes || (field.type.classes == 0 && !is_float(field.type.dtype));
  }
  return is_float(input.dtype) ? is_float(field.type.dtype) || field.type.dtype == DType::kU8
                               : field.type.dtype == input.dtype;
}

const Name* ModuleBuilder::declared_input(std::string_view name) const {
  if (!choice_.model) {
    return nullptr;
  }
  const Ast& ast = choice_.model.file->ast;
  for (const Stmt& stmt : ast[choice_.model.decl->body]) {
    if (stmt.kind == StmtKind::kInput && ast[stmt.names][0].text == name) {
      return &ast[stmt.names][0];
    }
  }
  return nullptr;
}

void ModuleBuilder::bind_inputs() {
  for (const NamedValue& input : ev_.graph().inputs) {
    if (data_inputs_.contains(input.name)) {
      continue;
    }
    const TensorType& type = ev_.graph().value(input.value).type;
    for (const Source& source : sources_) {
      const auto bound = source.bound.find(input.name);
      const Field* field = bound != source.bound.end() ? &bound->second : find_field(source.fields, input.name);
      const Span at = targets_.contains(input.name) ? targets_[input.name] : source.spec.span;
      if (field == nullptr) {
        // A binding that failed was reported where it stands.
        if (!targets_.contains(input.name) && !data_is_partial_) {
          const bool is_row = source.fields.size() == 1 && source.fields[0].name == kRowField;
          Diagnostic d =
              fault("XG0420", at, fmt::format("nothing gives the input `{}`", input.name),
                    "this source has the fields " + field_list(source.fields),
                    {fmt::format("bind it in `data`: {} = {}", input.name, is_row ? "columns(a..b)" : "FIELD -> ...")});
          if (const Name* declared = declared_input(input.name)) {
            d.secondary.push_back({declared->span, "this input"});
          }
          ev_.report(std::move(d));
          return;
        }
      } else if (!fits(type, *field)) {
        Diagnostic d = fault("XG0421", at,
                             fmt::format("the input `{}` is {}, but source `{}` gives {}", input.name, to_text(type),
                                         source.spec.name, field_text(*field)),
                             field->encoded ? "not decoded" : misfit(type, *field),
                             {field->encoded ? "put `decode` behind the field: file -> decode(32)"
                                             : "change the stages of `data`, or declare the input as what they give"});
        if (const Name* declared = declared_input(input.name)) {
          d.secondary.push_back({declared->span, "this input"});
        }
        ev_.report(std::move(d));
        break;
      }
    }
  }
}

// A source that a metric is measured on gives every field that the metric asks for.
void ModuleBuilder::check_metric_sources() {
  if (data_is_partial_) {
    return;
  }
  const Graph& graph = ev_.graph();
  const auto check = [&](const MetricSpec& metric, const Source& source) {
    for (const ValueId input : graph.node(graph.value(metric.value).producer).inputs) {
      for (const auto& [name, datum] : data_inputs_) {
        if (datum.tensor != input || source.bound.contains(name) || find_field(source.fields, name) != nullptr) {
          continue;
        }
        Diagnostic d = fault("XG0420", metric.span,
                             fmt::format("source `{}` gives no `{}` to measure with", source.spec.name, name),
                             "its fields are " + field_list(source.fields),
                             {fmt::format("measure on another source, or bind it in `data`: {} = FIELD -> ...", name)});
        d.secondary.push_back({source.spec.reader.span, "this source"});
        ev_.report(std::move(d));
      }
    }
  };
  for (const std::vector<MetricSpec>* metrics : {&module_.train.metrics, &module_.train.eval}) {
    for (const MetricSpec& metric : *metrics) {
      for (const Source& source : sources_) {
        if (metric.source.empty() ? source.spec.name != "train" : source.spec.name == metric.source) {
          check(metric, source);
        }
      }
    }
  }
}

// A name that the loss asks for: a binding or a field of the data becomes an input of the graph.
std::optional<Datum> ModuleBuilder::data_value(std::string_view name, Span at) {
  if (const auto known = data_inputs_.find(name); known != data_inputs_.end()) {
    return known->second;
  }
  if (sources_.empty()) {
    return std::nullopt;
  }
  const Source* train = &sources_.front();
  for (const Source& source : sources_) {
    train = source.spec.name == "train" ? &source : train;
  }
  const auto bound = train->bound.find(std::string(name));
  const Field* field = bound != train->bound.end() ? &bound->second : find_field(train->fields, name);
  if (field == nullptr) {
    return std::nullopt;
  }
  if (field->encoded) {
    return ev_.refuse("XG0421", at, fmt::format("`{}` is an encoded file", name), "not decoded",
                      {fmt::format("decode it in `data`: image = {} -> decode(32)", name)});
  }
  TensorType type = field->type;
  if (type.classes == 0 && (type.dtype == DType::kU8 || type.dtype == DType::kF64 || type.dtype == DType::kF16)) {
    type.dtype = DType::kF32;
  }
  Datum value = make_tensor(ev_.graph().add_input(std::string(name), std::move(type)));
  const auto target = targets_.find(name);
  value.span = target != targets_.end() ? target->second : train->spec.span;
  // What says how many classes there are: `as_index` at the end of a binding, or the source itself.
  const auto& bindings = module_.data.bindings;
  const auto binding =
      std::find_if(bindings.begin(), bindings.end(), [&](const DataBinding& one) { return one.target == name; });
  const bool staged = binding != bindings.end() && !binding->stages.empty();
  ev_.note_input(value.tensor, staged ? binding->stages.back().span : train->spec.reader.span);
  data_inputs_.emplace(std::string(name), value);
  return value;
}

}  // namespace xrun::lang
