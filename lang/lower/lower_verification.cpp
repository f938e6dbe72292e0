// Checks that the source of the metric `verification` has pairs.
// Tests: tests/lang/lower/lower_verification_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "graph/layouts/verification_spec.h"
#include "graph/settings/pair_fields.h"
#include "lang/lower/fields.h"
#include "lang/lower/module_builder.h"

namespace xrun::lang {

void ModuleBuilder::check_pairs() {
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
      if (!data_is_partial_ && verification_of(graph, metric.value)) {
        check(metric);
      }
    }
  }
}

}  // namespace xrun::lang
