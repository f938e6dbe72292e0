// Clocks of the simulator's units of work. All units of a clock run at one speed, which may change while they run, so a
// change of speed costs the same for one unit and for a thousand.
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "graph/base/units.h"

namespace xrun::planner {

// Times are those of the simulated step, and never decrease from one call to the next.
class WorkClocks {
 public:
  // Adds a clock on which work takes the time that it takes alone, and returns its number.
  size_t add();
  // Begins a unit on a clock; `work` is the time that it takes alone.
  void begin(size_t clock, size_t unit, Seconds work, Seconds now);
  // Sets how many times longer the work of a clock takes than alone, from `now` on.
  void set_slowness(size_t clock, double slowness, Seconds now);

  bool idle() const { return ends_.empty(); }
  // Returns the time at which the next unit ends. REQUIRES: !idle().
  Seconds next_end() const { return ends_.begin()->first; }
  struct Ended {
    size_t clock = 0;
    size_t unit = 0;
  };
  // Removes the unit that ends next. REQUIRES: !idle().
  Ended end_next();

 private:
  // A clock shows the work that a unit could have done since the step began. It shows `since - lag` at the time
  // `since`, when its slowness was last set, and has advanced at 1 / `slowness` of real time from then on.
  struct Clock {
    double slowness = 1;
    Seconds since = 0;
    Seconds lag = 0;
    std::set<std::pair<Seconds, size_t>> units;  // (what the clock shows when the unit ends, unit)
    Seconds end = 0;                             // the entry of the clock in `ends_`, if it has units

    // At the usual slowness, both conversions only add the lag, so that they round as little as possible.
    Seconds shown(Seconds now) const { return slowness == 1 ? now - lag : since - lag + (now - since) / slowness; }
    Seconds time(Seconds shown) const {
      return slowness == 1 ? shown + lag : since + (shown - (since - lag)) * slowness;
    }
  };
  void update_end(size_t clock);

  std::vector<Clock> clocks_;
  std::set<std::pair<Seconds, size_t>> ends_;  // (time of the next end, clock) of each clock that has units
};

}  // namespace xrun::planner
