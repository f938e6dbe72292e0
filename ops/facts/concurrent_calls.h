// Times a call in one or more threads that make it at the same time, each with operands of its own, as the workers of a
// training step do. They share the bandwidth of memory, the last-level cache and the frequency of the processor.
#pragma once

#include <functional>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::ops {

// A call with the operands of one thread. `before` runs before each timed call and is not timed. Both functions own the
// operands and are used only by the thread that made them.
struct TimedCall {
  std::function<void()> before;
  std::function<Status()> run;
};

// Returns the median time of a few calls, in processor time, over all threads. `make` is called once in each thread.
// The threads begin each call together. If the system refuses some of the threads, there are fewer. With one thread the
// calls run in the caller's thread.
// Errors: those of `make` and of the call.
Result<Seconds> time_calls(int threads, const std::function<Result<TimedCall>()>& make);

}  // namespace xrun::ops
