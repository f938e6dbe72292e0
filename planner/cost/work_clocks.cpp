// Tests: tests/planner/cost/simulate_test.cpp, tests/planner/cost/simulate_random_test.cpp
#include "planner/cost/work_clocks.h"

namespace xrun::planner {

size_t WorkClocks::add() {
  clocks_.emplace_back();
  return clocks_.size() - 1;
}

void WorkClocks::begin(size_t clock, size_t unit, Seconds work, Seconds now) {
  Clock& on = clocks_[clock];
  const auto place = on.units.emplace(on.shown(now) + work, unit).first;
  if (place == on.units.begin()) {
    update_end(clock);
  }
}

void WorkClocks::set_slowness(size_t clock, double slowness, Seconds now) {
  Clock& changed = clocks_[clock];
  if (slowness == changed.slowness) {
    return;
  }
  changed.lag = now - changed.shown(now);
  changed.since = now;
  changed.slowness = slowness;
  update_end(clock);
}

WorkClocks::Ended WorkClocks::end_next() {
  const size_t clock = ends_.begin()->second;
  auto& units = clocks_[clock].units;
  const Ended ended{clock, units.begin()->second};
  units.erase(units.begin());
  update_end(clock);
  return ended;
}

void WorkClocks::update_end(size_t clock) {
  Clock& changed = clocks_[clock];
  ends_.erase({changed.end, clock});
  if (!changed.units.empty()) {
    changed.end = changed.time(changed.units.begin()->first);
    ends_.emplace(changed.end, clock);
  }
}

}  // namespace xrun::planner
