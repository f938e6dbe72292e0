// Tests: tests/runtime/cli/commands/check_data_test.cpp, tests/runtime/cli/sources/run_sources_test.cpp
#include "runtime/cli/sources/run_sources.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "graph/layouts/class_rows.h"
#include "graph/settings/pair_fields.h"
#include "graph/settings/reader_def.h"
#include "graph/settings/template_pairs.h"
#include "planner/program/run_memory.h"
#include "runtime/data/class_weights.h"
#include "runtime/train/evaluation/inference.h"
#include "runtime/train/evaluation/recall.h"
#include "runtime/train/evaluation/template_features.h"

namespace xrun::cli {

std::vector<std::string> measured_sources(const Module& module) {
  std::vector<std::string> names;
  for (const SourceSpec& source : module.data.sources) {
    names.push_back(source.name);
  }
  std::vector<std::string> measured;
  for (const runtime::Measure& measure : runtime::measures_of(module, names)) {
    if (std::find(measured.begin(), measured.end(), measure.source) == measured.end()) {
      measured.push_back(measure.source);
    }
  }
  return measured;
}

std::vector<std::string> inputs_of_measures(const Module& module, const std::string& source,
                                            const runtime::WantedMeasures& wanted) {
  std::vector<ValueId> values;
  for (const runtime::Measure& measure : runtime::measures_of(module, {source}, wanted)) {
    values.push_back(measure.value);
  }
  return inputs_of(module.graph, values);
}

Status check_measures(const runtime::SampleRows& rows, const Module& module, const runtime::WantedMeasures& wanted) {
  for (const runtime::Measure& measure : runtime::measures_of(module, {rows.name()}, wanted)) {
    if (measure.verification) {
      const runtime::SourceOfPairs source{rows.samples(), rows.reader().find_field(kPairField) >= 0,
                                          rows.reader().templates()};
      XRUN_TRY(runtime::check_pairs(rows.name(), source, *measure.verification));
    }
  }
  return {};
}

Diagnostics as_warnings(const std::vector<Error>& warnings) {
  Diagnostics all;
  for (const Error& warning : warnings) {
    Diagnostic diagnostic = diagnostic_of(warning);
    diagnostic.severity = Severity::kWarning;
    all.add(std::move(diagnostic));
  }
  return all;
}

Result<std::vector<int32_t>> use_classes(runtime::SampleRows& rows, const Module& module,
                                         const runtime::ClassTables& classes_of_run, StopFlag stop) {
  const TrainSpec& train = module.train;
  const bool weighs = train.class_weights.kind != ClassWeightsSpec::kNone;
  const bool balances = train.order == SampleOrder::kBalanced;
  if (!weighs && !balances) {
    return std::vector<int32_t>();
  }
  const Graph& graph = module.graph;
  XRUN_ASSIGN(std::vector<int32_t> labels, rows.labels_of(train.class_input, stop));
  if (weighs) {
    const auto input = std::ranges::find(graph.inputs, train.class_input, &NamedValue::name);
    const int64_t classes = graph.value(input->value).type.classes;
    XRUN_ASSIGN(auto weights, runtime::class_weights(train.class_weights, labels, classes,
                                                     runtime::names_in(classes_of_run, train.class_input)));
    rows.weigh(graph, train.class_input, train.weight_input(), std::move(weights));
  }
  return balances ? std::move(labels) : std::vector<int32_t>();
}

namespace {

// A table of classes as a fact: number and digest, "3 (1a2b3c4d)", or "numbers".
std::string text_of(const runtime::ClassTable& table) {
  if (!table.named) {
    return "numbers";
  }
  Xxh128 names;
  for (const std::string& one : table.names) {
    names.add(std::as_bytes(std::span(one)));
    names.add(std::as_bytes(std::span("\n", 1)));
  }
  return fmt::format("{} ({:.8})", table.names.size(), names.hex());
}

// A digest of the pairs of a source; empty if it has none. Ranks with other pairs would decide `best` and `stop_when`
// differently.
std::string digest_of_pairs(const runtime::Reader& reader) {
  Xxh128 digest;
  if (const TemplatePairs* const templates = reader.templates()) {
    digest.add(std::as_bytes(std::span(templates->samples)));
    digest.add(std::as_bytes(std::span(templates->pairs)));
    return digest.hex();
  }
  const int same = reader.find_field(kPairField);
  if (same < 0) {
    return "";
  }
  runtime::FieldValue flag;
  for (int64_t sample = 0; sample < reader.samples(); sample += 2) {
    const Status read = reader.read(sample, same, flag);
    digest.add(read.ok() ? flag.bytes : std::as_bytes(std::span(read.error().code)));
  }
  return digest.hex();
}

}  // namespace

void add_facts(const runtime::SampleRows& rows, Facts& facts) {
  const auto add = [&](const std::string& what, std::string value) {
    facts.emplace_back(fmt::format("{} of the source `{}`", what, rows.name()), std::move(value));
  };
  add("samples", fmt::format("{}", rows.samples()));
  for (const runtime::ClassTable& table : rows.classes()) {
    add(fmt::format("classes of `{}`", table.input), text_of(table));
  }
  add("contents", rows.contents().substr(0, 8));
  if (const std::string pairs = digest_of_pairs(rows.reader()); !pairs.empty()) {
    add("pairs", pairs.substr(0, 8));
  }
}

void warn_of(const runtime::SampleRows& rows, runtime::EventSink& events) {
  for (const Error& warning : rows.warnings()) {
    events.on(runtime::WarnEvent{warning.code, warning.message});
  }
}

Result<std::vector<std::unique_ptr<runtime::RowSource>>> open_row_sources(const PlannedModel& planned,
                                                                          const std::vector<std::string>& names,
                                                                          const TrainedTables& trained,
                                                                          runtime::EventSink& events,
                                                                          const RowOptions& options) {
  const Module& module = planned.prepared.inference;
  std::vector<std::unique_ptr<runtime::RowSource>> sources;
  for (const std::string& name : names) {
    events.on(runtime::WorkEvent{.work = runtime::Work::kOpen, .subject = name});
    const std::vector<std::string> needed = inputs_of_measures(module, name, options.measures);
    XRUN_ASSIGN(auto rows, runtime::SampleRows::open(module.data, name, module.graph, options.stop, &needed));
    XRUN_TRY(check_measures(*rows, module, options.measures));
    XRUN_TRY(rows->number_by(trained.classes));
    XRUN_TRY(rows->scale_by(trained.scales));
    warn_of(*rows, events);
    if (options.memory != nullptr) {
      options.memory->add(*rows, module.data);
      options.memory->add_measures(*rows, module, planned.workers(), options.measures);
    }
    if (options.facts != nullptr) {
      add_facts(*rows, *options.facts);
    }
    XRUN_ASSIGN(auto source, runtime::make_row_source(std::move(rows), {.batch = module.train.batch,
                                                                        .seed = module.train.seed,
                                                                        .max_bad = module.data.max_bad,
                                                                        .workers = planned.workers(),
                                                                        .on_bad = options.on_bad,
                                                                        .patience = options.patience}));
    sources.push_back(std::move(source));
  }
  return sources;
}

void report_broken(const std::vector<runtime::BrokenRow>& broken, const Console& console) {
  std::vector<Error> warnings;
  for (const runtime::BrokenRow& row : broken) {
    warnings.push_back(content_error("XG0412", row.message, "it is left out; replace or remove it"));
  }
  if (!console.json()) {
    console.report(as_warnings(warnings), {});
  }
}

Status check_memory(const PlannedModel& planned, const DataMemory& data) {
  const planner::Plan& plan = planned.plan;
  const bool gpus = plan.machine.has_gpus();
  const int workers = gpus ? planned.workers() : plan.machine.threads;
  const Bytes arenas = planner::run_memory(planned.prepared.training, plan.training, plan.inference).on_hosts();
  const Bytes sum = arenas + workers * data.decoding.bytes + data.readers + data.compared;
  if (sum <= plan.machine.memory) {
    return {};
  }
  Error error{ErrorKind::kInfeasible, "XG0601",
              fmt::format("does not fit: with its data the run needs {}, but {} are usable", format_bytes(sum),
                          format_bytes(plan.machine.memory)),
              gpus ? "give `decode` a size, or remove the largest pictures"
                   : "give `decode` a size, remove the largest pictures, or use fewer workers: --threads 1"};
  error.notes.push_back(
      fmt::format("the arenas take {}, the files that readers hold {}, and {} {} {} to decode pictures",
                  format_bytes(arenas), format_bytes(data.readers), workers,
                  workers == 1 ? "worker takes" : "workers take", format_bytes(workers * data.decoding.bytes)));
  if (data.compared > 0) {
    error.notes.push_back(
        fmt::format("an evaluation keeps {} for {}", format_bytes(data.compared),
                    data.of_templates ? "the features of templates and the distances of their pairs; several sources "
                                        "with a part of the pairs each need less"
                                      : "the features that `recall_at` compares; a source with fewer samples needs "
                                        "less"));
  }
  if (!data.decoding.picture.empty()) {
    error.notes.push_back("the largest picture that was looked at is " + data.decoding.picture);
  }
  return error;
}

void DataMemory::add(const runtime::SampleRows& rows, const DataSpec& spec) {
  const auto source = std::ranges::find(spec.sources, rows.name(), &SourceSpec::name);
  const ReaderDef* reader = data_registry().find_reader(source->reader.name);
  if (reader->held == nullptr) {  // otherwise run_memory counts its memory
    readers += rows.reader().memory();
  }
  const runtime::Decoding more = rows.decoding();
  decoding = more.bytes > decoding.bytes ? more : decoding;
}

void DataMemory::add_measures(const runtime::SampleRows& rows, const Module& module, int threads,
                              const runtime::WantedMeasures& wanted) {
  const TemplatePairs* const pairs = rows.reader().templates();
  Bytes sum = 0;
  Bytes search = 0;  // the maximum over the measures, which search one after the other
  for (const runtime::Measure& measure : runtime::measures_of(module, {rows.name()}, wanted)) {
    const int64_t width = module.graph.value(measure.value).type.row_elements();
    if (measure.neighbours > 0) {
      sum += runtime::recall_features(rows.samples(), width - 2);
      search = std::max(search, runtime::recall_search(rows.samples(), width - 2, measure.neighbours, threads));
    } else if (measure.verification && pairs != nullptr) {
      sum += runtime::template_memory(*pairs, width);
    }
  }
  if (sum + search > compared) {
    compared = sum + search;
    of_templates = pairs != nullptr;
  }
}

}  // namespace xrun::cli
