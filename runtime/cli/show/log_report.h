// The output of `xrun show DIR/log.jsonl`: figures and curves from the log of a run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/result.h"

namespace xrun::cli {

// The values of a quantity over the steps of a run. To bound its memory, it drops every other point when it exceeds
// kMost.
class Series {
 public:
  static constexpr size_t kMost = 8192;

  void add(int64_t step, double value);
  // Drops the points after this step. Used if a run went on from an earlier checkpoint, since it repeats the later
  // steps.
  void cut(int64_t step);
  const std::vector<std::pair<int64_t, double>>& points() const { return points_; }

 private:
  std::vector<std::pair<int64_t, double>> points_;
  int64_t stride_ = 1;  // one of `stride_` consecutive points is kept
  int64_t seen_ = 0;
};

// A graph of nearest classes that the run used, according to its event
// (docs/reference/command/progress.md, "Progress").
struct LoggedGraph {
  int64_t step = 0;
  std::string head;
  int64_t of_step = 0;
  double recall = 1;
  double seconds = 0;
  double waited = 0;
};

struct RunLogSummary {
  int runs = 0;           // number of times that the run was started
  int64_t steps = 0;      // steps of the whole run
  int64_t last_step = 0;  // the last step that the run has reached
  // Total time over all starts. A start without an `end` event is still running or was killed; its time counts until
  // its last event.
  double seconds = 0;
  bool ended = false;   // the last start has an `end` event
  int64_t damaged = 0;  // lines that are not an event
  std::vector<std::string> warnings;
  std::vector<LoggedGraph> graphs;
  // Index: "loss", "lr", "images_per_s", the name of a metric of batches, and for active classes "HEAD.active",
  // ".near", ".common", ".mass".
  std::map<std::string, Series> training;
  std::map<std::string, Series> evaluation;  // index: key of the metric
};

// Reads a log line by line; a line longer than 1 MiB counts as damaged. Steps that a later start repeats are dropped.
// Errors: kContent XG0909 the file cannot be read or has no `start` event.
Result<RunLogSummary> read_log(const std::string& path);

// The figures of the run and a curve for each quantity, for a terminal that is `columns` wide.
std::string log_text(const std::string& path, const RunLogSummary& log, int columns, bool unicode);
// The log as JSON: {v, runs, steps, last_step, seconds, ended, damaged, warnings, graphs: [{step, head, of_step,
// recall, seconds, waited_s}], training: {name: [[step, value], ...]}, evaluation}.
std::string log_json(const RunLogSummary& log);

}  // namespace xrun::cli
