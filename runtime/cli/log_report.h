// The output of `xrun show DIR/log.jsonl`: figures and curves from the log of a run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/result.h"

namespace xrun::cli {

// A quantity over the steps of a run. While it has more than kMost points, every other one is dropped.
class Series {
 public:
  static constexpr size_t kMost = 8192;

  void add(int64_t step, double value);
  // Drops the points after this step, because a run went on from an earlier checkpoint.
  void cut(int64_t step);
  const std::vector<std::pair<int64_t, double>>& points() const { return points_; }

 private:
  std::vector<std::pair<int64_t, double>> points_;
  int64_t stride_ = 1;  // one of this many points is kept
  int64_t seen_ = 0;
};

// A graph of nearest classes that the run has used, from its event (docs/reference/command/progress.md, "Progress").
struct LoggedGraph {
  int64_t step = 0;
  std::string head;
  int64_t of_step = 0;
  double recall = 1;
  double seconds = 0;
  double waited = 0;
};

struct RunLogSummary {
  int runs = 0;           // starts
  int64_t steps = 0;      // steps of the whole run
  int64_t last_step = 0;  // the last that was reached
  // Time of all runs: a run without an `end` event, which goes on or was killed, counts until its last event.
  double seconds = 0;
  bool ended = false;   // the last run has an `end` event
  int64_t damaged = 0;  // lines that are not an event
  std::vector<std::string> warnings;
  std::vector<LoggedGraph> graphs;
  // "loss", "lr", "images_per_s", metrics of batches, and for the active classes "HEAD.active", ".near", ".common",
  // ".mass".
  std::map<std::string, Series> training;
  std::map<std::string, Series> evaluation;  // index: key
};

// Reads a log line by line; lines above 1 MiB count as damaged. Drops the steps that a later start repeats. Errors:
// kContent XG0909 the file cannot be read or has no `start` event.
Result<RunLogSummary> read_log(const std::string& path);

// Figures and a curve of each quantity, for a terminal of `columns` columns.
std::string log_text(const std::string& path, const RunLogSummary& log, int columns, bool unicode);
// {v, runs, steps, last_step, seconds, ended, damaged, warnings, graphs: [{step, head, of_step, recall, seconds,
// waited_s}], training: {name: [[step, value], ...]}, evaluation}.
std::string log_json(const RunLogSummary& log);

}  // namespace xrun::cli
