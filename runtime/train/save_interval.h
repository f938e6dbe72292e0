// Decides when to save with `checkpoint.every = auto(mtbf=24h)`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "graph/base/units.h"

namespace xrun::runtime {

// Returns the time between two saves that minimises the cost of saving plus that of repeating lost steps. `save`: the
// duration of one save. Source: Daly, A higher order estimate of the optimum checkpoint interval, 2006.
Seconds best_interval(Seconds save, Seconds mtbf);

// Decides after which steps to save, so that all ranks save after the same step although their clocks differ. All ranks
// know the next step at which a decision is made (`looks`). At that step one rank reads its clock, decides (`look`),
// and sends the decision to the other ranks, and all ranks adopt it (`follow`). All times that are passed in come from
// one clock. Threads: one.
class SaveInterval {
 public:
  // A decision of the rank that has read its clock.
  struct Look {
    bool save = false;
    int64_t next = 0;  // the step of the next decision; meaningless if `save` is true
  };

  // `bytes`: number of bytes that this process writes in a save. Until a save has been reported, its duration is
  // estimated for a disk of 1 GB/s.
  SaveInterval(Seconds mtbf, Bytes bytes) : mtbf_(mtbf) { took(static_cast<Seconds>(bytes) / 1e9); }

  // Begins a new interval at time `now`, when `step` steps are done and either saved or not in need of a save.
  void begin(int64_t step, Seconds now);
  // Whether a decision is made after `step` steps. The result is equal on all ranks.
  bool looks(int64_t step) const { return step >= next_; }
  // Decides at time `now` on this rank's clock. REQUIRES: looks(step).
  Look look(int64_t step, Seconds now) const;
  // Adopts a decision of this rank or of another rank.
  void follow(const Look& look) { next_ = look.next; }
  // Records the duration of a save, whatever its reason.
  //   cost    the time by which the save delayed steps
  //   length  for a background save: the time until it was durable; the next save begins no earlier than that
  void took(Seconds cost, Seconds length = 0);

  // Returns the time from one save to the next.
  Seconds seconds() const { return std::max(best_interval(cost_, mtbf_), length_); }

 private:
  Seconds mtbf_;
  Seconds cost_ = 0;  // time by which a save delays steps
  Seconds length_ = 0;
  Seconds since_ = 0;  // time at which this interval began
  int64_t first_ = 0;  // number of steps done at that time
  int64_t next_ = 0;
};

// Converts a decision to text and back, to send it to other ranks.
std::string to_text(const SaveInterval::Look& look);
SaveInterval::Look look_of(const std::string& text);

}  // namespace xrun::runtime
