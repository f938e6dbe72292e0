// The current work with its start and its last progress, for heartbeats, reports of pauses, and bars of long work.
#pragma once

#include <deque>
#include <string>
#include <utility>

#include "runtime/train/events/step_events.h"

namespace xrun::cli {

// The rate of parts per second over the last 30 seconds.
class RecentRate {
 public:
  void add(double time, int64_t done);
  void clear() { history_.clear(); }
  double per_second() const;  // 0 while the rate is not known yet

 private:
  std::deque<std::pair<double, int64_t>> history_;
};

// Follows the work of a run by its events. Times are seconds of one clock.
class WorkWatch {
 public:
  // Whether the event belongs to the current work, not to another piece of work.
  bool same(const runtime::WorkEvent& event) const { return event.work == work_ && event.subject == subject_; }
  void begin(const runtime::WorkEvent& event, double time);
  // Whether the current work is complete when `next` begins. After failed work, no other work begins.
  bool through(const runtime::WorkEvent& next) const {
    return total_ > 0 ? done_ == total_ : next.work != runtime::Work::kNone;
  }
  // Records progress.
  void move(double time) { moved_ = time; }

  bool idle() const { return work_ == runtime::Work::kNone; }
  // Whether the work is a step or the wait for its data; the run's own bar shows these.
  bool of_steps() const { return work_ == runtime::Work::kData || work_ == runtime::Work::kStep; }
  // Whether the work pauses: nothing has happened for ten seconds.
  bool paused(double time) const { return !idle() && time - moved_ >= 10; }
  Seconds elapsed(double time) const { return time - began_; }
  Seconds still(double time) const { return time - moved_; }
  const std::string& subject() const { return subject_; }
  int64_t done() const { return done_; }
  int64_t total() const { return total_; }
  double rate() const { return rate_.per_second(); }

  std::string awaited() const;   // for reports of a pause: "step 12", "the data of train"
  std::string fields() const;    // for plain lines: "step step=12 of=300", "evaluate source=test samples=820 of=2000"
  std::string finished() const;  // for the log: "Measured  test, 2 000 samples"; empty: nothing is printed

 private:
  runtime::Work work_ = runtime::Work::kNone;
  std::string subject_;
  int64_t done_ = 0;
  int64_t total_ = 0;
  double began_ = 0;
  double moved_ = 0;
  RecentRate rate_;
};

}  // namespace xrun::cli
