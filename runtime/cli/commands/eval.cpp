// `xrun eval`: evaluates a checkpoint on sources of the file.
// Tests: tests/runtime/cli/commands/command_test.cpp
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "graph/base/utf8.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/model/plan_session.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/model/trained_model.h"
#include "runtime/cli/predict/classification.h"
#include "runtime/cli/predict/pair_files.h"
#include "runtime/cli/predict/roc_file.h"
#include "runtime/cli/progress/json_progress.h"
#include "runtime/cli/progress/progress.h"
#include "runtime/cli/progress/verified_text.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/train/evaluation/inference.h"

namespace xrun::cli {
namespace {

// Checks the names that --on gives.
Status check_names(const Module& module, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  std::ranges::transform(module.data.sources, std::back_inserter(known), &SourceSpec::name);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end()) {
      std::error_code ignored;
      const bool is_path = name.find('.') != std::string::npos && !std::filesystem::exists(name, ignored);
      return usage_error(
          "XG0413",
          {"data `{}` has no source `{}`{}", module.data.name, name, is_path ? ", and there is no such file" : ""},
          nearest_names(name, known));
    }
  }
  return {};
}

// Returns the names of the sources to measure.
Result<std::vector<std::string>> sources_to_measure(const Module& module, const EvalArgs& args,
                                                    const runtime::WantedMeasures& wanted) {
  XRUN_TRY(check_names(module, args.on));
  const bool has_metrics = !module.train.measured().empty() || !wanted.own.empty();
  std::vector<std::string> names = args.on.empty() ? measured_sources(module) : args.on;
  if (!has_metrics || names.empty()) {
    return content_error("XG0413",
                         {"`train {}` measures nothing{}", module.train.name,
                          has_metrics ? ": its metrics need a source other than `train`, and there is none" : ""},
                         has_metrics ? "declare another source in `data`, or measure the training source: --on train"
                                     : "name metrics in `train`, or an `eval` group");
  }
  for (size_t i = 0; i < names.size(); ++i) {  // skips names that were given before
    names.erase(std::remove(names.begin() + static_cast<std::ptrdiff_t>(i) + 1, names.end(), names[i]), names.end());
  }
  for (const std::string& name : names) {
    if (runtime::measures_of(module, {name}, wanted).empty()) {
      return content_error("XG0413", {"no metric measures the source `{}`", name},
                           "add one to `eval`, or name a file of pairs: --on lfw.bin");
    }
  }
  return names;
}

// The results of an evaluation.
struct Measurement {
  runtime::Evaluation evaluation;
  int64_t step = 0;                    // step of the checkpoint
  std::vector<SourceClasses> classes;  // results by class; empty unless a flag asks for them
};

bool wants_classes(const EvalArgs& args) { return args.per_class || !args.confusion.empty() || !args.wrong.empty(); }

std::string text_of(const Measurement& measured, const EvalArgs& args, bool unicode) {
  std::string out;
  for (const runtime::MeasuredSource& one : measured.evaluation.sources) {
    out += fmt::format("  {}   {}{}{}", one.name, counted(one.samples, "sample"), one.synthetic ? ", synthetic" : "",
                       one.broken > 0 ? fmt::format("; {} broken left out", format_count(one.broken)) : "");
    for (const runtime::LabelCount& label : one.labels) {
      out += "; " + labels_text(label);
    }
    out += "\n";
  }
  for (const runtime::VerifiedPairs& one : measured.evaluation.verified) {
    out += fmt::format("  {}\n", printable_line(verified_line(one, unicode)));
    out += one.tar_at_far.empty() ? "" : fmt::format("  {:{}}   {}\n", "", one.key.size(), tar_line(one));
  }
  for (const SourceClasses& source : measured.classes) {
    const std::string of = source.source + (source.head.empty() ? "" : ", " + printable_line(source.head));
    if (!args.wrong.empty()) {
      out += fmt::format("  {}   {} of {}\n", printable_line(wrong_path(args)),
                         counted(std::ssize(source.wrong), "misclassified sample"), of);
    }
    if (!args.confusion.empty()) {
      out += fmt::format("  {}   {} of classes of {}\n", printable_line(args.confusion),
                         counted(std::ssize(source.pairs), "pair"), of);
    }
  }
  for (const SourceClasses& source : measured.classes) {
    out += args.per_class ? per_class_text(source) : "";
  }
  out += args.per_class ? "\n" : "";
  for (const runtime::Measured& one : measured.evaluation.metrics) {
    out += fmt::format("{} {:.2f} %{}\n", one.key, 100 * one.value, one.synthetic ? " (synthetic)" : "");
  }
  return out;
}

std::string json_of(const Measurement& measured, const EvalArgs& args) {
  nlohmann::ordered_json json{{"v", 1}, {"step", measured.step}};
  json.update(evaluation_json(measured.evaluation.metrics, measured.evaluation.sources, measured.evaluation.verified));
  json["broken_samples"] = nlohmann::ordered_json::array();
  for (const auto& [source, rows] : measured.evaluation.broken) {
    for (const runtime::BrokenRow& row : rows) {
      json["broken_samples"].push_back({{"source", source}, {"sample", row.sample}, {"message", row.message}});
    }
  }
  for (const SourceClasses& source : measured.classes) {
    auto& wrong = json["misclassified"][source.source];
    (source.head.empty() ? wrong : wrong[source.head]) = std::ssize(source.wrong);
    if (args.per_class) {
      auto& table = json["per_class"][source.source];
      (source.head.empty() ? table : table[source.head]) = per_class_json(source);
    }
  }
  return json_line(json);
}

// Checks that `--roc` has curves to write, and that it may write them.
Status check_roc(const Module& module, const std::vector<std::string>& names, const runtime::WantedMeasures& wanted,
                 const EvalArgs& args) {
  const auto measures = runtime::measures_of(module, names, wanted);
  if (!args.roc.empty() &&
      std::ranges::none_of(measures, [](const auto& one) { return one.verification.has_value(); })) {
    return usage_error("XG0906", "`--roc` writes the curves of `verification`, which is not measured",
                       "leave it out, or name a source or a file of pairs: --on lfw.bin");
  }
  return check_roc_path(args.roc);
}

// `files`: the measures of files that `--on` names.
Result<Measurement> measure(const PlannedModel& planned, const EvalArgs& args,
                            const std::vector<runtime::Measure>& files, const Result<runtime::CheckpointInfo>& info,
                            runtime::EventSink& events) {
  const Module& module = planned.prepared.inference;
  const runtime::WantedMeasures wanted{.own = files, .all = !args.on.empty()};
  XRUN_ASSIGN(const std::vector<std::string> names, sources_to_measure(module, args, wanted));
  XRUN_TRY(check_roc(module, names, wanted, args));
  std::vector<Ranking> rankings;
  if (wants_classes(args)) {
    XRUN_TRY(check_class_files(args));
    XRUN_ASSIGN(rankings, find_rankings(planned));
  }
  XRUN_TRY(check_checkpoint(planned, args.file, args.anyway, info));
  XRUN_ASSIGN(const auto classes, trained_classes(planned, *info));
  XRUN_ASSIGN(const auto devices, start_devices(planned, planned.plan.inference));
  XRUN_ASSIGN(const auto sources,
              open_row_sources(planned, names, {classes, info->manifest.scales}, events, {.measures = wanted}));
  XRUN_ASSIGN(const auto session, open_session(planned, *devices, *info, events));
  std::vector<runtime::RowSource*> pointers;
  for (const auto& source : sources) {
    pointers.push_back(source.get());
  }
  if (!wants_classes(args)) {
    XRUN_ASSIGN(auto evaluation, runtime::evaluate(*session, pointers, &events, nullptr, {}, wanted));
    XRUN_TRY(args.roc.empty() ? Status() : write_roc(args.roc, evaluation.verified));
    return Measurement{.evaluation = std::move(evaluation), .step = info->manifest.step};
  }
  Classification classification(*session, rankings, classes);
  XRUN_ASSIGN(auto evaluation, runtime::evaluate(
                                   *session, pointers, &events, nullptr,
                                   [&](runtime::RowSource& source, int64_t done, int64_t count) {
                                     return classification.add(source, done, count);
                                   },
                                   wanted));
  XRUN_TRY(write_class_files(args, classification.sources()));
  XRUN_TRY(args.roc.empty() ? Status() : write_roc(args.roc, evaluation.verified));
  return Measurement{std::move(evaluation), info->manifest.step, classification.sources()};
}

}  // namespace

Outcome<int> run_eval(const GlobalOptions& options, const EvalArgs& args) {
  const Console console(options);
  const auto info = runtime::open_checkpoint(args.checkpoint);
  XRUN_ASSIGN(PlannedModel planned, plan_for(info, args.file, options, console));
  XRUN_ASSIGN(const auto files, add_pair_files(planned, args));
  const auto progress = make_progress(options.progress, console);
  auto result = measure(planned, args, files, info, *progress);
  progress->on(runtime::WorkEvent{});
  XRUN_ASSIGN(const Measurement measured, with_sources(std::move(result), planned.model.sources));
  for (const auto& [source, broken] : measured.evaluation.broken) {
    report_broken(broken, console);
  }
  console.out(console.json() ? json_of(measured, args) : text_of(measured, args, console.unicode()));
  return 0;
}

}  // namespace xrun::cli
