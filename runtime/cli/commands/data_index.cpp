// `xrun data index`: writes the indices of tar shards next to them.
// Tests: tests/runtime/cli/commands/data_test.cpp
#include <chrono>
#include <fmt/format.h>
#include <mutex>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "graph/base/units.h"
#include "runtime/cli/commands/data.h"
#include "runtime/cli/console/console.h"
#include "runtime/data/readers/webdataset/index_shards.h"
#include "runtime/data/readers/webdataset/shard_paths.h"

namespace xrun::cli {
namespace {

constexpr size_t kMostFaults = 20;  // that are printed

// Reports every ten seconds how many shards are done. Any number of threads may call it.
class Progress {
 public:
  Progress(size_t shards, const Console& console) : shards_(shards), console_(console) {}

  void done() {
    const std::lock_guard lock(mutex_);
    ++done_;
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ >= std::chrono::seconds(10) && done_ < shards_) {
      told_ = now;
      console_.note(fmt::format("  {} of {} shards\n", format_count(static_cast<int64_t>(done_)),
                                format_count(static_cast<int64_t>(shards_))));
    }
  }

 private:
  std::mutex mutex_;
  size_t shards_;
  const Console& console_;
  size_t done_ = 0;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace

Outcome<int> run_data_index(const GlobalOptions& options, const DataIndexArgs& args) {
  const Console console(options);
  XRUN_ASSIGN(const auto shards, runtime::shard_paths("", args.paths));
  Progress progress(shards.size(), console);
  const auto indexed = runtime::index_shards(shards, args.all, [&] { progress.done(); });
  int exit = 0;
  size_t faults = 0;
  int64_t samples = 0, written = 0;
  for (const runtime::IndexedShard& shard : indexed) {
    if (shard.samples.ok()) {
      samples += *shard.samples;
      written += shard.written ? 1 : 0;
    } else if (++faults <= kMostFaults) {
      exit = std::max(exit, console.fail(shard.samples.error()));
    } else {
      exit = std::max(exit, exit_code(shard.samples.error().kind));
    }
  }
  if (console.json()) {
    console.out(json_line(
        {{"v", 1}, {"shards", shards.size()}, {"samples", samples}, {"written", written}, {"failed", faults}}));
    return exit;
  }
  const auto all = static_cast<int64_t>(shards.size() - faults);
  console.out(
      fmt::format("  {} with {}: {} written, {} valid already{}\n", counted(all, "shard"), counted(samples, "sample"),
                  written == 1 ? "1 index" : format_count(written) + " indices", format_count(all - written),
                  faults == 0 ? "" : fmt::format("; {} failed", counted(static_cast<int64_t>(faults), "shard"))));
  return exit;
}

void add_index_flags(CLI::App& command, DataIndexArgs& args) {
  command.add_option("paths", args.paths, "tar shards, patterns such as 'a-{000..127}.tar', or directories")
      ->required()
      ->type_name("FILE...");
  command.add_flag("--all", args.all, "also write indices that exist and are valid");
}

}  // namespace xrun::cli
