// Tests: tests/runtime/cli/progress/run_log_test.cpp
#include "runtime/cli/show/log_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "graph/base/utf8.h"
#include "graph/os/regular_file.h"
#include "runtime/cli/console/console.h"
#include "runtime/formats/bounded_json.h"

namespace xrun::cli {
namespace {

using Json = nlohmann::json;
using SeriesByName = std::map<std::string, Series>;

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr size_t kMostSeries = 64;
constexpr size_t kMostWarnings = 100;
constexpr size_t kMostGraphs = 4096;
constexpr size_t kShownGraphs = 12;
constexpr double kMostSeconds = 1e9;
// The fields of a `step` event that are not drawn.
constexpr std::array<std::string_view, 15> kNotDrawn{"v",         "time",     "step",   "epoch",    "step_s",
                                                     "compute_s", "comm_s",   "busy_s", "bubble_s", "data_s",
                                                     "memory",    "resident", "t",      "eval_s",   "save_s"};

double number_in(const Json& event, const char* key) {
  const auto at = event.find(key);
  return at != event.end() && at->is_number() ? at->get<double>() : 0;
}

// Reads a step as a whole number that is not negative, since a file may contain any number.
int64_t step_in(const Json& event, const char* key) {
  return static_cast<int64_t>(std::clamp(number_in(event, key), 0.0, 1e15));
}

std::string text_in(const Json& event, const char* key) {
  const auto at = event.find(key);
  return at != event.end() && at->is_string() ? at->get<std::string>() : "";
}

void add_points(SeriesByName& series, const Json& values, int64_t step, const std::string& prefix = "") {
  for (const auto& [name, value] : values.items()) {
    const bool drawn = value.is_number() && std::ranges::find(kNotDrawn, name) == kNotDrawn.end();
    const std::string own = prefix + name;
    if (drawn && (series.contains(own) || series.size() < kMostSeries)) {
      series[own].add(step, value.get<double>());
    }
  }
}

// Adds the series about active classes of each head. The number of classes is called `active`, as in progress lines.
void add_active(SeriesByName& series, const Json& event, int64_t step) {
  const auto list = event.find("active");
  if (list == event.end() || !list->is_array()) {
    return;
  }
  for (const Json& one : *list) {
    if (!one.is_object() || text_in(one, "head").empty()) {
      continue;
    }
    Json values = one;
    if (const auto classes = one.find("classes"); classes != one.end()) {
      values["active"] = *classes;
      values.erase("classes");
    }
    add_points(series, values, step, text_in(one, "head") + ".");
  }
}

void add_graph(std::vector<LoggedGraph>& graphs, const Json& event) {
  if (graphs.size() < kMostGraphs) {
    graphs.push_back({.step = step_in(event, "step"),
                      .head = text_in(event, "head"),
                      .of_step = step_in(event, "of_step"),
                      .recall = std::clamp(number_in(event, "recall"), 0.0, 1.0),
                      .seconds = std::clamp(number_in(event, "seconds"), 0.0, kMostSeconds),
                      .waited = std::clamp(number_in(event, "waited_s"), 0.0, kMostSeconds)});
  }
}

// The time span of a run that has no `end` event so far; 0: it has no events.
struct OpenRun {
  double first = 0;
  double last = 0;

  double seconds() const { return std::clamp(last - first, 0.0, kMostSeconds); }
};

// Adds an event to the log. Returns false if the object is not an event.
bool add_event(RunLogSummary& log, OpenRun& open, const Json& event) {
  const std::string kind = event.is_object() && event.contains("t") && event["t"].is_string() ? event["t"] : "";
  const double time = kind.empty() ? 0 : number_in(event, "time");
  if (kind == "start") {
    log.seconds += open.seconds();
    open = {.first = time, .last = time};
    log.ended = false;
    ++log.runs;
    log.steps = step_in(event, "steps");
    log.last_step = step_in(event, "first_step");
    for (SeriesByName* series : {&log.training, &log.evaluation}) {
      for (auto& [name, one] : *series) {
        one.cut(log.last_step);
      }
    }
    std::erase_if(log.graphs, [&](const LoggedGraph& graph) { return graph.step > log.last_step; });
  } else if (kind == "step") {
    log.last_step = step_in(event, "step");
    add_points(log.training, event, log.last_step);
    add_active(log.training, event, log.last_step);
  } else if (kind == "eval" && event.contains("metrics") && event["metrics"].is_object()) {
    add_points(log.evaluation, event["metrics"], step_in(event, "step"));
  } else if (kind == "graph") {
    add_graph(log.graphs, event);
  } else if (kind == "warn" && event.contains("message") && event["message"].is_string()) {
    if (log.warnings.size() < kMostWarnings) {
      log.warnings.push_back(event["message"]);
    }
  } else if (kind == "end") {
    log.last_step = step_in(event, "step");
    log.seconds += std::clamp(number_in(event, "seconds"), 0.0, kMostSeconds);
    log.ended = true;
    open = {};
  }
  open.last = open.first > 0 && time > 0 ? time : open.last;
  return !kind.empty();
}

// Calls `take` with each line. A line that is too long is passed as an empty one. Returns false if the file cannot be
// read.
template <typename Take>
bool for_each_line(int file, const Take& take) {
  std::string line;
  bool too_long = false;
  std::array<char, 65536> buffer;
  for (ssize_t got = 0; (got = ::read(file, buffer.data(), buffer.size())) != 0;) {
    if (got < 0) {
      return false;
    }
    for (const char* at = buffer.data(); at != buffer.data() + got;) {
      const auto* const stop =
          static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(buffer.data() + got - at)));
      const char* const end = stop == nullptr ? buffer.data() + got : stop;
      too_long = too_long || line.size() + static_cast<size_t>(end - at) > kLongestLine;
      line.append(at, too_long ? at : end);
      if (stop != nullptr) {
        take(too_long ? std::string() : line);
        line.clear();
        too_long = false;
      }
      at = stop == nullptr ? end : end + 1;
    }
  }
  if (!line.empty()) {
    take(line);
  }
  return true;
}

// Draws a curve as rows of text, the highest values in the first row. Each column shows the mean of its steps.
std::string plot(const Series& one, int columns, bool unicode) {
  constexpr int kRows = 6;
  constexpr int kLabel = 12;
  const auto& points = one.points();
  const int width = std::clamp(columns - kLabel - 8, 16, 96);
  const int64_t first = points.front().first;
  const double span = static_cast<double>(std::max<int64_t>(1, points.back().first - first));
  std::vector<double> sums(static_cast<size_t>(width), 0);
  std::vector<int> counts(static_cast<size_t>(width), 0);
  for (const auto& [step, value] : points) {
    const auto column = static_cast<size_t>(static_cast<double>(step - first) / span * (width - 1));
    sums[column] += value;
    ++counts[column];
  }
  double low = INFINITY;
  double high = -INFINITY;
  for (size_t c = 0; c < sums.size(); ++c) {
    if (counts[c] > 0) {
      sums[c] /= counts[c];
      low = std::min(low, sums[c]);
      high = std::max(high, sums[c]);
    }
  }
  std::string text;
  for (int row = 0; row < kRows; ++row) {
    const std::string label = row == 0           ? fmt::format("{:.4g}", high)
                              : row == kRows - 1 ? fmt::format("{:.4g}", low)
                                                 : "";
    std::string line = fmt::format("    {:>{}} |", label, kLabel - 6);
    for (size_t c = 0; c < sums.size(); ++c) {
      const double height = high > low ? (sums[c] - low) / (high - low) : 0;
      const bool here = counts[c] > 0 && std::lround((1 - height) * (kRows - 1)) == row;
      line += here ? (unicode ? "\u2022" : "*") : " ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  const std::string begin = "step " + format_count(first);
  return text + fmt::format("    {:>{}}  {}{:>{}}\n", "", kLabel - 6, begin, format_count(points.back().first),
                            std::max<int>(1, width - static_cast<int>(begin.size())));
}

void add_series(std::string& text, const std::string& title, const SeriesByName& series, int columns, bool unicode) {
  bool first = true;
  for (const auto& [name, one] : series) {
    if (one.points().empty()) {
      continue;
    }
    text += first ? "\n  " + title + "\n" : "";
    first = false;
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [least, most] = std::ranges::minmax_element(one.points(), by_value);
    text += fmt::format("  {}   {:.6g} at step {}   least {:.6g} at step {}, most {:.6g} at step {}\n",
                        name == "images_per_s" ? "samples/s" : printable_line(name), one.points().back().second,
                        format_count(one.points().back().first), least->second, format_count(least->first),
                        most->second, format_count(most->first));
    text += least->second < most->second ? plot(one, columns, unicode) : "";
  }
}

void add_graphs(std::string& text, const std::vector<LoggedGraph>& graphs) {
  if (graphs.empty()) {
    return;
  }
  const size_t hidden = graphs.size() - std::min(graphs.size(), kShownGraphs);
  text += fmt::format("\n  graphs of nearest classes{}\n",
                      hidden > 0 ? fmt::format(": the last {} of {}", kShownGraphs, graphs.size()) : "");
  for (const LoggedGraph& graph : std::span(graphs).subspan(hidden)) {
    text += fmt::format(
        "  {}   used after step {}, built from the weights after step {}   recall {:.1f} %   in {}, waited {}\n",
        printable_line(graph.head), format_count(graph.step), format_count(graph.of_step), 100 * graph.recall,
        format_seconds(graph.seconds), format_seconds(graph.waited));
  }
}

nlohmann::ordered_json json_of(const std::vector<LoggedGraph>& graphs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const LoggedGraph& graph : graphs) {
    json.push_back({{"step", graph.step},
                    {"head", graph.head},
                    {"of_step", graph.of_step},
                    {"recall", graph.recall},
                    {"seconds", graph.seconds},
                    {"waited_s", graph.waited}});
  }
  return json;
}

nlohmann::ordered_json json_of(const SeriesByName& series) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, one] : series) {
    json[name] = one.points();
  }
  return json;
}

}  // namespace

void Series::add(int64_t step, double value) {
  if (!std::isfinite(value)) {
    return;
  }
  if (seen_++ % stride_ != 0) {
    return;
  }
  points_.emplace_back(step, value);
  if (points_.size() > kMost) {
    size_t kept = 0;
    for (size_t i = 0; i < points_.size(); i += 2) {
      points_[kept++] = points_[i];
    }
    points_.resize(kept);
    stride_ *= 2;
  }
}

void Series::cut(int64_t step) {
  std::erase_if(points_, [&](const auto& point) { return point.first > step; });
}

Result<RunLogSummary> read_log(const std::string& path) {
  const int file = open_regular(path);
  if (file < 0) {
    return content_error("XG0909", {"the log `{}` cannot be read: {}", path, std::strerror(-file)},
                         "name the log.jsonl of a run; it is next to its checkpoints");
  }
  RunLogSummary log;
  OpenRun open;
  const bool read = for_each_line(file, [&](const std::string& line) {
    const Json event = runtime::parse_json(line);
    log.damaged += event.is_discarded() || !add_event(log, open, event) ? 1 : 0;
  });
  ::close(file);
  if (!read || log.runs == 0) {
    return content_error("XG0909", {"`{}` is not the log of a run: it has no `start` event", path},
                         "name the log.jsonl of a run; it is next to its checkpoints");
  }
  log.seconds += open.seconds();
  return log;
}

std::string log_text(const std::string& path, const RunLogSummary& log, int columns, bool unicode) {
  std::string text = fmt::format("{}   {} {}   step {} of {}{}{}\n", path, log.runs, log.runs == 1 ? "run" : "runs",
                                 format_count(log.last_step), format_count(log.steps),
                                 log.seconds > 0 ? "   " + format_seconds(log.seconds) : "",
                                 log.ended ? "" : "   has not ended: it is still running, or was killed");
  if (log.damaged > 0) {
    text += fmt::format("  {} {}\n", format_count(log.damaged),
                        log.damaged == 1 ? "line is not an event" : "lines are not events");
  }
  add_series(text, "training", log.training, columns, unicode);
  add_graphs(text, log.graphs);
  add_series(text, "evaluation", log.evaluation, columns, unicode);
  for (const std::string& warning : log.warnings) {
    text += "\n  warning: " + printable_line(warning) + (&warning == &log.warnings.back() ? "\n" : "");
  }
  return text;
}

std::string log_json(const RunLogSummary& log) {
  return json_line({{"v", 1},
                    {"runs", log.runs},
                    {"steps", log.steps},
                    {"last_step", log.last_step},
                    {"seconds", log.seconds},
                    {"ended", log.ended},
                    {"damaged", log.damaged},
                    {"warnings", log.warnings},
                    {"graphs", json_of(log.graphs)},
                    {"training", json_of(log.training)},
                    {"evaluation", json_of(log.evaluation)}});
}

}  // namespace xrun::cli
