// `xrun predict`: name the classes of pictures or of rows of a source, or write their embeddings.
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "planner/head_plan.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/planned.h"
#include "runtime/cli/progress.h"
#include "runtime/cli/run_sources.h"
#include "runtime/cli/trained_model.h"
#include "runtime/data/picture_files.h"
#include "runtime/data/sample_rows.h"
#include "runtime/formats/npy.h"
#include "runtime/train/inference.h"

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

// The field of the train source that feeds the model's first input: what pictures are decoded to.
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

// Pictures come without labels, and none are asked for: whatever the text binds them to.
DataSpec without_labels(DataSpec data, const Graph& graph) {
  for (const NamedValue& input : graph.inputs) {
    if (graph.value(input.value).type.classes > 0) {
      std::erase_if(data.bindings, [&](const DataBinding& binding) { return binding.target == input.name; });
      data.bindings.push_back({.target = input.name, .field = "label"});
    }
  }
  return data;
}

struct Subject {
  std::unique_ptr<runtime::RowSource> rows;
  std::vector<std::string> names;
  RowRange range;
  std::vector<runtime::BrokenRow> broken;  // in order; they are left out

  int64_t count() const { return range.end - range.begin; }
  // The fault of a row; null where it is there.
  const std::string* fault_of(int64_t row) const {
    const auto found = std::ranges::lower_bound(broken, row, {}, &runtime::BrokenRow::row);
    return found != broken.end() && found->row == row ? &found->message : nullptr;
  }
};

Status check_any_left(const Subject& subject) {
  if (std::ssize(subject.broken) < subject.count()) {
    return {};
  }
  return content_error("XG0408", {"nothing that was named can be read; the last: {}", subject.broken.back().message},
                       "fix the files");
}

Result<Subject> open_subject(const PlannedModel& planned, const PredictArgs& args, runtime::EventSink& events) {
  const Module& module = planned.prepared.inference;
  std::unique_ptr<runtime::SampleRows> samples;
  events.on_work({.work = runtime::Work::kOpen, .subject = args.source.empty() ? "pictures" : args.source});
  if (!args.source.empty()) {
    XRUN_ASSIGN(samples, runtime::SampleRows::open(module.data, args.source, module.graph));
    warn_of(*samples, events);
  } else {
    XRUN_ASSIGN(const Field like, picture_field(module));
    XRUN_ASSIGN(auto reader, runtime::open_picture_files(args.images, like));
    XRUN_ASSIGN(samples, runtime::SampleRows::make("pictures", std::move(reader),
                                                   without_labels(module.data, module.graph), module.graph));
  }
  Subject subject;
  XRUN_ASSIGN(subject.range, parse_rows(args.source.empty() ? "" : args.rows, samples->samples()));
  for (int64_t i = subject.range.begin; i < subject.range.end; ++i) {
    subject.names.push_back(samples->reader().sample_name(i));
  }
  XRUN_ASSIGN(subject.rows,
              runtime::make_row_source(std::move(samples), {.batch = module.train.batch,
                                                            .max_bad = module.data.max_bad,
                                                            .wanted = subject.range.end - subject.range.begin,
                                                            .workers = planned.plan.machine.threads}));
  return subject;
}

struct Names {
  std::vector<std::string> classes;
  std::string of(int32_t index) const {
    return static_cast<size_t>(index) < classes.size() ? classes[static_cast<size_t>(index)] : std::to_string(index);
  }
};

std::string class_lines(const Subject& subject, const runtime::BestClasses& best, const Names& names, int topk,
                        bool json) {
  std::string out;
  const int64_t k = topk > 0 ? topk : std::min(planner::kShownClasses, best.k);
  for (size_t row = 0; row < subject.names.size(); ++row) {
    if (const std::string* fault = subject.fault_of(static_cast<int64_t>(row))) {
      out += json ? json_line({{"input", subject.names[row]}, {"broken", *fault}}) : "";
      continue;
    }
    nlohmann::ordered_json object{{"input", subject.names[row]}, {"classes", nlohmann::ordered_json::array()}};
    std::string line = printable_line(subject.names[row]);
    for (int64_t i = 0; i < k; ++i) {
      const size_t at = row * static_cast<size_t>(best.k) + static_cast<size_t>(i);
      const std::string name = names.of(best.classes[at]);
      line += fmt::format("   {} {:.4f}", printable_line(name), best.scores[at]);
      object["classes"].push_back({{"class", best.classes[at]}, {"name", name}, {"score", best.scores[at]}});
    }
    out += json ? json_line(object) : line + "\n";
  }
  return out;
}

Error no_output(std::string message, std::string help) {
  return content_error("XG0903", std::move(message), std::move(help));
}

// Where the classes of a sample are found.
struct Ranking {
  std::optional<ValueId> logits;  // none: the sharded head
  int64_t most = 0;               // classes that can be named: 5, or the k of a metric
};

// The dense logits that the loss reads, as an output. Before `prepare` the loss, the metrics and their logits stand in
// the graph; outputs keep their names.
Result<Ranking> dense_ranking(const Module& checked, const Module& prepared) {
  const Graph& graph = checked.graph;
  const auto loss = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.op->margin != nullptr; });
  if (loss == graph.nodes.end()) {
    return no_output("the model's loss compares with no classes, so there are none to name", "ask for --embedding");
  }
  const auto logits = std::ranges::find(graph.outputs, loss->inputs[0], &NamedValue::value);
  if (logits == graph.outputs.end()) {
    return no_output("the logits of `" + std::string(loss->op->name) + "` are no output of the model",
                     "declare them one: output logits");
  }
  Ranking ranking{.most = planner::kShownClasses};
  for (const Node& node : graph.nodes) {
    if (node.op->metric_k != nullptr && node.inputs[0] == logits->value) {
      ranking.most = std::max(ranking.most, node.op->metric_k(node.attrs));
    }
  }
  ranking.logits = std::ranges::find(prepared.graph.outputs, logits->name, &NamedValue::name)->value;
  ranking.most = std::min<int64_t>(ranking.most, prepared.graph.value(*ranking.logits).type.row_elements());
  return ranking;
}

// The first output of real numbers.
Result<NamedValue> embedding_output(const Graph& graph) {
  for (const NamedValue& output : graph.outputs) {
    const DType dtype = graph.value(output.value).type.dtype;
    if (dtype == DType::kF32 || dtype == DType::kBF16) {
      return output;
    }
  }
  return no_output(graph.outputs.empty() ? "the model has no output to write" : "the model's outputs are whole numbers",
                   "declare one of real numbers: output feature");
}

// Keeps the rows that could be read, in order; gives their number.
int64_t drop_broken(std::vector<float>& values, int64_t columns, const Subject& subject) {
  int64_t kept = 0;
  for (int64_t row = 0; row < subject.count(); ++row) {
    if (subject.fault_of(row) == nullptr) {
      std::copy_n(values.begin() + row * columns, columns, values.begin() + kept * columns);
      ++kept;
    }
  }
  values.resize(static_cast<size_t>(kept * columns));
  return kept;
}

Result<std::string> embeddings(runtime::Session& session, Subject& subject, const Module& module,
                               const PredictArgs& args, bool json, runtime::EventSink& events) {
  XRUN_ASSIGN(const NamedValue output, embedding_output(module.graph));
  XRUN_ASSIGN(std::vector<float> values,
              runtime::predict_floats(session, *subject.rows, output.value, subject.range.begin, subject.count(),
                                      &events, &subject.broken));
  XRUN_TRY(check_any_left(subject));
  const int64_t columns = module.graph.value(output.value).type.row_elements();
  if (!args.output.empty()) {
    const int64_t rows = drop_broken(values, columns, subject);
    XRUN_TRY(runtime::write_npy(args.output, values, rows, columns));
    if (json) {
      nlohmann::ordered_json object{
          {"output", args.output}, {"rows", rows}, {"columns", columns}, {"value", output.name}};
      object["broken"] = nlohmann::ordered_json::array();
      for (const runtime::BrokenRow& row : subject.broken) {
        object["broken"].push_back({{"input", row.sample}, {"message", row.message}});
      }
      return json_line(object);
    }
    return fmt::format("{}   f32[{}, {}]   {}\n", printable_line(args.output), rows, columns, output.name);
  }
  std::string out;
  for (int64_t row = 0; row < subject.count(); ++row) {
    if (const std::string* fault = subject.fault_of(row)) {
      out += json ? json_line({{"input", subject.names[static_cast<size_t>(row)]}, {"broken", *fault}}) : "";
      continue;
    }
    const std::span one = std::span(values).subspan(static_cast<size_t>(row * columns), static_cast<size_t>(columns));
    if (json) {
      out += json_line({{"input", subject.names[static_cast<size_t>(row)]}, {"embedding", one}});
      continue;
    }
    out += printable_line(subject.names[static_cast<size_t>(row)]);
    for (const float x : one) {
      out += fmt::format(" {:.6g}", x);
    }
    out += "\n";
  }
  return out;
}

Result<Ranking> find_ranking(const PlannedModel& planned, int64_t topk) {
  const planner::Program& program = planned.plan.inference;
  Ranking ranking;
  if (program.heads.empty()) {
    XRUN_ASSIGN(ranking, dense_ranking(planned.model.file.module, planned.prepared.inference));
  } else {
    ranking.most = program.heads[0].top_k;
  }
  if (topk > ranking.most) {
    return usage_error("XG0904", {"`--topk {}`: at most {} classes are kept", topk, ranking.most},
                       {"--topk {}", ranking.most});
  }
  return ranking;
}

struct Predicted {
  std::string text;
  int64_t rows = 0;
  std::vector<runtime::BrokenRow> broken;
};

Result<Predicted> predict(const PlannedModel& planned, const PredictArgs& args,
                          const Result<runtime::CheckpointInfo>& info, bool json, runtime::EventSink& events) {
  const Module& module = planned.prepared.inference;
  // Wrong wishes are refused before data are read.
  Ranking ranking;
  if (!args.embedding) {
    XRUN_ASSIGN(ranking, find_ranking(planned, args.topk));
  }
  XRUN_TRY(check_checkpoint(planned, args.file, args.anyway, info));
  XRUN_ASSIGN(auto classes, runtime::read_class_names(*info));
  XRUN_ASSIGN(const auto devices, start_devices(planned.plan.inference));
  XRUN_ASSIGN(Subject subject, open_subject(planned, args, events));
  XRUN_ASSIGN(const auto session, open_session(planned, *devices, *info, events));
  Predicted predicted{.rows = subject.count()};
  if (args.embedding) {
    XRUN_ASSIGN(predicted.text, embeddings(*session, subject, module, args, json, events));
  } else {
    const int64_t first = subject.range.begin;
    const int64_t rows = subject.count();
    auto best = ranking.logits
                    ? runtime::predict_classes(*session, *subject.rows, *ranking.logits, ranking.most, first, rows,
                                               &events, &subject.broken)
                    : runtime::predict_classes(*session, *subject.rows, first, rows, &events, &subject.broken);
    XRUN_ASSIGN(const runtime::BestClasses found, std::move(best));
    XRUN_TRY(check_any_left(subject));
    predicted.text = class_lines(subject, found, {std::move(classes)}, args.topk, json);
  }
  predicted.broken = std::move(subject.broken);
  return predicted;
}

}  // namespace

int run_predict(const GlobalOptions& options, const PredictArgs& args) {
  const Console console(options);
  if (args.images.empty() == args.source.empty()) {
    return console.fail(usage_error(
        "XG0905",
        args.images.empty() ? "`xrun predict` has nothing to predict" : "pictures and `--source` exclude one another",
        "name pictures, or rows of a source: --source NAME --rows a..b"));
  }
  if (!args.images.empty() && !args.rows.empty()) {
    return console.fail(usage_error("XG0905", "`--rows` are those of a source, and pictures are given",
                                    "leave it out, or name a source: --source NAME --rows a..b"));
  }
  if (!args.embedding && !args.output.empty()) {
    return console.fail(usage_error("XG0905", "`-o` is where `--embedding` writes", "add --embedding"));
  }
  if (args.embedding && args.topk > 0) {
    return console.fail(
        usage_error("XG0905", "`--embedding` and `--topk` exclude one another", "leave one of them out"));
  }
  int exit = 0;
  const auto info = runtime::open_checkpoint(args.checkpoint);
  const auto planned = plan_for(info, args.file, options, console, exit);
  if (!planned) {
    return exit;
  }
  const auto progress = make_progress(options.progress, console);
  const auto predicted = predict(*planned, args, info, console.json(), *progress);
  progress->on_work({});
  if (!predicted.ok()) {
    return console.fail(predicted.error(), planned->model.sources);
  }
  console.out(predicted->text);
  report_broken(predicted->broken, console);
  if (!predicted->broken.empty() && !console.json()) {
    console.note(fmt::format("note: {} of {} samples broken and left out\n", std::ssize(predicted->broken),
                             format_count(predicted->rows)));
  }
  return 0;
}

}  // namespace xrun::cli
