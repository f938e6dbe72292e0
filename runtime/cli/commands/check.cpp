// `xrun check`: reports every mistake with its place and its fix, then the file's tests.
// Tests: tests/runtime/cli/commands/command_test.cpp
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "graph/base/utf8.h"
#include "ops/norm/norm_numbers.h"
#include "ops/op.h"
#include "runtime/cli/commands/check_data.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/model/load.h"
#include "runtime/cli/model/model_text.h"
#include "runtime/cli/show/sarif.h"

namespace xrun::cli {
namespace {

// The last line of the report. `later`: number of parts of the model that this build cannot execute.
std::string summary(const LoadedModel& model, size_t later) {
  std::string files;
  for (const SourceDigest& source : model.file.module.sources) {
    files += (files.empty() ? "" : ", ") + printable_line(source.path);
  }
  const auto& tests = model.file.tests;
  std::string line = fmt::format("  ok{}   {}", later == 0 ? "" : ", but this build cannot train it", files);
  if (!tests.empty()) {
    line += fmt::format("   {} {} passed", tests.size(), tests.size() == 1 ? "test" : "tests");
  }
  const Graph& graph = model.file.module.graph;
  if (!model.file.module.model.empty()) {
    line += fmt::format("   {} tensors, {} parameters", graph.params.size(), format_count(graph.parameter_count()));
  }
  return line + "\n";
}

std::string summary_json(const LoadedModel& model, size_t later) {
  nlohmann::ordered_json json{{"v", 1}, {"files", nlohmann::ordered_json::array()}};
  for (const SourceDigest& source : model.file.module.sources) {
    json["files"].push_back(source.path);
  }
  json["tests"] = model.file.tests.size();
  json["tensors"] = model.file.module.graph.params.size();
  json["parameters"] = model.file.module.graph.parameter_count();
  json["not_yet"] = later;
  return json_line(json);
}

// Adds the faults of one file to the log. Returns 0, or the exit code.
int log_file(const std::string& path, const GlobalOptions& options, bool strict, SarifLog& log) {
  if (const auto fault = find_fault(path)) {
    log.add(diagnostic_of(*fault), {});
    return exit_code(fault->kind);
  }
  LoadedModel model;
  Diagnostics diagnostics;
  auto file = lang::load(path, model.sources, diagnostics,
                         {.ops = &ops::registry(),
                          .norm_of = ops::norm_group,
                          .run = options.run,
                          .sets = options.sets,
                          .cluster = options.cluster,
                          .schedule = options.schedule,
                          .strict = strict});
  bool has_fault = !file || (strict && !diagnostics.all().empty());
  if (!has_fault) {
    model.file = std::move(*file);
    const Diagnostics later = unfinished_parts(model, strict ? Severity::kError : Severity::kWarning);
    for (const Diagnostic& part : later.all()) {
      diagnostics.add(part);
    }
    has_fault = diagnostics.has_errors();
  }
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    log.add(diagnostic, model.sources);
  }
  return has_fault ? exit_code(ErrorKind::kContent) : 0;
}

// Prints one document about all files to stdout, for `--format sarif`.
Outcome<int> check_to_sarif(const GlobalOptions& options, const CheckArgs& args, const Console& console) {
  if (args.data) {
    return usage_error("XG0906", "SARIF output cannot describe faults of the data",
                       "leave `--data` out, or ask for JSON: --format json");
  }
  SarifLog log;
  int worst = 0;
  for (const std::string& file : args.files) {
    worst = std::max(worst, log_file(file, options, args.strict, log));
  }
  console.out_json(log.text(XRUN_VERSION));
  return worst;
}

// Checks one file and prints its summary. Returns the exit code of the check of its data; 0 without --data.
Outcome<int> check_file(const std::string& path, const GlobalOptions& options, const CheckArgs& args,
                        const Console& console) {
  XRUN_ASSIGN(const LoadedModel model, load_model(path, options, console, args.strict));
  // Parts that cannot be executed are reported only if the file has no mistakes. With --strict they are errors.
  Diagnostics later = unfinished_parts(model, args.strict ? Severity::kError : Severity::kWarning);
  if (later.has_errors()) {
    return Failure(std::move(later), model.sources);
  }
  const size_t parts = later.all().size();
  console.out(console.json() ? summary_json(model, parts) : summary(model, parts));
  console.report(later, model.sources);
  return args.data ? check_data(model, console) : 0;
}

}  // namespace

Outcome<int> run_check(const GlobalOptions& options, const CheckArgs& args) {
  const Console console(options);
  if (options.format == "sarif") {
    return check_to_sarif(options, args, console);
  }
  int worst = 0;
  for (const std::string& file : args.files) {
    const Outcome<int> checked = check_file(file, options, args, console);
    worst = std::max(worst, checked.ok() ? *checked : console.fail(checked.error()));
  }
  return worst;
}

}  // namespace xrun::cli
