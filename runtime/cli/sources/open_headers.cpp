#include "runtime/cli/sources/open_headers.h"

#include <algorithm>

#include "runtime/cli/model/trained_model.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/data/class_weights.h"
#include "runtime/data/open_reader.h"
#include "runtime/data/sample_rows.h"
#include "runtime/train/clock/large_batch.h"
#include "runtime/train/clock/rate.h"
#include "runtime/train/knn/knn_graphs.h"

namespace xrun::cli {
namespace {

// Whether the error means that data is missing. Data that exists but is broken or unreadable is an error.
bool is_missing(const Error& error) {
  return (error.code == "XG0401" && error.kind == ErrorKind::kContent) || error.code == "XG0411";
}

Diagnostic warn_of_missing(const Error& error, const std::string& source) {
  Diagnostic warning{.severity = Severity::kWarning, .code = error.code, .message = error.message};
  warning.primary.span = error.span;
  warning.notes.push_back(source == "train"
                              ? "the plan is made without the number of samples: times of an epoch are not known"
                              : "a run of this plan needs it to evaluate");
  if (!error.help.empty()) {
    warning.fixes.push_back({.title = error.help});
  }
  return warning;
}

}  // namespace

Result<DataHeaders> open_headers(const PlannedModel& planned) {
  const Module& module = planned.prepared.training;
  XRUN_TRY(check_init(planned.model.file));
  if (module.train.class_weights.kind == ClassWeightsSpec::kCsv) {
    XRUN_TRY(runtime::read_class_weights(module.train.class_weights));
  }
  std::vector<std::string> names = measured_sources(module);
  std::erase(names, "train");
  names.insert(names.begin(), "train");
  DataHeaders headers;
  runtime::ClassTables classes;
  for (const std::string& name : names) {
    const std::vector<std::string> needed = inputs_of_measures(module, name);
    auto rows = runtime::SampleRows::open_header(module.data, name, module.graph, name == "train" ? nullptr : &needed);
    if (!rows.ok()) {
      if (!is_missing(rows.error())) {
        return rows.error();
      }
      headers.warnings.add(warn_of_missing(rows.error(), name));
      continue;
    }
    XRUN_TRY(check_measures(**rows, module));
    headers.memory.add(**rows, module.data);
    headers.memory.add_measures(**rows, module, planned.workers());
    std::vector<Error> warnings = (*rows)->warnings();
    if (auto broken = (*rows)->broken_cells()) {
      warnings.push_back(std::move(*broken));
    }
    if (auto cut = (*rows)->cut_texts()) {
      warnings.push_back(std::move(*cut));
    }
    const Diagnostics found = as_warnings(warnings);
    for (const Diagnostic& warning : found.all()) {
      headers.warnings.add(warning);
    }
    if (name == "train") {
      headers.samples = (*rows)->samples();
      headers.memory.readers += runtime::SampleSequence::memory(module.train.order, headers.samples);
      classes = (*rows)->classes();
      XRUN_TRY(runtime::check_curve(module.train, headers.samples));
      XRUN_TRY(runtime::check_graphs(module.train, headers.samples));
      if (auto large = runtime::warn_of_large_batch(module.train, headers.samples)) {
        headers.warnings.add(as_warnings({*large}).all()[0]);
      }
    } else {
      XRUN_TRY((*rows)->number_by(classes));
    }
  }
  return headers;
}

}  // namespace xrun::cli
