// The clock for waits with deadlines. Tests replace it with a clock that they advance themselves, so that hours pass in
// milliseconds.
#pragma once

#include "graph/base/units.h"

namespace xrun {

class Clock {
 public:
  virtual ~Clock() = default;
  /// The time since a fixed moment. It never decreases, and it does not advance while the machine sleeps. Threads: any.
  virtual Seconds now() const;
};

/// The monotonic clock of the system.
const Clock& system_clock();

}  // namespace xrun
