// Learns how long the steps, saves and evaluations of a run take, and decides from that when one is late and when it
// hangs. This finds processes that are alive but make no progress, because a disk does not answer or a worker waits
// forever.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "graph/base/units.h"
#include "runtime/train/events/step_events.h"

namespace xrun::runtime {

// Estimates the usual duration of a kind of work as the second longest of the last durations. So a single slow step
// changes nothing, but if some steps regularly take longer than others, their duration is learned.
class UsualTime {
 public:
  void add(Seconds duration);
  Seconds longest_but_one() const;  // 0: fewer than kLeast durations

 private:
  static constexpr size_t kKept = 64;
  static constexpr size_t kLeast = 3;
  std::array<Seconds, kKept> durations_{};
  size_t count_ = 0;  // all durations ever added
};

// Decides whether the current work of this rank is late or hangs. Time in which it waits for another rank does not
// count as late, so if one rank delays all others, only that rank is reported. All times come from one clock. Threads:
// one.
class WorkDeadline {
 public:
  static constexpr Seconds kLeast = 3;       // work is never late before this time
  static constexpr Seconds kUnknown = 60;    // work whose usual time is unknown is late after this time
  static constexpr double kLate = 5;         // work is late after this multiple of the usual time
  static constexpr double kHangs = 20;       // work never hangs before this multiple of the usual time
  static constexpr Seconds kMostPassed = 1;  // most time counted between two calls of `look`; if more has passed, this
                                             // process was suspended

  // Steps, saves and evaluations hang after `timeout`, but not before kHangs times their usual time. Other work, such
  // as opening data, never hangs, and is late after `timeout`. With a timeout of 0 no work hangs.
  explicit WorkDeadline(Seconds timeout) : timeout_(timeout) {}

  // Call when the trainer reports its next work: the previous work has ended.
  void begin(const WorkEvent& event, Seconds now);

  // The reason why this rank does not go on.
  enum class Cause : uint8_t {
    kOwn,       // its own work
    kOthers,    // it waits for a message of another rank
    kMessages,  // a call that sends or receives messages does not return
  };
  struct State {
    bool late = false;
    bool hangs = false;
    Work work = Work::kNone;
    Cause cause = Cause::kOwn;
    int64_t step = 0;     // counted from 1
    Seconds seconds = 0;  // time since this cause began to apply, or since the work began if that is later
    Seconds usual = 0;    // usual duration of such work; 0: unknown
  };
  // Call several times a second. A rank that waits for others is never late; it hangs after twice the time, since ranks
  // may also wait for one another forever.
  State look(Seconds now, Cause cause);

 private:
  static bool has_deadline(Work work) {
    return work == Work::kData || work == Work::kStep || work == Work::kSave || work == Work::kEvaluate;
  }
  // The kind of work whose usual time applies: waiting for data is part of a step.
  static Work learned_as(Work work) { return work == Work::kData ? Work::kStep : work; }

  const Seconds timeout_;
  std::map<Work, UsualTime> usual_;
  Work work_ = Work::kNone;
  int64_t done_ = 0;
  Seconds began_ = 0;  // start of the step or of the work
  Seconds looked_ = 0;
  Cause cause_ = Cause::kOwn;
  Seconds lasts_ = 0;  // how long the cause has applied
};

}  // namespace xrun::runtime
