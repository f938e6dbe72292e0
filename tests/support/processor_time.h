// Processor time, for tests that bound how long something takes: other processes may use the cores.
#pragma once

#include <ctime>

#include "graph/base/units.h"

namespace xrun::testing {

/// Returns the processor time that the calling thread has used.
inline Seconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace xrun::testing
