// Tests: tests/cases/command_words_test.cpp
#include "runtime/cli/show/run_directory.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/checkpoint/tensors/describe.h"
#include "runtime/cli/show/log_report.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kLevels = 3;              // ckpt/NAME below the directory of -C takes two levels; one more for its parent
constexpr size_t kMostLooked = 10'000;  // most directories to search, since the named directory may contain anything

void look(const fs::path& directory, int levels, size_t& looked, std::vector<FoundRun>& runs) {
  if (++looked > kMostLooked) {
    return;
  }
  std::error_code ignored;
  FoundRun run{.directory = directory.native(),
               .has_checkpoint = runtime::is_checkpoint(directory.native()),
               .log = (directory / "log.jsonl").native()};
  if (!fs::is_regular_file(run.log, ignored)) {
    run.log.clear();
  }
  if (run.has_checkpoint || !run.log.empty()) {
    runs.push_back(std::move(run));
    return;
  }
  if (levels == 0) {
    return;
  }
  std::vector<fs::path> below;
  for (fs::directory_iterator at(directory, ignored), end; at != end; at.increment(ignored)) {
    if (at->is_directory(ignored)) {
      below.push_back(at->path());
    }
  }
  std::ranges::sort(below);
  for (const fs::path& one : below) {
    look(one, levels - 1, looked, runs);
  }
}

std::string list_of(const std::vector<FoundRun>& runs) {
  constexpr size_t kMostNamed = 6;
  std::string list;
  for (size_t i = 0; i < std::min(runs.size(), kMostNamed); ++i) {
    list += (i == 0 ? "" : ", ") + runs[i].directory;
  }
  return list + (runs.size() > kMostNamed ? fmt::format(" and {} more", runs.size() - kMostNamed) : "");
}

}  // namespace

std::vector<FoundRun> find_runs(const std::string& directory) {
  std::vector<FoundRun> runs;
  size_t looked = 0;
  look(directory, kLevels, looked, runs);
  return runs;
}

Result<std::string> describe_run(const std::string& directory, const Console& console) {
  const std::vector<FoundRun> runs = find_runs(directory);
  if (runs.empty()) {
    return content_error("XG0909", {"`{}` is a directory without a checkpoint and without a log", directory},
                         "name a model, a plan, or the directory of a run, such as ckpt/NAME");
  }
  if (runs.size() > 1) {
    return usage_error("XG0906", {"`{}` holds several runs: {}", directory, list_of(runs)},
                       {"name one of them: xrun show {}", runs[0].directory});
  }
  const FoundRun& run = runs[0];
  const bool json = console.json();
  std::string log;
  if (!run.log.empty()) {
    XRUN_ASSIGN(const RunLogSummary read, read_log(run.log));
    log = json ? log_json(read) : log_text(printable_line(run.log), read, console.columns(), console.unicode());
  }
  std::string checkpoint;
  if (run.has_checkpoint) {
    XRUN_ASSIGN(checkpoint, runtime::describe_checkpoint(run.directory, json));
  }
  if (!json) {
    return log + (log.empty() || checkpoint.empty() ? "" : "\n") + checkpoint;
  }
  using Json = nlohmann::ordered_json;
  return json_line({{"v", 1},
                    {"directory", run.directory},
                    {"log", log.empty() ? Json() : Json::parse(log)},
                    {"checkpoint", checkpoint.empty() ? Json() : Json::parse(checkpoint)}});
}

}  // namespace xrun::cli
