#include "graph/os/clock.h"

#include <chrono>

namespace xrun {

Seconds Clock::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const Clock& system_clock() {
  static const Clock clock;
  return clock;
}

}  // namespace xrun
