// `xrun eval`: measure a checkpoint on sources of the file.
#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/json_progress.h"
#include "runtime/cli/planned.h"
#include "runtime/cli/progress.h"
#include "runtime/cli/run_sources.h"
#include "runtime/cli/trained_model.h"
#include "runtime/train/inference.h"

namespace xrun::cli {
namespace {

Status check_names(const Module& module, const std::vector<std::string>& names,
                   const std::vector<std::string>& measured) {
  for (const std::string& name : names) {
    if (std::find(measured.begin(), measured.end(), name) == measured.end()) {
      return usage_error("XG0413", "`" + name + "` is not a source that `train " + module.train.name + "` measures",
                         measured.empty() ? "name metrics in `train`, or an `eval` group"
                                          : fmt::format("one of: {}", fmt::join(measured, ", ")));
    }
  }
  return {};
}

std::string text_of(const runtime::Evaluation& evaluation) {
  std::string out;
  for (const runtime::MeasuredSource& one : evaluation.sources) {
    out +=
        fmt::format("  {}   {} samples{}{}\n", one.name, format_count(one.samples), one.synthetic ? ", synthetic" : "",
                    one.broken > 0 ? fmt::format("; {} broken left out", format_count(one.broken)) : "");
  }
  for (const runtime::Measured& one : evaluation.metrics) {
    out += fmt::format("{} {:.2f} %{}\n", one.key, 100 * one.value, one.synthetic ? " (synthetic)" : "");
  }
  return out;
}

std::string json_of(const runtime::Evaluation& evaluation) {
  nlohmann::ordered_json json{{"v", 1}};
  json.update(evaluation_json(evaluation.metrics, evaluation.sources));
  json["broken_samples"] = nlohmann::ordered_json::array();
  for (const auto& [source, rows] : evaluation.broken) {
    for (const runtime::BrokenRow& row : rows) {
      json["broken_samples"].push_back({{"source", source}, {"sample", row.sample}, {"message", row.message}});
    }
  }
  return json_line(json);
}

Result<runtime::Evaluation> measure(const PlannedModel& planned, const EvalArgs& args,
                                    const Result<runtime::CheckpointInfo>& info, runtime::EventSink& events) {
  const Module& module = planned.prepared.inference;
  const std::vector<std::string> measured = measured_sources(module);
  std::vector<std::string> names = args.on.empty() ? measured : args.on;
  for (size_t i = 0; i < names.size(); ++i) {  // a source that is named twice is measured once
    names.erase(std::remove(names.begin() + static_cast<std::ptrdiff_t>(i) + 1, names.end(), names[i]), names.end());
  }
  if (measured.empty()) {
    return content_error(
        "XG0413",
        "`train " + module.train.name + "` measures nothing" +
            (module.train.measured().empty() ? ""
                                             : ": its metrics are of sources other than `train`, and there is none"),
        module.train.measured().empty() ? "name metrics in `train`, or an `eval` group"
                                        : "declare another source in `data`");
  }
  XRUN_TRY(check_names(module, names, measured));
  XRUN_TRY(check_checkpoint(planned, args.file, args.anyway, info));
  XRUN_ASSIGN(const auto classes, runtime::read_class_names(*info));
  XRUN_ASSIGN(const auto devices, start_devices(planned.plan.inference));
  XRUN_ASSIGN(const auto sources, open_row_sources(planned, names, classes, events));
  XRUN_ASSIGN(const auto session, open_session(planned, *devices, *info, events));
  std::vector<runtime::RowSource*> pointers;
  for (const auto& source : sources) {
    pointers.push_back(source.get());
  }
  return runtime::evaluate(*session, pointers, &events);
}

}  // namespace

int run_eval(const GlobalOptions& options, const EvalArgs& args) {
  const Console console(options);
  int exit = 0;
  const auto info = runtime::open_checkpoint(args.checkpoint);
  const auto planned = plan_for(info, args.file, options, console, exit);
  if (!planned) {
    return exit;
  }
  const auto progress = make_progress(options.progress, console);
  const auto evaluation = measure(*planned, args, info, *progress);
  progress->on_work({});
  if (!evaluation.ok()) {
    return console.fail(evaluation.error(), planned->model.sources);
  }
  for (const auto& [source, broken] : evaluation->broken) {
    report_broken(broken, console);
  }
  console.out(console.json() ? json_of(*evaluation) : text_of(*evaluation));
  return 0;
}

}  // namespace xrun::cli
