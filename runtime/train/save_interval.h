// When a run is saved that leaves it to the program: `checkpoint.every = auto(mtbf=24h)`.
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/units.h"

namespace xrun::runtime {

// The time between two saves at which saving, and doing again what a failure undoes, cost least together. `save`: what
// one costs. Source: Daly, A higher order estimate of the optimum checkpoint interval, 2006.
Seconds best_interval(Seconds save, Seconds mtbf);

// Counts in steps, so that all ranks ask for the time in the same step, of one of them. Its times are of any one clock.
// Threads: one.
class SaveInterval {
 public:
  // What was seen in a step in which somebody looked at the clock.
  struct Look {
    bool save = false;
    int64_t next = 0;  // the step to look again; without meaning before a save
  };

  explicit SaveInterval(Seconds mtbf) : mtbf_(mtbf) {}

  // `step` steps are done, and nothing of what follows is saved.
  void begin(int64_t step, Seconds now);
  // Whether to look at the clock now that `step` steps are done. The same on all ranks.
  bool looks(int64_t step) const { return step >= next_; }
  // REQUIRES: looks(step).
  Look look(int64_t step, Seconds now) const;
  // The look of this rank, or of the one that all follow.
  void follow(const Look& look) { next_ = look.next; }
  // A save took `cost` and is over, for whatever reason it was made.
  void saved(int64_t step, Seconds now, Seconds cost);

  // From one save to the next.
  Seconds seconds() const { return best_interval(cost_, mtbf_); }

 private:
  Seconds mtbf_;
  Seconds cost_ = 1;   // of a save; a guess until one has been made
  Seconds since_ = 0;  // when the steps began that are not saved
  int64_t first_ = 0;  // of these steps
  int64_t next_ = 0;
};

// A look as text, and back, to be told to other ranks.
std::string to_text(const SaveInterval::Look& look);
SaveInterval::Look look_of(const std::string& text);

}  // namespace xrun::runtime
