// Sleeping until points in time of the monotonic clock.
#pragma once

#include <chrono>

#include "graph/base/units.h"

namespace xrun::runtime {

// The time since a fixed moment, by the clock of `sleep_until`.
Seconds wall_now();

// Returns the same time for waits with a timeout.
std::chrono::steady_clock::time_point time_point_of(Seconds time);

// Sleeps until `time`, which may have passed. A thread that sleeps until times that it computes from one another is
// late by at most the delay of one wake-up, since the delays do not add up.
void sleep_until(Seconds time);

// Lets the calling thread wake up without the delay of 50 microseconds with which the kernel collects wake-ups.
void wake_up_promptly();

}  // namespace xrun::runtime
