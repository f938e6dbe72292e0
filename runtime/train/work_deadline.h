// Learns how long the steps, saves and evaluations of a run take, and from that decides when one is late and when it
// hangs: if a disk does not answer or a worker waits forever, the process stays alive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "graph/base/units.h"
#include "runtime/train/events.h"

namespace xrun::runtime {

// The second longest of the last durations: one slow step alone changes nothing, but a longer kind of step that comes
// now and then is learned.
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

// Counts only time in which this rank does not wait for another one: if ranks wait for one another, only the one that
// holds up the others counts. All times come from one clock.
// Threads: one.
class WorkDeadline {
 public:
  static constexpr Seconds kLeast = 3;       // work is never late before that
  static constexpr Seconds kUnknown = 60;    // work without a usual time is late after that
  static constexpr double kLate = 5;         // late after this multiple of the usual time
  static constexpr double kHangs = 20;       // hangs after this multiple of the usual time
  static constexpr Seconds kMostPassed = 1;  // between two looks; in the time beyond, this process was suspended

  // Steps, saves and evaluations hang after `timeout`, but not before kHangs usual times; 0: never. Other work, such as
  // opening data, may take any time; it is late after `timeout`.
  explicit WorkDeadline(Seconds timeout) : timeout_(timeout) {}

  // Records work that the trainer has reported; the previous work has ended.
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
    Seconds seconds = 0;  // since this cause applies, or since the work began
    Seconds usual = 0;    // usual duration of such work; 0: unknown
  };
  // Call several times a second. A rank that waits for others is never late; it hangs after twice the time, since ranks
  // may also wait for one another forever.
  State look(Seconds now, Cause cause);

 private:
  static bool has_deadline(Work work) {
    return work == Work::kData || work == Work::kStep || work == Work::kSave || work == Work::kEvaluate;
  }
  // The wait for its data is part of the step.
  static Work learned_as(Work work) { return work == Work::kData ? Work::kStep : work; }

  const Seconds timeout_;
  std::map<Work, UsualTime> usual_;
  Work work_ = Work::kNone;
  int64_t done_ = 0;
  Seconds began_ = 0;  // start of the step or of the work
  Seconds looked_ = 0;
  Cause cause_ = Cause::kOwn;
  Seconds lasts_ = 0;  // start of the cause
};

}  // namespace xrun::runtime
