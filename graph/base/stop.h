// A flag that asks long work to end early.
#pragma once

#include <atomic>

#include "graph/base/result.h"

namespace xrun {

// Points to a flag that a signal handler may set to true to end the work early. Null if the work cannot be stopped.
using StopFlag = const std::atomic<bool>*;

// Returns the error kInterrupted once the flag is set. Threads: any.
inline Status check_stop(StopFlag stop) {
  if (stop != nullptr && stop->load(std::memory_order_relaxed)) {
    return Error{ErrorKind::kInterrupted, "", "stopped before it was done", "run again"};
  }
  return {};
}

}  // namespace xrun
