// Compiles a transform for each input of the graph: from its binding, or without a binding from the field with the name
// of the input.
// Tests: tests/runtime/data/loader_test.cpp, tests/runtime/data/readers/reader_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "graph/base/errors.h"
#include "graph/layouts/mixed_labels.h"
#include "graph/layouts/partial_labels.h"
#include "graph/settings/pair_fields.h"
#include "runtime/data/augment/label_faults.h"
#include "runtime/data/open_reader.h"
#include "runtime/data/readers/csv.h"
#include "runtime/data/sample_rows.h"
#include "runtime/data/source_classes.h"
#include "runtime/data/source_scales.h"

namespace xrun::runtime {
namespace {

Result<const SourceSpec*> find_source(const DataSpec& data, std::string_view name) {
  const auto spec = std::ranges::find(data.sources, name, &SourceSpec::name);
  if (spec == data.sources.end()) {
    return content_error("XG0413", {"data `{}` has no source `{}`", data.name, name},
                         {"add one: source {} = ...", name}, data.span);
  }
  return &*spec;
}

// Returns the binding of an input. An input without a binding is filled from the field with its own name.
DataBinding binding_of(const std::string& input, const DataSpec& data, const Span& span) {
  const auto bound = std::ranges::find(data.bindings, input, &DataBinding::target);
  return bound != data.bindings.end() ? *bound
                                      : DataBinding{.target = input, .field = input, .stages = {}, .span = span};
}

// The number of classes that a source has for a label, in the numbers of the label; 0: unknown before samples are read.
int64_t classes_in(const Field& field, const DataBinding& binding, const Transform& transform) {
  if (!transform.class_names().empty()) {
    return std::ssize(transform.class_names());
  }
  int64_t first = 0;
  for (const CallSpec& stage : binding.stages) {
    first += stage.name == "as_index" ? stage.args.integer("first", 0) : 0;
  }
  return std::max<int64_t>(field.type.classes - first, 0);
}

}  // namespace

Result<std::unique_ptr<SampleRows>> SampleRows::open(const DataSpec& data, std::string_view source, const Graph& graph,
                                                     StopFlag stop, const std::vector<std::string>* needed) {
  XRUN_ASSIGN(const SourceSpec* spec, find_source(data, source));
  XRUN_ASSIGN(auto reader, open_reader(with_bound_columns(*spec, data.bindings, graph), stop));
  return make(spec->name, std::move(reader), data, graph, spec->reader.span, needed);
}

Result<std::unique_ptr<SampleRows>> SampleRows::open_header(const DataSpec& data, std::string_view source,
                                                            const Graph& graph,
                                                            const std::vector<std::string>* needed) {
  XRUN_ASSIGN(const SourceSpec* spec, find_source(data, source));
  XRUN_ASSIGN(auto reader, runtime::open_header(with_bound_columns(*spec, data.bindings, graph)));
  return make(spec->name, std::move(reader), data, graph, spec->reader.span, needed);
}

Result<std::unique_ptr<SampleRows>> SampleRows::make(std::string name, std::unique_ptr<Reader> reader,
                                                     const DataSpec& data, const Graph& graph, const Span& span,
                                                     const std::vector<std::string>* needed) {
  auto made = std::make_unique<SampleRows>();
  made->name_ = std::move(name);
  made->span_ = span;
  made->reader_ = std::move(reader);
  made->mix_ = MixPlaces::of(graph, data);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& input = graph.inputs[i].name;
    const DataBinding binding = binding_of(input, data, span);
    const int field = bound_field(made->reader_->fields(), binding);
    const bool optional = needed != nullptr && std::ranges::find(*needed, input) == needed->end();
    if (optional) {
      // A label is unknown if the source has no such field or the field has another form.
      if (field >= 0 && made->add_input(i, binding, field, data, graph).ok()) {
        made->inputs_.back().needed = false;
        std::erase_if(made->partial_, [&](const PartialLabel& label) { return label.input == input; });
      }
      continue;
    }
    if (field >= 0) {
      XRUN_TRY(made->add_input(i, binding, field, data, graph));
    } else if (input.find('.') == std::string::npos) {
      std::vector<std::string> names;
      std::ranges::transform(made->reader_->fields(), std::back_inserter(names), &Field::name);
      return content_error("XG0414", {"nothing in source `{}` fills the input `{}`", made->name_, input},
                           {"bind it: {} = {} -> ...; the fields are {}", input, names.empty() ? "field" : names[0],
                            fmt::join(names, ", ")},
                           binding.span);
    }
  }
  return made;
}

Status SampleRows::add_input(size_t index, const DataBinding& binding, int field, const DataSpec& data,
                             const Graph& graph) {
  const NamedValue& input = graph.inputs[index];
  const Field& type = reader_->fields()[static_cast<size_t>(field)];
  const TensorType& target = graph.value(input.value).type;
  XRUN_ASSIGN(Transform transform,
              Transform::compile(binding, type, target, reader_->columns(),
                                 is_partial(data, input.name) ? class_names_of(*reader_) : std::vector<std::string>()));
  const auto known = std::ranges::find(data.class_counts, input.name, &ClassCount::input);
  const LabelPlaces places{span_, known != data.class_counts.end() ? known->span : Span(), binding.span};
  if (target.classes > 0) {
    XRUN_TRY(check_class_count(*reader_, field, binding, transform, target.classes, name_ == "train", places));
  }
  const bool is_label = target.classes > 0 && target.rank() == 1 && target.dtype == DType::kI32;
  RowInput made{.name = input.name,
                .index = index,
                .partner = place_of(graph, partner_label(input.name)),
                .field = field,
                .is_label = is_label,
                .classes = classes_in(type, binding, transform),
                .places = places,
                .transform = std::move(transform)};
  if (target.classes > 0) {
    auto table = table_of(made.transform, binding, *reader_, field, name_);
    if (!table.ok()) {
      Error error = std::move(table).error();
      error.span = span_;
      return error;
    }
    classes_.push_back(std::move(table).value());
  }
  if (made.transform.is_partial()) {
    partial_.push_back(PartialLabel::of(graph, input));
  }
  inputs_.push_back(std::move(made));
  return {};
}

Status SampleRows::number_by(const ClassTables& trained) {
  for (const ClassTable& own : classes_) {
    const ClassTable* table = table_for(trained, classes_, own.input);
    const auto input = std::ranges::find(inputs_, own.input, &RowInput::name);
    if (!input->needed || trained.empty() || (!own.named && (table == nullptr || !table->named))) {
      continue;
    }
    if (table == nullptr) {
      return content_error(
          "XG0402",
          {"training did not know the classes of `{}`, which have names in the source `{}`", own.input, name_},
          "give the input the name that it had in training", span_);
    }
    if (table->named && !reader_->has_labels()) {
      return content_error("XG0402", {"the samples of the source `{}` have no classes to measure them by", name_},
                           "put each into the directory of its class, or measure other sources alone: "
                           "accuracy(..., source=NAME)",
                           span_);
    }
    auto numbers = numbers_in(*table, own, name_);
    if (!numbers.ok()) {
      Error error = std::move(numbers).error();
      error.span = span_;
      return error;
    }
    input->transform.renumber(std::move(numbers).value());
  }
  return {};
}

Result<InputScales> SampleRows::settle_scales(const InputScales& trained, std::vector<Error>& warnings, StopFlag stop) {
  InputScales settled;
  for (RowInput& input : inputs_) {
    if (!input.transform.standardizes()) {
      continue;
    }
    if (const InputScale* known = find_scale(trained, input.name)) {
      settled.push_back(*known);
    } else {
      auto measured = measure_scale(*reader_, input.field, input.transform, input.name, warnings, stop);
      if (!measured.ok()) {
        Error error = std::move(measured).error();
        error.message = fmt::format("source `{}`: {}", name_, error.message);
        error.span = span_;
        return error;
      }
      settled.push_back(std::move(measured).value());
    }
    input.transform.standardize_by(settled.back().means, settled.back().deviations);
  }
  return settled;
}

Status SampleRows::scale_by(const InputScales& trained) {
  for (RowInput& input : inputs_) {
    if (!input.needed || !input.transform.standardizes()) {
      continue;
    }
    const InputScale* known = find_scale(trained, input.name);
    if (known == nullptr) {
      return content_error("XG0705",
                           {"`{}` is standardized, but the run of the checkpoint measured no means of it", input.name},
                           "use the text that the checkpoint was trained with, or train again", span_);
    }
    input.transform.standardize_by(known->means, known->deviations);
  }
  return {};
}

}  // namespace xrun::runtime
