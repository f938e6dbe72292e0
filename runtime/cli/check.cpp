// `xrun check`: reports every mistake with its place and its fix, then the file's tests.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/units.h"
#include "graph/base/utf8.h"
#include "runtime/cli/check_data.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/load.h"

namespace xrun::cli {
namespace {

// `later`: the number of parts of the model that this build cannot execute.
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

}  // namespace

int run_check(const GlobalOptions& options, const CheckArgs& args) {
  const Console console(options);
  int worst = 0;
  for (const std::string& file : args.files) {
    int exit = 0;
    const auto model = load_model(file, options, console, args.strict, exit);
    worst = std::max(worst, exit);
    if (!model) {
      continue;
    }
    // Only for a file without mistakes. With --strict, parts that this build cannot train are errors.
    const Diagnostics later = unfinished_parts(*model, args.strict ? Severity::kError : Severity::kWarning);
    if (later.has_errors()) {
      console.report(later, model->sources);
      worst = std::max(worst, exit_code(ErrorKind::kContent));
      continue;
    }
    const size_t parts = later.all().size();
    console.out(console.json() ? summary_json(*model, parts) : summary(*model, parts));
    console.report(later, model->sources);
    if (args.data) {
      worst = std::max(worst, check_data(*model, console));
    }
  }
  return worst;
}

}  // namespace xrun::cli
