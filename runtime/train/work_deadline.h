// Learns how long the steps, saves and evaluations of a run take, and from that when one of them is late, and when it
// hangs: a disk that does not answer and a worker that waits for ever leave the process alive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "graph/base/units.h"
#include "runtime/train/events.h"

namespace xrun::runtime {

// The longest but one of the last durations: one slow step teaches nothing, and a kind of step that is longer and comes
// every now and then is learned.
class UsualTime {
 public:
  void add(Seconds duration);
  Seconds longest_but_one() const;  // 0: fewer than kLeast durations

 private:
  static constexpr size_t kKept = 64;
  static constexpr size_t kLeast = 3;
  std::array<Seconds, kKept> durations_{};
  size_t count_ = 0;  // all that were added
};

// Counts only time in which this rank does not wait for another one: of ranks that wait for one another, the one that
// holds up the others counts alone. All times come from one clock.
// Threads: one.
class WorkDeadline {
 public:
  static constexpr Seconds kLeast = 3;       // work is late no earlier
  static constexpr Seconds kUnknown = 60;    // work that has no usual time is late after that
  static constexpr double kLate = 5;         // times the usual time
  static constexpr double kHangs = 20;       // times the usual time
  static constexpr Seconds kMostPassed = 1;  // between two looks; what is beyond, this process was stopped

  // Steps, saves and evaluations hang after `timeout`, and no earlier than kHangs usual times; 0: never. Other work,
  // such as opening data, may take any time; it is late after `timeout`.
  explicit WorkDeadline(Seconds timeout) : timeout_(timeout) {}

  // The trainer has reported this; the work before it has ended.
  void begin(const WorkEvent& event, Seconds now);

  // What keeps this rank from going on.
  enum class Cause : uint8_t {
    kOwn,       // its own work
    kOthers,    // it can do nothing until a message of another rank comes
    kMessages,  // a call that sends or receives messages does not return
  };
  struct State {
    bool late = false;
    bool hangs = false;
    Work work = Work::kNone;
    Cause cause = Cause::kOwn;
    int64_t step = 0;     // counted from 1
    Seconds seconds = 0;  // since the cause is this one, or since the work has begun
    Seconds usual = 0;    // of such work; 0: not known
  };
  // To be called several times a second. A rank that waits for others is never late; it hangs after twice the time,
  // since ranks may also wait for one another for ever.
  State look(Seconds now, Cause cause);

 private:
  static bool has_deadline(Work work) {
    return work == Work::kData || work == Work::kStep || work == Work::kSave || work == Work::kEvaluate;
  }
  // The wait for its data is a part of the step.
  static Work learned_as(Work work) { return work == Work::kData ? Work::kStep : work; }

  const Seconds timeout_;
  std::map<Work, UsualTime> usual_;
  Work work_ = Work::kNone;
  int64_t done_ = 0;
  Seconds began_ = 0;  // the step or the work
  Seconds looked_ = 0;
  Cause cause_ = Cause::kOwn;
  Seconds lasts_ = 0;  // the cause
};

}  // namespace xrun::runtime
