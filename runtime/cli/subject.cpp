#include "runtime/cli/subject.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/cli/ranking.h"
#include "runtime/cli/run_sources.h"
#include "runtime/data/picture_files.h"

namespace xrun::cli {
namespace {

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

Result<RowRange> parse_rows(const std::string& text, int64_t samples) {
  RowRange range{0, samples};
  if (text.empty()) {
    return range;
  }
  const size_t dots = text.find("..");
  const char* end = text.data() + text.size();
  bool good = dots != std::string::npos;
  if (good) {
    const auto a = std::from_chars(text.data(), text.data() + dots, range.begin);
    const auto b = std::from_chars(text.data() + dots + 2, end, range.end);
    good = a.ec == std::errc() && a.ptr == text.data() + dots && b.ec == std::errc() && b.ptr == end;
  }
  if (!good || range.begin < 0 || range.begin >= range.end || range.end > samples) {
    return usage_error("XG0902", {"`--rows {}` is not a range a..b within 0..{}", text, samples},
                       "write it as --rows 0..8");
  }
  return range;
}

// The field of the train source that feeds the model's first input; pictures are decoded to its type.
Result<Field> picture_field(const Module& module) {
  if (module.graph.inputs.empty()) {
    return content_error("XG0414", "the model has no input", "declare one");
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
  return content_error("XG0414", "no field of the data feeds `" + module.graph.inputs[0].name + "`",
                       "name rows of a source: --source NAME --rows a..b");
}

// Pictures have no labels: binds inputs of classes to the field `label` of the picture reader, whatever the text binds
// them to.
DataSpec without_labels(DataSpec data, const Graph& graph) {
  for (const NamedValue& input : graph.inputs) {
    if (graph.value(input.value).type.classes > 0) {
      std::erase_if(data.bindings, [&](const DataBinding& binding) { return binding.target == input.name; });
      data.bindings.push_back({.target = input.name, .field = "label"});
    }
  }
  return data;
}

// Training's number for each class of a source that numbers its own classes.
std::vector<std::optional<int64_t>> numbers_of(const std::vector<std::string>& names,
                                               const std::vector<std::string>& trained) {
  std::map<std::string_view, int64_t> known;
  for (size_t i = 0; i < trained.size(); ++i) {
    known.emplace(trained[i], static_cast<int64_t>(i));
  }
  std::vector<std::optional<int64_t>> numbers;
  for (const std::string& name : names) {
    const auto found = known.find(name);
    numbers.push_back(found == known.end() ? std::nullopt : std::optional(found->second));
  }
  return numbers;
}

}  // namespace

Result<Subject> Subject::open(const PlannedModel& planned, const PredictArgs& args,
                              const std::vector<std::string>& trained, runtime::EventSink& events) {
  const Module& module = planned.prepared.inference;
  std::unique_ptr<runtime::SampleRows> samples;
  Subject subject;
  events.on_work({.work = runtime::Work::kOpen, .subject = args.source.empty() ? "pictures" : args.source});
  if (!args.source.empty()) {
    XRUN_ASSIGN(samples, runtime::SampleRows::open(module.data, args.source, module.graph));
    warn_of(*samples, events);
    subject.label_input_ = label_input(planned.model.file.module);
    subject.names_ = class_names(*samples);
    if (!trained.empty() && !subject.names_.empty()) {
      subject.numbers_ = numbers_of(subject.names_, trained);
    }
  } else {
    XRUN_ASSIGN(const Field like, picture_field(module));
    std::vector<Error> warnings;
    XRUN_ASSIGN(auto files, runtime::list_pictures(args.images, warnings));
    for (const Error& warning : warnings) {
      events.on_warn({warning.code, warning.message});
    }
    XRUN_ASSIGN(auto reader, runtime::open_picture_files(std::move(files), like));
    XRUN_ASSIGN(samples, runtime::SampleRows::make("pictures", std::move(reader),
                                                   without_labels(module.data, module.graph), module.graph));
  }
  XRUN_ASSIGN(const RowRange range, parse_rows(args.source.empty() ? "" : args.rows, samples->samples()));
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
  if (label_input_.empty()) {
    return label;
  }
  XRUN_ASSIGN(label.number, rows_->label(label_input_, first_ + row));
  if (label.number && *label.number < std::ssize(names_)) {
    const auto own = static_cast<size_t>(*label.number);
    label.name = names_[own];
    label.number = numbers_.empty() ? label.number : numbers_[own];
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
  return content_error("XG0408", {"nothing that was named can be read; the last: {}", broken.back().message},
                       "fix the files");
}

}  // namespace xrun::cli
