// Binds the inputs of the model, the loss and the metrics to fields of the data.
// Tests: tests/lang/check_test.cpp, tests/lang/check_golden_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/lower/fields.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// Describes how the field of a source differs from the input that it feeds.
std::string mismatch(const TensorType& input, const Field& field) {
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

}  // namespace

// Whether a field can feed an input. A float input accepts floats of any width and u8. A size that is unknown until the
// data is opened fits any size.
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
    if (!data_inputs_.contains(input.name)) {
      bind_input(input);
    }
  }
}

void ModuleBuilder::bind_input(const NamedValue& input) {
  const TensorType& type = ev_.graph().value(input.value).type;
  const auto target = targets_.find(input.name);
  for (const Source& source : sources_) {
    const Field* field = given(source, input.name);
    if (field == nullptr && (target != targets_.end() || data_is_partial_)) {
      continue;  // the fault of the binding was reported
    }
    if (field != nullptr && fits(type, *field)) {
      continue;
    }
    const Span at = target != targets_.end() ? target->second : source.spec.span;
    const bool is_row = source.fields.size() == 1 && source.fields[0].name == kRowField;
    Diagnostic d =
        field == nullptr
            ? fault("XG0420", at, {"no field or binding of `data` gives the input `{}`", input.name},
                    {"this source has the fields {}", field_list(source.fields)},
                    {"bind it in `data`: {} = {}", input.name, is_row ? "columns(a..b)" : "FIELD -> ..."})
            : fault("XG0421", at,
                    {"the input `{}` is {}, but source `{}` gives {}", input.name, to_text(type), source.spec.name,
                     field_text(*field)},
                    field->encoded ? "not decoded" : mismatch(type, *field),
                    {field->encoded ? "put `decode` after the field: file -> decode(32)"
                                    : "change the stages of `data`, or declare the input as what they give"});
    if (const Name* declared = declared_input(input.name)) {
      d.secondary.push_back({declared->span, "this input"});
    }
    ev_.report(std::move(d));
    return;  // the report for other sources would be equal
  }
}

// The field that a source has for a name: from its binding or, without a binding, the field with this name.
const Field* ModuleBuilder::given(const Source& source, std::string_view name) const {
  const auto bound = source.bound.find(std::string(name));
  if (bound != source.bound.end()) {
    return &bound->second;
  }
  return targets_.contains(name) ? nullptr : find_field(source.fields, name);
}

// Checks that the source of each metric has every field that the metric reads.
void ModuleBuilder::check_metric_sources() {
  if (data_is_partial_) {
    return;
  }
  const Graph& graph = ev_.graph();
  const auto check = [&](const MetricSpec& metric, const Source& source) {
    for (const ValueId input : graph.node(graph.value(metric.value).producer).inputs) {
      for (const auto& [name, datum] : data_inputs_) {
        if (datum.tensor != input || targets_.contains(name) || find_field(source.fields, name) != nullptr) {
          continue;
        }
        ev_.report(fault("XG0420", metric.span, {"source `{}` gives no `{}` to measure with", source.spec.name, name},
                         {"its fields are {}", field_list(source.fields)},
                         {"measure on another source, or bind it in `data`: {} = FIELD -> ...", name})
                       .also(source.spec.reader.span, "this source"));
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

// Makes a graph input for a name in the loss or in a metric that is a binding or a field of the data.
std::optional<Datum> ModuleBuilder::data_value(std::string_view name, Span at) {
  if (const auto known = data_inputs_.find(name); known != data_inputs_.end()) {
    return known->second;
  }
  const bool is_target = targets_.contains(name);
  if (is_target) {
    asked_.emplace(name);
  }
  if (sources_.empty()) {
    return is_target ? std::optional(Datum()) : std::nullopt;
  }
  const Source* train = &sources_.front();
  for (const Source& source : sources_) {
    train = source.spec.name == "train" ? &source : train;
  }
  const Field* field = given(*train, name);
  if (field == nullptr) {
    return is_target ? std::optional(Datum()) : std::nullopt;  // the fault of the binding was reported
  }
  if (field->encoded) {
    return Datum(ev_.refuse("XG0421", at, {"`{}` is an encoded file", name}, "not decoded",
                            {"decode it in `data`: image = {} -> decode(32)", name}));
  }
  TensorType type = field->type;
  if (type.classes == 0 && (type.dtype == DType::kU8 || type.dtype == DType::kF64 || type.dtype == DType::kF16)) {
    type.dtype = DType::kF32;
  }
  Datum value = make_tensor(ev_.graph().add_input(std::string(name), std::move(type)));
  const auto target = targets_.find(name);
  value.span = target != targets_.end() ? target->second : train->spec.span;
  // The number of classes is set by the last stage of a binding, such as `as_index`, or by the source itself.
  const auto& bindings = module_.data.bindings;
  const auto binding =
      std::find_if(bindings.begin(), bindings.end(), [&](const DataBinding& one) { return one.target == name; });
  const bool staged = binding != bindings.end() && !binding->stages.empty();
  ev_.recorded().inputs[value.tensor.index] = staged ? binding->stages.back().span : train->spec.reader.span;
  data_inputs_.emplace(std::string(name), value);
  return value;
}

// Whether an unknown name may be a field in a part of `data` that has faults. False if it is close to a known name.
bool ModuleBuilder::may_be_a_field(std::string_view name, const std::vector<std::string>& known) const {
  const bool unread =
      data_is_partial_ || broken_sources_.contains("train") || (sources_.empty() && !broken_sources_.empty());
  return unread && nearest(name, known).empty();
}

}  // namespace xrun::lang
