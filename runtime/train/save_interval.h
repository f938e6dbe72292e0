// Decides when to save with `checkpoint.every = auto(mtbf=24h)`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph/base/units.h"

namespace xrun::runtime {

// The time between two saves that minimises the cost of saving plus that of repeating steps lost by failures. `save`:
// the duration of one save. Source: Daly, A higher order estimate of the optimum checkpoint interval, 2006.
Seconds best_interval(Seconds save, Seconds mtbf);

// Decides after which steps to save, so that all ranks save after the same step although their clocks differ. All ranks
// know the next step at which the decision is made (`looks`); there one rank reads its clock, decides (`look`), and
// sends the decision to the others, and all ranks adopt it (`follow`). All times passed in come from one clock.
// Threads: one.
class SaveInterval {
 public:
  // A decision, made by the rank that has read its clock.
  struct Look {
    bool save = false;
    int64_t next = 0;  // the step at which to read the clock again; meaningless if `save` is true
  };

  // `bytes`: bytes that this process writes in a save. Until a save has been reported, its duration is estimated from
  // `bytes` for a disk of 1 GB/s.
  SaveInterval(Seconds mtbf, Bytes bytes) : mtbf_(mtbf) { took(static_cast<Seconds>(bytes) / 1e9); }

  // Begins a new interval at time `now`, when `step` steps are done and saved, or need no save.
  void begin(int64_t step, Seconds now);
  // Whether to read the clock now that `step` steps are done. The result is equal on all ranks.
  bool looks(int64_t step) const { return step >= next_; }
  // The decision at time `now`. REQUIRES: looks(step).
  Look look(int64_t step, Seconds now) const;
  // Adopts a decision, which may come from another rank.
  void follow(const Look& look) { next_ = look.next; }
  // Records the duration of a save, whatever its reason.
  //   cost    the time by which it delayed steps
  //   length  for a background save: the time until it is durable, for which the next save must wait
  void took(Seconds cost, Seconds length = 0);

  // The time from one save to the next.
  Seconds seconds() const { return std::max(best_interval(cost_, mtbf_), length_); }

 private:
  Seconds mtbf_;
  Seconds cost_ = 0;  // cost of a save
  Seconds length_ = 0;
  Seconds since_ = 0;  // when this interval began
  int64_t first_ = 0;  // steps done at that time
  int64_t next_ = 0;
};

// A decision as text and back, to send it to other ranks.
std::string to_text(const SaveInterval::Look& look);
SaveInterval::Look look_of(const std::string& text);

}  // namespace xrun::runtime
