// Tests: tests/runtime/cli/commands/command_test.cpp
#include "runtime/cli/predict/subject.h"

#include <algorithm>
#include <utility>

#include "graph/base/errors.h"
#include "graph/layouts/class_rows.h"
#include "runtime/cli/console/counts.h"
#include "runtime/cli/predict/ranking.h"
#include "runtime/cli/sources/row_range.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/data/readers/picture_files.h"

namespace xrun::cli {
namespace {

// The field of the training source that feeds the model's first input. Pictures are decoded to the type of this field.
Result<Field> picture_field(const Module& module) {
  if (module.graph.inputs.empty()) {
    return content_error("XG0414", "the model has no input", "declare one in `model`: input x: f32[N, 64]");
  }
  std::string field = module.graph.inputs[0].name;
  for (const DataBinding& binding : module.data.bindings) {
    if (binding.target == module.graph.inputs[0].name) {
      field = binding.field;
    }
  }
  for (const SourceSpec& source : module.data.sources) {
    const ReaderDef* reader = data_registry().find_reader(source.reader.name);
    if (source.name != "train" || reader == nullptr) {
      continue;
    }
    XRUN_ASSIGN(const std::vector<Field> fields, reader->fields(source.reader.args));
    for (const Field& candidate : fields) {
      if (candidate.name == field) {
        return candidate;
      }
    }
  }
  return content_error("XG0414", "no field of the source `train` feeds the input `" + module.graph.inputs[0].name + "`",
                       "name rows of a source: --source NAME --rows a..b");
}

// The training source, if it reads tables or texts: its reader also reads those that are named on the command line.
// Null if it reads neither.
const SourceSpec* table_source(const DataSpec& data) {
  const auto train = std::ranges::find(data.sources, "train", &SourceSpec::name);
  const bool is_table = train != data.sources.end() && (train->reader.name == "csv" || train->reader.name == "text");
  return is_table ? &*train : nullptr;
}

// The data with one more source, `name`, which reads the table at `path` as the training source reads its own table.
DataSpec with_table(DataSpec data, const SourceSpec& train, const std::string& path) {
  SourceSpec source = train;
  source.name = path;
  source.directory.clear();
  Attrs args;
  for (const auto& [name, value] : train.reader.args.all()) {
    if (name != "rows") {
      args.set(name, name == "path" ? AttrValue(path) : value);
    }
  }
  source.reader.args = std::move(args);
  data.sources.push_back(std::move(source));
  return data;
}

Result<std::unique_ptr<runtime::SampleRows>> open_pictures(const Module& module, const PredictArgs& args,
                                                           const std::vector<std::string>& needed) {
  XRUN_ASSIGN(const Field like, picture_field(module));
  XRUN_ASSIGN(auto files, runtime::list_pictures(args.images));
  XRUN_ASSIGN(auto reader, runtime::open_picture_files(std::move(files), like));
  return runtime::SampleRows::make("pictures", std::move(reader), module.data, module.graph, {}, &needed);
}

Result<std::unique_ptr<runtime::SampleRows>> open_samples(const Module& module, const PredictArgs& args,
                                                          const std::vector<std::string>& needed) {
  if (!args.source.empty()) {
    return runtime::SampleRows::open(module.data, args.source, module.graph, nullptr, &needed);
  }
  const SourceSpec* table = table_source(module.data);
  if (table == nullptr) {
    return open_pictures(module, args, needed);
  }
  const DataSpec data = with_table(module.data, *table, args.images[0]);
  return runtime::SampleRows::open(data, args.images[0], module.graph, nullptr, &needed);
}

}  // namespace

Status Subject::check(const PlannedModel& planned, const PredictArgs& args) {
  const bool tables = table_source(planned.prepared.inference.data) != nullptr;
  if (tables && args.images.size() > 1) {
    return usage_error("XG0905", {"{} tables are named, but only one can be predicted at a time", args.images.size()},
                       "name one of them");
  }
  if (!tables && !args.images.empty() && !args.rows.empty()) {
    return usage_error("XG0905", "`--rows` selects rows of a table or a source, but pictures are given",
                       "leave it out, or name a source: --source NAME --rows a..b");
  }
  return {};
}

Result<Subject> Subject::open(const PlannedModel& planned, const PredictArgs& args, const TrainedTables& trained,
                              runtime::EventSink& events) {
  const Module& module = planned.prepared.inference;
  const std::vector<std::string> needed = inputs_of_results(module.graph);
  XRUN_TRY(check(planned, args));
  Subject subject;
  events.on(runtime::WorkEvent{.work = runtime::Work::kOpen, .subject = args.source.empty() ? "files" : args.source});
  XRUN_ASSIGN(auto samples, open_samples(module, args, needed));
  warn_of(*samples, events);
  XRUN_TRY(samples->number_by(trained.classes));
  XRUN_TRY(samples->scale_by(trained.scales));
  subject.label_input_ = label_input(planned.model.file.module);
  subject.names_ = runtime::names_in(samples->classes(), subject.label_input_);
  const runtime::ClassTable* table = runtime::table_for(trained.classes, samples->classes(), subject.label_input_);
  if (table != nullptr && table->named) {
    subject.numbers_ = runtime::positions_of(subject.names_, table->names);
  }
  XRUN_ASSIGN(const RowRange range, parse_rows(args.rows, samples->samples()));
  subject.first_ = range.begin;
  subject.count_ = range.end - range.begin;
  XRUN_ASSIGN(subject.rows_, runtime::make_row_source(std::move(samples), {.batch = module.train.batch,
                                                                           .max_bad = module.data.max_bad,
                                                                           .wanted = subject.count_,
                                                                           .workers = planned.plan.machine.threads}));
  return subject;
}

Result<RowLabel> Subject::label(int64_t row) {
  RowLabel label;
  auto number = rows_->label(label_input_, first_ + row);
  if (!number.ok()) {
    return number.error().kind == ErrorKind::kContent ? Result<RowLabel>(label) : number.error();
  }
  label.number = *number;
  if (label.number && *label.number < std::ssize(names_)) {
    const auto own = static_cast<size_t>(*label.number);
    label.name = names_[own];
    if (!numbers_.empty()) {
      label.number = numbers_[own] < 0 ? std::nullopt : std::optional(numbers_[own]);
    }
  }
  return label;
}

const std::string* Subject::fault_of(int64_t row) const {
  const auto found = std::ranges::lower_bound(broken, row, {}, &runtime::BrokenRow::row);
  return found != broken.end() && found->row == row ? &found->message : nullptr;
}

Status Subject::check_any_left() const {
  if (std::ssize(broken) < count_) {
    return {};
  }
  return content_error("XG0408", {"no named file can be read; the last error: {}", broken.back().message},
                       "replace the broken files, or name others; `xrun data show FILE` examines one");
}

}  // namespace xrun::cli
