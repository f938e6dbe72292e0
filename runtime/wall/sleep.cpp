#include "runtime/wall/sleep.h"

#include <cerrno>
#include <cmath>
#include <ctime>
#include <sys/prctl.h>

namespace xrun::runtime {

Seconds wall_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::chrono::steady_clock::time_point time_point_of(Seconds time) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(time)));
}

void sleep_until(Seconds time) {
  const double whole = std::floor(time);
  const timespec deadline{.tv_sec = static_cast<time_t>(whole), .tv_nsec = static_cast<long>((time - whole) * 1e9)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

void wake_up_promptly() { ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); }

}  // namespace xrun::runtime
