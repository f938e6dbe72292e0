// Tests: tests/runtime/cli/progress/progress_test.cpp
#include "runtime/cli/progress/work_watch.h"

#include <fmt/format.h>

#include "graph/base/counted.h"

namespace xrun::cli {

using runtime::Work;

void RecentRate::add(double time, int64_t done) {
  history_.emplace_back(time, done);
  while (history_.size() > 2 && time - history_.front().first > 30) {
    history_.pop_front();
  }
}

double RecentRate::per_second() const {
  if (history_.empty()) {
    return 0;
  }
  const auto& [first_time, first] = history_.front();
  const auto& [last_time, last] = history_.back();
  return last_time > first_time ? static_cast<double>(last - first) / (last_time - first_time) : 0;
}

void WorkWatch::begin(const runtime::WorkEvent& event, double time) {
  if (!same(event)) {
    subject_ = event.subject;
    began_ = time;
    rate_.clear();
  }
  work_ = event.work;
  done_ = event.done;
  total_ = event.total;
  moved_ = time;
  if (!of_steps() && total_ > 0) {
    rate_.add(time, done_);
  }
}

std::string WorkWatch::awaited() const {
  switch (work_) {
    case Work::kNone:
      return "";
    case Work::kOpen:
      return "the data of " + subject_;
    case Work::kData:
      return fmt::format("the data of step {}", format_count(done_ + 1));
    case Work::kStep:
      return fmt::format("step {}", format_count(done_ + 1));
    case Work::kEvaluate:
    case Work::kPredict:
    case Work::kConvert:
      return fmt::format("samples {}.. of {}", format_count(done_), subject_);
    case Work::kPrepare:
    case Work::kLoad:
    case Work::kSave:
    case Work::kCopy:
      break;
  }
  return subject_;
}

std::string WorkWatch::fields() const {
  switch (work_) {
    case Work::kNone:
      return "";
    case Work::kOpen:
      return "open source=" + subject_;
    case Work::kPrepare:
      return fmt::format("prepare what=\"{}\"", subject_);
    case Work::kLoad:
      return fmt::format("load what=\"{}\"", subject_);
    case Work::kSave:
      return fmt::format("save what=\"{}\"", subject_);
    case Work::kCopy:
      return fmt::format("copy what=\"{}\"", subject_);
    case Work::kData:
      return fmt::format("data step={} of={}", done_ + 1, total_);
    case Work::kStep:
      return fmt::format("step step={} of={}", done_ + 1, total_);
    case Work::kEvaluate:
      return fmt::format("evaluate source={} samples={} of={}", subject_, done_, total_);
    case Work::kPredict:
      return fmt::format("predict source={} samples={} of={}", subject_, done_, total_);
    case Work::kConvert:
      return fmt::format("convert source=\"{}\" samples={} of={}", subject_, done_, total_);
  }
  return "";
}

std::string WorkWatch::finished() const {
  switch (work_) {
    case Work::kOpen:
      return "Opened    " + subject_;
    case Work::kPrepare:
      return "Prepared  " + subject_;
    case Work::kLoad:
      return "Loaded    " + subject_;
    case Work::kEvaluate:
      return fmt::format("Measured  {}, {}", subject_, counted(total_, "sample"));
    case Work::kPredict:
      return fmt::format("Predicted {}, {}", subject_, counted(total_, "sample"));
    case Work::kConvert:
      return fmt::format("Converted {}, {}", subject_, counted(total_, "sample"));
    default:
      return "";
  }
}

}  // namespace xrun::cli
