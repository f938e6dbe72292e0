// Checks that the source of the metric `verification` has pairs, and that sources of pairs have the fields of their
// metrics.
// Tests: tests/lang/lower/lower_verification_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "graph/layouts/class_rows.h"
#include "graph/layouts/verification_spec.h"
#include "graph/settings/pair_fields.h"
#include "lang/lower/fields.h"
#include "lang/lower/module_builder.h"

namespace xrun::lang {

void ModuleBuilder::check_pairs() {
  if (data_is_partial_) {
    return;
  }
  const Graph& graph = ev_.graph();
  const auto check = [&](const MetricSpec& metric) {
    const auto source = std::ranges::find(sources_, metric.source,
                                          [](const Source& one) -> const std::string& { return one.spec.name; });
    if (source != sources_.end() && !has_pairs(source->fields)) {
      ev_.report(
          fault("XG0420", metric.span,
                {"source `{}` does not say which pairs show one class: it has no `{}`", metric.source, kPairField},
                {"its fields are {}", field_list(source->fields)},
                {"measure pairs of pictures: source lfw = pairs(\"lfw.bin\")"})
              .also(source->spec.reader.span, "this source"));
    }
  };
  for (const std::vector<MetricSpec>* metrics : {&module_.train.metrics, &module_.train.eval}) {
    for (const MetricSpec& metric : *metrics) {
      if (verification_of(graph, metric.value)) {
        check(metric);
      }
    }
  }
  for (const MetricSpec& metric : module_.train.measured()) {
    for (const Source& source : sources_) {
      if (has_pairs(source.fields) && metric.reads(source.spec.name)) {
        check_bound_fields(metric, source);
      }
    }
  }
}

// Reports an input that the metric reads and whose binding begins with a field that the source of pairs lacks.
void ModuleBuilder::check_bound_fields(const MetricSpec& metric, const Source& source) {
  for (const std::string& input : inputs_of(ev_.graph(), std::span(&metric.value, 1))) {
    const auto binding = std::ranges::find(module_.data.bindings, input, &DataBinding::target);
    if (binding == module_.data.bindings.end() || given(source, input) != nullptr) {
      continue;  // an input without a binding, and a binding with a fault, are reported elsewhere
    }
    ev_.report(fault("XG0420", metric.span, {"source `{}` gives no `{}` to measure with", source.spec.name, input},
                     {"it has no field `{}`; its fields are {}", binding->field, field_list(source.fields)},
                     {"measure on another source; pictures of pairs are read by a binding that begins with `decode`: "
                      "image = jpeg -> decode(112)"})
                   .also(binding->span, "the binding")
                   .also(source.spec.reader.span, "this source"));
    return;  // the inputs of one metric have the same fix
  }
}

}  // namespace xrun::lang
