// Learns how long the steps, saves and evaluations of a run take, and decides from that when a step, save or evaluation
// is late and when it hangs. So it finds processes that are alive but make no progress, because a disk does not answer
// or a worker waits forever.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "graph/base/units.h"
#include "runtime/train/events/step_events.h"

namespace xrun::runtime {

// Estimates the usual duration of a kind of work as the second longest of its last durations. So a single slow step
// changes nothing, but if some steps regularly take longer than others, their duration is learned.
class UsualTime {
 public:
  void add(Seconds duration);
  Seconds longest_but_one() const;  // 0 if there are fewer than kLeast durations

 private:
  static constexpr size_t kKept = 64;
  static constexpr size_t kLeast = 3;
  std::array<Seconds, kKept> durations_{};
  size_t count_ = 0;  // number of durations that were ever added
};

// Decides whether the current work of this rank is late or hangs. Time during which the rank waits for another rank
// does not count as late, so if one rank delays all others, only that rank is reported. All times come from one clock.
// Threads: one.
class WorkDeadline {
 public:
  static constexpr Seconds kLeast = 3;       // work is never late before this duration
  static constexpr Seconds kUnknown = 60;    // work whose usual duration is unknown is late after this duration
  static constexpr double kLate = 5;         // work is late after this multiple of its usual duration
  static constexpr double kHangs = 20;       // work never hangs before this multiple of its usual duration
  static constexpr Seconds kMostPassed = 1;  // most time counted between two calls of `look`; if more has passed, this
                                             // process was suspended

  // Steps, saves and evaluations hang after `timeout`, but not before kHangs times their usual time. Other work, such
  // as opening data, never hangs, and is late after `timeout`. With a timeout of 0 no work hangs.
  explicit WorkDeadline(Seconds timeout) : timeout_(timeout) {}

  // Call when the trainer reports its next work, which means that the previous work has ended.
  void begin(const WorkEvent& event, Seconds now);

  // The reason why this rank does not make progress.
  enum class Cause : uint8_t {
    kOwn,       // its own work has not ended
    kOthers,    // it waits for a message from another rank
    kMessages,  // a call that sends or receives messages does not return
  };
  struct State {
    bool late = false;
    bool hangs = false;
    Work work = Work::kNone;
    Cause cause = Cause::kOwn;
    int64_t step = 0;     // number of the step, counted from 1
    Seconds seconds = 0;  // time since this cause began to apply, or since the work began if that is later
    Seconds usual = 0;    // usual duration of such work; 0: unknown
  };
  // Call several times a second. A rank that waits for others is never late; it hangs after twice the time limit, since
  // ranks may also wait for one another forever.
  State look(Seconds now, Cause cause);

 private:
  static bool has_deadline(Work work) {
    return work == Work::kData || work == Work::kStep || work == Work::kSave || work == Work::kEvaluate;
  }
  // The kind of work whose usual duration applies: waiting for data counts as part of a step.
  static Work learned_as(Work work) { return work == Work::kData ? Work::kStep : work; }

  const Seconds timeout_;
  std::map<Work, UsualTime> usual_;
  Work work_ = Work::kNone;
  int64_t done_ = 0;
  Seconds began_ = 0;  // time at which the step or the other work began
  Seconds looked_ = 0;
  Cause cause_ = Cause::kOwn;
  Seconds lasts_ = 0;  // how long the current cause has applied
};

}  // namespace xrun::runtime
