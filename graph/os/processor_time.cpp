#include "graph/os/processor_time.h"

#include <ctime>

namespace xrun {
namespace {

Seconds time_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Seconds thread_processor_time() { return time_of(CLOCK_THREAD_CPUTIME_ID); }

Seconds process_processor_time() { return time_of(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace xrun
